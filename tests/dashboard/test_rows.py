"""Rows of all groups, as a ticker has them from round to round, on a real database."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError

from dashboard.coordinator import rows as group_rows
from dashboard.coordinator.rows import Rows
from dashboard.live import groups as live_groups
from dashboard.live import together
from dashboard.models import Group
from tests.dashboard.agents import make_group, until
from tests.dashboard.test_resting import as_another, as_paused, with_a_request

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def rows(group: Group, monkeypatch: pytest.MonkeyPatch) -> Rows:
    """Read once; after that only when somebody says that one has changed."""
    one = Rows()
    one()
    queries = group_rows.read_rows

    def counted(*of: Any, **more: Any) -> Any:
        READ.append(of)
        return queries(*of, **more)

    READ.clear()
    monkeypatch.setattr(group_rows, "read_rows", counted)
    return one


READ: list[Any] = []


def as_stored(group: Group) -> None:
    group.events_cursor = "5-0"
    group.save(update_fields=["events_cursor"])
    Group.objects.filter(pk=group.pk).update(last_event_seq=7, missed_looks=1)


def as_asked_in_vain(group: Group) -> None:
    """As the record of each target does."""
    known = Group.objects.filter(pk=group.pk, incarnation__lt=group.incarnation)
    assert not known.update(incarnation=group.incarnation)


def as_saved(group: Group) -> None:
    group.settings = group.settings | {"grace_ms": 6_000}
    group.save(update_fields=["settings"])


def as_new(group: Group) -> None:
    make_group(f"{group.name}-new")


def as_deleted(group: Group) -> None:
    Group.objects.filter(pk=make_group(f"{group.name}-gone").pk).delete()


@pytest.mark.parametrize("happens", [as_another, as_paused, as_saved, as_new, as_deleted])
def test_a_row_that_changed_is_read_by_the_next_round(
    rows: Rows, group: Group, happens: Callable[[Group], None]
) -> None:
    before, _ = rows()
    assert not READ
    happens(group)
    READ.clear()
    found, _ = rows()
    assert len(READ) == 1 and found == group_rows.read_rows()[0]
    assert (found == before) is (happens is as_deleted)


def test_what_is_read_is_noted_for_ticks_without_a_database(group: Group) -> None:
    Rows()()
    until(lambda: live_groups.known_groups() == {group.name: group.incarnation})


def test_whether_they_are_the_same_may_be_asked_before(rows: Rows, group: Group) -> None:
    together.ask(rows.asked())
    as_another(group)
    rows()
    assert not READ
    rows()
    assert len(READ) == 1


@pytest.mark.parametrize("happens", [as_stored, as_asked_in_vain])
def test_what_no_tick_decides_by_is_no_change(
    rows: Rows, group: Group, happens: Callable[[Group], None]
) -> None:
    happens(group)
    rows()
    assert not READ


def test_requests_are_found_in_rows_that_are_as_they_were(rows: Rows, group: Group) -> None:
    assert not rows()[1]
    with_a_request(group)
    assert rows()[1] == {group.pk}
    assert not READ


def test_a_row_of_which_nobody_said_so_is_read_soon(
    rows: Rows, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_groups, "note_rows_changed", lambda: 1 / 0)
    as_another(group)
    before, _ = rows()
    monkeypatch.setattr(group_rows, "READ_S", 0.0)
    assert rows()[0] != before


def test_rows_of_while_the_database_was_away_are_read_again(
    rows: Rows, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*only: Any) -> Any:
        raise OperationalError("the database is away")

    with monkeypatch.context() as patch:
        patch.setattr(group_rows, "_asking", refused)
        assert [row.digest for row in rows()[0].values()] == [None]
        assert [row.digest for row in rows()[0].values()] == [None]
    assert [row.digest for row in rows()[0].values()] != [None]
