"""Entries that were made before there was a chain are chained, with the names of their groups."""

from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from dashboard.models import AuditEntry
from dashboard.records import chain, guards

pytestmark = pytest.mark.django_db(transaction=True)
NAMES = ("dashboard", "0012_audit_names")


def migrate(*target: str) -> None:
    call_command("migrate", *target, verbosity=0)


@pytest.fixture
def before() -> Iterator[MigrationExecutor]:
    """The database as it was before entries carried names."""
    executor = MigrationExecutor(connection)
    (parent,) = (node.key for node in executor.loader.graph.node_map[NAMES].parents)
    migrate(*parent)
    executor = MigrationExecutor(connection)
    yield executor
    migrate()


def test_entries_that_were_there_hold(before: MigrationExecutor) -> None:
    apps = before.loader.project_state(before.loader.graph.node_map[NAMES].parents.pop().key).apps
    group = apps.get_model("dashboard", "Group").objects.create(
        name="g", stream="g", partitions=1, settings={}, created_by="ann"
    )
    old = apps.get_model("dashboard", "AuditEntry").objects
    for number, of in enumerate((group, None)):
        old.create(
            at=timezone.now(),
            actor="ann",
            action="turn",
            object=f"wheel {number}",
            group=of,
            before={"b": 1e22, "a": [1, None]},
            source="page",
        )
    migrate()
    rows = list(AuditEntry.objects.order_by("seq"))
    assert [(row.seq, row.group, row.object) for row in rows] == [
        (1, "g", "wheel 0"),
        (2, "", "wheel 1"),
    ]
    assert rows[0].before == {"a": [1, None], "b": 1e22}
    assert chain.verify().ok
    assert guards.missing(connection) == []
