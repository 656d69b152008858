"""How far the work on a group is: when which part of it is read, and how old it may be."""

from typing import Any

import pytest

from assignment.types import Partition
from assignment.wire import GroupKeys
from dashboard.live import following, watching
from dashboard.live.cells import KEPT_MS
from dashboard.live.connection import GroupDamaged, sync_client
from dashboard.live.following import Following
from dashboard.models import Group
from dashboard.web.counts import counts
from tests.dashboard.agents import make_group
from tests.dashboard.scenes import staffed

pytestmark = pytest.mark.django_db


def test_of_a_large_group_only_who_goes_on_reads_more_than_the_part_that_is_due(
    six: Group, readings: list[tuple[Any, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "BUDGET_S", 60.0)
    followed = Following(six.name)
    followed.look()
    readings.clear()
    followed.look()
    assert readings == [(range(1, 2), True)], "a page waits for this"
    readings.clear()
    followed.read_progress()
    assert sorted(part.start for part, _ in readings) == [2, 3, 4, 5], "the others are of just now"


def test_of_a_group_whose_parts_would_be_too_old_a_look_reads_none(
    six: Group, readings: list[tuple[Any, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the last one is read the first one is not known any more; rows are read as shown."""
    staffed(six, "a")
    monkeypatch.setattr(following, "IN_TURN_MAX", 5)
    followed = Following(six.name)
    shot = followed.look()
    assert {(row.owner, row.lag_records) for row in shot.partitions} == {("a", None)}
    assert [row.lag_records for row in watching.rows(shot, [2, 5])] == [0, 0]
    readings.clear()
    followed.look()
    assert readings == [(range(0), True)]
    assert followed.look(whole=True).numbers.lag_records == 0


def test_of_two_parts_both_are_read(store: Any, group_name: str, db: None, parts: None) -> None:
    two = make_group(group_name, partitions=2)
    staffed(two, "a", "b")
    assert Following(two.name).look().numbers.lag_records == 0


def test_whole_reads_every_part(six: Group, readings: list[tuple[Any, bool]]) -> None:
    followed = Following(six.name)
    followed.look()
    readings.clear()
    found = followed.look(whole=True)
    assert sorted(part.start for part, _ in readings) == list(range(6))
    assert found.progress_age_ms < following.FRESH_S * 1000


def test_the_first_look_at_a_large_group_knows_owners_and_most_lag_not(six: Group) -> None:
    """No value is older than it says; what was not read is not known."""
    staffed(six, "a")
    followed = Following(six.name)
    rows = followed.look().partitions
    assert {row.owner for row in rows} == {"a"}
    assert [row.lag_records for row in rows] == [0, None, None, None, None, None]
    for _ in range(5):
        shot = followed.look()
    assert shot.numbers.lag_records == 0


def test_locks_are_looked_at_without_waiting_for_progress_which_goes_on_in_turn(
    six: Group, readings: list[tuple[Any, bool]]
) -> None:
    agents = staffed(six, "a", "b")
    followed = Following(six.name)
    first = followed.look(progress=False)
    assert {row.owner for row in first.partitions} == {"a", "b"}
    assert {row.lag_records for row in first.partitions} == {None}
    readings.clear()
    agents[0].release(sorted(agents[0].held))
    found = followed.look(progress=False)
    assert readings == [(range(0), True)], "no partition's rows"
    assert {row.owner for row in found.partitions} == {None, "b"}
    for _ in range(6):
        followed.read_progress()
    assert readings[1:] == [(range(n, n + 1), False) for n in range(6)]
    assert followed.look(progress=False).numbers.lag_records == 0


def test_a_small_group_has_its_progress_with_its_locks(
    store: Any, group_name: str, db: None, readings: list[tuple[Any, bool]]
) -> None:
    followed = Following(make_group(group_name, partitions=6).name)
    assert followed.look(progress=False).numbers.lag_records == 0
    readings.clear()
    followed.read_progress()
    assert not readings, "nothing was left out"


def test_a_row_that_denies_the_events_is_found_by_who_goes_on(
    six: Group, readings: list[tuple[Any, bool]]
) -> None:
    staffed(six, "a")
    followed, before = Following(six.name), counts.differences.get(six.name, 0)
    fence = followed.look(progress=False).partitions[0].fence
    sync_client().set(GroupKeys(six.name).lock(Partition(six.stream, 0)), f"nobody-knows/{fence}")
    followed.read_progress()
    assert counts.differences.get(six.name, 0) == before + 1
    readings.clear()
    assert followed.look(progress=False).partitions[0].owner == "nobody-knows"
    assert len(readings) > 6, "all of it anew"
    followed._state = None
    followed.read_progress()


def test_what_damaged_records_say_of_progress_is_told_by_who_goes_on(six: Group) -> None:
    staffed(six, "a")
    followed = Following(six.name)
    followed.look(progress=False)
    sync_client().hset(GroupKeys(six.name).applied, f"{six.stream}:0", "no number")
    with pytest.raises(GroupDamaged, match="damaged"):
        for _ in range(6):
            followed.read_progress()
    found = followed.look(progress=False).partitions
    assert {row.owner for row in found} == {"a"}, "the locks are not damaged"


def test_lag_that_nobody_read_for_long_is_not_known(six: Group) -> None:
    staffed(six, "a")
    followed = Following(six.name)
    assert followed.look(whole=True).numbers.lag_records == 0
    assert followed._state is not None
    followed._state.progress.read_ms[3] -= KEPT_MS + 5_000
    shot = followed.look()
    assert shot.partitions[3].lag_records is None and shot.numbers.lag_records is None
    assert shot.partitions[3].progress_age_ms > KEPT_MS
    assert shot.progress_age_ms == shot.partitions[3].progress_age_ms
