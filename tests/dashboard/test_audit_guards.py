"""What the database itself lets be done to the audit, and what is told when it could not."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.test import Client
from django.utils import timezone

from dashboard.models import AuditEntry, AuditHead
from dashboard.records import audit, chain, guards
from dashboard.records.stored import CHECKPOINT
from tests.dashboard.chained import sql, write

pytestmark = pytest.mark.django_db


def insert(seq: int, **values: Any) -> None:
    """Without the key."""
    given = {"mac": "0" * 64, "at": timezone.now(), "actor": "eve", "source": "page", **values}
    AuditEntry.objects.create(seq=seq, **given)


def names() -> list[str]:
    return list(guards.SQLITE if connection.vendor == "sqlite" else guards.POSTGRESQL)


def drop(name: str) -> None:
    table = guards.HEADS if "head" in name else guards.ENTRY
    sql(f"DROP TRIGGER {name}" + ("" if connection.vendor == "sqlite" else f" ON {table}"))


def mac_of(seq: int) -> str:
    return AuditEntry.objects.get(seq=seq).mac


@pytest.mark.parametrize(
    "change",
    [
        lambda: AuditEntry.objects.filter(seq=2).update(actor="bob"),
        lambda: AuditEntry.objects.filter(seq=2).delete(),
        lambda: AuditHead.objects.update(seq=1),
        lambda: AuditHead.objects.all().delete(),
        lambda: AuditHead.objects.update(through=99),
        lambda: AuditHead.objects.update(mac="x"),
        lambda: AuditHead.objects.update(seq=4),
        lambda: AuditHead.objects.update(through=2),
        lambda: AuditHead.objects.update(through=2, through_mac=mac_of(2)),
        lambda: AuditHead.objects.update(through_mac="x"),
        lambda: insert(3),
        lambda: insert(0),
        lambda: insert(-1),
    ],
)
def test_the_database_refuses_what_is_not_adding(change: Callable[[], object]) -> None:
    write(3)
    with pytest.raises(DatabaseError, match="only"), transaction.atomic():
        change()
    assert chain.verify().ok


def test_the_database_refuses_to_empty_or_replace() -> None:
    write(3)
    table = AuditEntry._meta.db_table
    all_at_once = (
        f"INSERT OR REPLACE INTO {table} SELECT * FROM {table} WHERE seq = 2"
        if connection.vendor == "sqlite"
        else f"TRUNCATE {table}"
    )
    with pytest.raises(DatabaseError, match="only added"):
        sql(all_at_once)


def test_the_database_refuses_an_entry_where_a_checkpoint_removed_some() -> None:
    write(3)
    audit.remove_before(timezone.now())
    with pytest.raises(DatabaseError, match="only"), transaction.atomic():
        insert(2)
    assert chain.verify().ok


@pytest.mark.parametrize("after", [{"through": 1, "mac": "x", "entries": 1}, None])
def test_the_head_goes_on_to_a_checkpoint_that_says_what_it_removed(after: Any) -> None:
    write(3)
    insert(4, action=CHECKPOINT, after=after)
    with pytest.raises(DatabaseError, match="only"), transaction.atomic():
        AuditHead.objects.update(seq=4, mac="0" * 64, through=2, through_mac=mac_of(2))


def test_who_imitates_a_checkpoint_without_the_key_breaks_the_chain() -> None:
    """All of it is what the application does too: no trigger can tell."""
    write(3)
    insert(4, action=CHECKPOINT, after={"through": 2, "mac": mac_of(2), "entries": 2})
    AuditHead.objects.update(seq=4, mac="0" * 64, through=2, through_mac=mac_of(2))
    assert AuditEntry.objects.filter(seq__lte=2).delete()[0] == 2
    assert "entry 4 was altered" in chain.verify().broken


@pytest.mark.skipif("connection.vendor != 'postgresql'")
def test_a_temporary_table_does_not_open_the_audit() -> None:
    write(4)
    sql(f"CREATE TEMP TABLE {guards.HEADS} AS TABLE public.{guards.HEADS}")
    sql(f"UPDATE pg_temp.{guards.HEADS} SET through = 99, seq = 0")
    try:
        with pytest.raises(DatabaseError, match="only added"):
            sql(f"DELETE FROM public.{guards.ENTRY} WHERE seq <= 3")
    finally:
        sql(f"DROP TABLE pg_temp.{guards.HEADS}")


@pytest.mark.skipif("connection.vendor != 'postgresql'")
@pytest.mark.parametrize("path", ["RESET search_path", "SET search_path = pg_temp, public"])
def test_a_function_that_looks_elsewhere_guards_nothing(unguarded: None, path: str) -> None:
    guards.put(connection)
    assert guards.missing(connection) == []
    sql(f"ALTER FUNCTION evenkeel_audit_removed() {path}")
    assert guards.missing(connection) == ["evenkeel_audit_delete"]


def test_triggers_come_back_with_the_next_migrate_which_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    write(1)
    call_command("migrate", verbosity=0)
    assert AuditEntry.objects.count() == 1
    drop("evenkeel_audit_update")
    call_command("migrate", verbosity=0)
    assert guards.missing(connection) == []
    entry = AuditEntry.objects.get(action="guard audit")
    assert entry.before == {"missing": ["evenkeel_audit_update"]}
    assert (entry.source, entry.object) == ("command", "audit")
    assert "the audit was not guarded, and is again: evenkeel_audit_update" in caplog.text
    assert chain.verify().ok


def test_a_trigger_that_refuses_no_longer_is_missing_too(unguarded: None) -> None:
    guards.put(connection)
    name = "evenkeel_audit_update"
    sql(
        f"DROP TRIGGER {name}"
        if connection.vendor == "sqlite"
        else f"ALTER TABLE {guards.ENTRY} DISABLE TRIGGER {name}"
    )
    assert guards.missing(connection) == [name]
    sql(
        f"CREATE TRIGGER {name} BEFORE UPDATE ON {guards.ENTRY} BEGIN SELECT 1; END"
        if connection.vendor == "sqlite"
        else f"ALTER TABLE {guards.ENTRY} ENABLE ALWAYS TRIGGER {name}"
    )
    if connection.vendor == "postgresql":
        sql(
            "CREATE OR REPLACE FUNCTION evenkeel_audit_never() RETURNS trigger LANGUAGE plpgsql"
            " AS $$ BEGIN RETURN NEW; END $$"
        )
    assert name in guards.missing(connection)


def test_ready_only_with_every_trigger(client: Client, store: Any, unguarded: None) -> None:
    for name in names():
        guards.put(connection)
        assert client.get("/readyz").json()["checks"]["audit"]
        drop(name)
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert any(
            f"1 triggers are missing or were changed ({name})" in why
            for why in answer.json()["why"]
        )
