"""History is kept for a time: what ended before goes, every later moment stays as exact as it was,
and whoever asks for an earlier one is told so.
"""

import json
import random
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from pytest_django.fixtures import Settings

from dashboard import coordinator
from dashboard.coordinator import ownership, retention
from dashboard.live import groups as live_groups
from dashboard.models import Group, Tenure
from dashboard.pages import texts
from dashboard.records.queries import known
from dashboard.records.queries import ownership as queries
from tests.dashboard.api_v1.program import Program
from tests.dashboard.people import logged_in
from tests.dashboard.scenes import lived
from tests.dashboard.test_ownership_maps import cells

pytestmark = pytest.mark.django_db


@pytest.fixture
def group(store: Any, group_name: str, monkeypatch: pytest.MonkeyPatch) -> Group:
    """With a past, and a stored map for every ten events."""
    monkeypatch.setattr(ownership, "EVENTS_MIN", 10)
    monkeypatch.setattr(live_groups, "EVENTS_AT_ONCE", 7)
    return lived(group_name, store, random.Random(4), steps=70)


def moments(group: Group) -> list[int]:
    """Of every change, ascending."""
    found = set(group.tenures.values_list("started_ms", flat=True))
    found |= set(group.tenures.exclude(ended_ms=None).values_list("ended_ms", flat=True))
    return sorted(moment for moment in found if moment is not None)


@pytest.fixture
def middle_ms(group: Group) -> int:
    changes = moments(group)
    return changes[len(changes) // 2]


@pytest.fixture
def kept(
    group: Group, middle_ms: int, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Group:
    """A day after the middle of its history, of which a day is kept."""
    monkeypatch.setattr(retention, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(live_groups, "redis_now_ms", lambda *_: middle_ms + retention.DAY_MS)
    settings.HISTORY_DAYS = 1
    coordinator.retain()
    group.refresh_from_db()
    return group


@pytest.fixture
def visitor(db: None) -> Client:
    return logged_in(User.objects.create(username="ann", is_superuser=True))


def test_every_later_moment_is_as_it_was(
    group: Group, middle_ms: int, request: pytest.FixtureRequest
) -> None:
    changes = moments(group)
    before = {at_ms: cells(queries.at(group, at_ms)) for at_ms in changes}
    rows = {*group.tenures.values_list("pk", "ended_ms")}
    kept: Group = request.getfixturevalue("kept")
    assert changes[0] < kept.history_from_ms <= middle_ms
    later = [at_ms for at_ms in changes if at_ms >= kept.history_from_ms]
    assert {at_ms: cells(queries.at(kept, at_ms)) for at_ms in later} == {
        at_ms: before[at_ms] for at_ms in later
    }
    left = {(pk, end) for pk, end in rows if end is None or end >= kept.history_from_ms}
    assert {*kept.tenures.values_list("pk", "ended_ms")} == left != rows
    assert kept.maps.order_by("at_ms").values_list("at_ms", flat=True)[0] == kept.history_from_ms


def test_nothing_goes_while_nobody_asked_for_it(group: Group) -> None:
    before = Tenure.objects.count()
    assert coordinator.retain() == 0
    group.refresh_from_db()
    assert (Tenure.objects.count(), group.history_from_ms) == (before, 0)


def test_a_run_ends_in_time_and_the_next_goes_on(
    group: Group, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = group.tenures.count()
    monkeypatch.setattr(retention, "RUN_S", 0.0)
    kept: Group = request.getfixturevalue("kept")
    assert kept.tenures.count() == before, "there was no time for it"
    assert kept.history_from_ms, "but nobody is shown half a past"
    monkeypatch.setattr(retention, "RUN_S", 60.0)
    assert coordinator.retain() > 0
    assert not kept.tenures.filter(ended_ms__lt=kept.history_from_ms).exists()


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL reads a small table whole")
def test_rows_that_go_are_found_by_an_index(kept: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = list[str]()
    monkeypatch.setattr(retention, "_some", lambda rows: int(bool(plans.append(rows.explain()))))
    Group.objects.update(history_dropped_ms=0)
    coordinator.retain()
    assert "tenure_ended (group_id=? AND ended_ms<?)" in plans[0]
    assert "map_at (group_id=? AND at_ms<?)" in plans[1]


def test_what_was_dropped_stays_dropped(kept: Group, settings: Settings) -> None:
    since_ms = kept.history_from_ms
    settings.HISTORY_DAYS = 400
    Group.objects.update(history_dropped_ms=0)
    coordinator.retain()
    kept.refresh_from_db()
    assert kept.history_from_ms == since_ms


def test_a_group_of_which_nothing_is_old_begins_where_it_began(
    group: Group, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_ms = moments(group)[0]
    monkeypatch.setattr(live_groups, "redis_now_ms", lambda *_: first_ms + retention.DAY_MS)
    settings.HISTORY_DAYS = 1
    assert coordinator.retain() == 0
    group.refresh_from_db()
    assert group.history_from_ms == 0
    assert known.begins_ms(group) == first_ms


def test_who_was_looked_at_is_not_within_the_hour(
    kept: Group, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(1):
        assert coordinator.retain() == 0


PAGES = ("", "members/", "partitions/", "partitions/0/", "ownership/", "history/")


@pytest.mark.parametrize("page", PAGES)
def test_every_page_of_an_earlier_moment_says_from_when_on(
    kept: Group, visitor: Client, page: str
) -> None:
    said = "The history of this group is kept from"
    texts_of = [
        " ".join(visitor.get(f"/groups/{kept.name}/{page}?at={at_ms}").content.decode().split())
        for at_ms in (kept.history_from_ms - 1, kept.history_from_ms)
    ]
    assert [said in text for text in texts_of] == [True, False]
    assert texts.exact(kept.history_from_ms) in texts_of[0]


def test_the_map_of_an_earlier_moment_is_nobodys_and_unknown(kept: Group, visitor: Client) -> None:
    url = f"/groups/{kept.name}/map.bin?at={kept.history_from_ms - 1}"
    assert b'"known":false' in visitor.get(url).content.replace(b" ", b"")


def test_pages_of_ownership_over_time_say_it(kept: Group, visitor: Client) -> None:
    for page in ("ownership/", "partitions/0/", "history/?show=ownership"):
        assert (
            "Ownership is kept from" in visitor.get(f"/groups/{kept.name}/{page}").content.decode()
        )


def test_programs_are_told_in_a_sentence(kept: Group, visitor: Client) -> None:
    earlier = kept.history_from_ms - 1
    sentence = f"the history of group {kept.name} is kept from"
    program = Program.of(User.objects.get())
    for path in ("partitions", "partitions/0", "members"):
        answer = program.get(f"groups/{kept.name}/{path}", at=str(earlier))
        assert (answer.status_code, sentence in answer.content.decode()) == (422, True)
        answer = program.get(f"groups/{kept.name}/{path}", at=str(kept.history_from_ms))
        assert answer.status_code == 200
    with pytest.raises(CommandError, match=sentence):
        call_command("owner", kept.name, "0", at=str(earlier))
    hover = visitor.get(f"/groups/{kept.name}/partitions/0/owner.json?at={earlier}")
    assert (hover.status_code, sentence in json.loads(hover.content)["error"]) == (400, True)
