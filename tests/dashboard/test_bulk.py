"""Many rows at once, on either database: what was given is there, and errors are Django's."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from dashboard.models import Group, Tenure
from dashboard.records import bulk

pytestmark = pytest.mark.django_db
TABLE = Tenure._meta.db_table
COLUMNS = ("group_id", "number", "partition", "member_id", "fence", "started_ms", "ended_ms", "end")
ODD = ("a\tb", "back\\slash", "line\nfeed", "\\N", "ünï")  # signs of COPY's own among them


@pytest.fixture
def group() -> Group:
    settings = {"stream": "s", "partitions": 8}
    return Group.objects.create(name="g", settings=settings, **settings)


def rows(group: Group) -> list[tuple[bulk.Value, ...]]:
    return [(group.pk, n, f"s:{n}", name, n + 1, 5, None, None) for n, name in enumerate(ODD)]


def test_every_value_comes_back_as_it_was(group: Group) -> None:
    bulk.insert(TABLE, COLUMNS, rows(group))
    assert list(group.tenures.order_by("number").values_list(*COLUMNS)) == rows(group)


def test_a_row_changes_by_its_id_alone(group: Group) -> None:
    bulk.insert(TABLE, COLUMNS, rows(group))
    first, second, *others = group.tenures.order_by("number").values_list("pk", flat=True)
    changed: list[tuple[int, int | None, str | None]] = [(second, 9, "released"), (first, 7, None)]
    bulk.update(TABLE, {"ended_ms": "bigint", "end": "varchar"}, changed)
    found = group.tenures.order_by("number").values_list("pk", "ended_ms", "end")
    assert list(found) == [*changed[::-1], *((pk, None, None) for pk in others)]


def test_nothing_costs_no_query(group: Group, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        bulk.insert(TABLE, COLUMNS, [])
        bulk.update(TABLE, {"ended_ms": "bigint"}, [])


def test_what_a_constraint_refuses_is_an_error_of_django(group: Group) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        bulk.insert(TABLE, COLUMNS, [*rows(group), *rows(group)[:1]])
    assert not group.tenures.exists()
