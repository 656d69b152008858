"""What events make of a group is what Redis holds: the shared state behind pages and sockets."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assignment.scripts import dashboard_side
from assignment.types import Partition
from assignment.wire import GroupKeys, Heartbeat, settings_text
from dashboard import coordinator
from dashboard.live import following, health, reading, watching
from dashboard.live.cells import KEPT_MS
from dashboard.live.connection import GroupDamaged, sync_client
from dashboard.live.following import Following
from dashboard.live.scripts import run
from dashboard.models import Group
from dashboard.web.counts import counts
from tests.dashboard.agents import SECRET, FakeAgent, make_group, tick, until
from tests.dashboard.scenes import staffed

pytestmark = pytest.mark.django_db
Step = tuple[str, int, int]
DEADLINE_S = 10.0


def holders(followed: Following) -> list[tuple[Any, ...]]:
    rows = followed.look().partitions
    return [(row.owner, row.fence, row.state, row.since_ms, row.target) for row in rows]


def members(followed: Following) -> list[tuple[Any, ...]]:
    rows = followed.look().members
    return [(row.id, row.owned, row.targeted, row.batch, row.beat_at_ms) for row in rows]


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One partition a part, and no budget: a look reads one row, the others are by the events."""
    monkeypatch.setattr(reading, "PARTITIONS_MAX", 1)
    monkeypatch.setattr(following, "PARTITIONS_MAX", 1)
    monkeypatch.setattr(following, "BUDGET_S", 0.0)


@pytest.fixture
def six(store: Any, group_name: str, db: None, parts: None) -> Group:
    return make_group(group_name, partitions=6)


WHAT = (
    *("follow", "follow", "join", "join", "leave", "release", "run out", "trim"),
    *("look", "sweep", "beat"),
)
steps = st.lists(
    st.tuples(st.sampled_from(WHAT), st.integers(0, 2), st.integers(0, 5)), min_size=4, max_size=25
)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps)
def test_the_events_tell_what_a_whole_reading_finds(six: Group, script: list[Step]) -> None:
    """Real scripts; nor does a row that is read beside the events ever deny them."""
    agents = [FakeAgent(six, name) for name in "abc"]
    followed, before = Following(six.name), counts.differences.get(six.name, 0)
    try:
        for step in script:
            take(six, agents, step)
            if step[0] == "look":
                followed.look()
        tick()  # what ran out is an event from here on
        assert holders(followed) == holders(Following(six.name))
        assert members(followed) == members(Following(six.name))
        assert counts.differences.get(six.name, 0) == before
    finally:
        for agent in agents:
            agent.leave()


def take(group: Group, agents: list[FakeAgent], step: Step) -> None:
    what, who, number = step
    agent, partition = agents[who], Partition(group.stream, number)
    keys = GroupKeys(group.name)
    match what:
        case "join":
            agent.start()
            coordinator.rebalance(group.name, "task-1", "worker@here")
        case "leave":
            agent.leave()
            coordinator.rebalance(group.name, "task-1", "worker@here")
        case "follow":
            agent.follow()
        case "beat":
            agent.beat(batch=number)
        case "release" if partition in agent.held:
            agent.release([partition])
        case "run out":
            sync_client().delete(keys.lock(partition))
        case "trim":
            sync_client().xtrim(keys.events, maxlen=0, approximate=False)
        case "sweep":
            tick()


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, bool]]:
    """Which partitions were read, and whether with the group's keys."""
    asked: list[tuple[Any, bool]] = []
    honest = reading.read

    def counted(
        group: str, position: str, stream: str, part: Any, *, keys: Any = None, **more: Any
    ) -> Any:
        asked.append((part, keys is not None))
        return honest(group, position, stream, part, keys=keys, **more)

    monkeypatch.setattr(reading, "read", counted)
    return asked


def test_a_look_after_the_first_one_is_one_reading_of_one_part(
    six: Group, readings: list[tuple[Any, bool]]
) -> None:
    followed = Following(six.name)
    followed.look()
    assert readings == [(range(0), True), *((range(n, n + 1), False) for n in range(1, 6)), ALL]
    readings.clear()
    for _ in range(7):
        followed.look()
    assert readings == [(range(n % 6, n % 6 + 1), True) for n in range(1, 8)]


ALL = (range(1), True)


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


def test_an_event_is_seen_before_its_row_is_read(six: Group) -> None:
    agents = staffed(six, "a", "b")
    followed = Following(six.name)
    followed.look()
    given = sorted(agents[0].held)
    agents[0].release(given)
    rows = followed.look().partitions
    assert {row.number for row in rows if row.owner is None} == {p.number for p in given}


def test_a_log_that_was_trimmed_too_far_is_no_reason_to_be_wrong(
    six: Group, readings: list[tuple[Any, bool]]
) -> None:
    agents = staffed(six, "a", "b")
    followed = Following(six.name)
    followed.look()
    agents[0].release(sorted(agents[0].held))
    sync_client().xtrim(GroupKeys(six.name).events, maxlen=0, approximate=False)
    readings.clear()
    assert sum(row.owner is None for row in followed.look().partitions) == 3
    assert len(readings) > 6, "all of it anew"


def test_a_row_that_denies_the_events_is_counted_and_replaced(
    six: Group, caplog: pytest.LogCaptureFixture
) -> None:
    staffed(six, "a", "b")
    followed = Following(six.name)
    followed.look()
    before = counts.differences.get(six.name, 0)
    lock = GroupKeys(six.name).lock(Partition(six.stream, 5))
    fence = followed.look().partitions[5].fence
    sync_client().set(lock, f"nobody-knows/{fence}")  # no script did
    for _ in range(6):
        found = followed.look()
    assert found.partitions[5].owner == "nobody-knows"
    assert counts.differences.get(six.name, 0) == before + 1
    assert "are not what the events say" in caplog.text
    assert six.name in health.look().differing_named


def test_another_redis_is_read_anew(six: Group, readings: list[tuple[Any, bool]]) -> None:
    followed = Following(six.name)
    followed.look()
    assert followed._state is not None
    followed._state._source = followed._state._source._replace(run_id="another")
    readings.clear()
    followed.look()
    assert len(readings) > 6


def test_a_group_made_again_with_the_same_number_of_events_is_read_anew(
    six: Group, readings: list[tuple[Any, bool]]
) -> None:
    """Its log leads on from that of the one before, as it seems."""
    agents = staffed(six, "a", "b")
    followed, keys = Following(six.name), GroupKeys(six.name)
    before, differences = holders(followed), dict(counts.differences)
    redis = sync_client()
    redis.hset(keys.meta, "identity", "another")
    redis.xtrim(keys.events, maxlen=0, approximate=False)
    for partition in agents[0].held:
        redis.set(keys.lock(partition), f"b/{agents[0].held[partition]}")
    readings.clear()
    after = holders(followed)
    assert {row[0] for row in before} == {"a", "b"} and {row[0] for row in after} == {"b"}
    assert {part[0] for part, _ in readings[1:] if part} == set(range(6)), "every row"
    assert counts.differences == differences, "of one group"


def test_a_group_that_was_wiped_is_not_shown_and_is_read_anew_when_it_is_back(six: Group) -> None:
    staffed(six, "a")
    assert watching.snapshot(six.name).numbers.owned == 6
    kept = {key: sync_client().dump(key) for key in keys_of(six)}
    sync_client().delete(*kept)
    with pytest.raises(following.GroupNotThere):
        watching.snapshot(six.name)
    assert watching.last_snapshot(six.name) is None
    for key, value in kept.items():
        if b":lock:" not in key:
            sync_client().restore(key, 0, value)
    assert watching.snapshot(six.name).numbers.owned == 0


def keys_of(group: Group) -> list[bytes]:
    return list(sync_client().scan_iter(f"{GroupKeys(group.name).meta.removesuffix('meta')}*"))


def test_two_processes_that_follow_a_group_see_the_same(six: Group) -> None:
    """What one has read tells nothing of where the other one is."""
    agents = staffed(six, "a", "b")
    first, second = Following(six.name), Following(six.name)
    first.look()
    agents[0].release(sorted(agents[0].held))
    second.look()
    agents[0].leave()
    assert holders(first) == holders(second) == holders(Following(six.name))


def test_a_row_that_was_read_long_ago_is_read_again_when_it_is_shown(
    six: Group, readings: list[tuple[Any, bool]]
) -> None:
    staffed(six, "a")
    shot = watching.snapshot(six.name, whole=True)
    assert watching.rows(shot, [1, 4]) == [shot.partitions[1], shot.partitions[4]]
    sync_client().hset(GroupKeys(six.name).applied, f"{six.stream}:4", f"7 {shot.at_ms}")
    old = replace(shot, partitions=replace(shot.partitions, now_ms=shot.at_ms + 5_000))
    readings.clear()
    first, last = watching.rows(old, [1, 4])
    assert readings == [([1, 4], False)]
    assert (first.committed_at_ms, last.committed_at_ms) == (None, shot.at_ms)
    assert shot.partitions[4].committed_at_ms is None, "it is of its moment"


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
    sync_client().set(GroupKeys(six.name).lock(P(six, 0)), f"nobody-knows/{fence}")
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


def test_a_group_of_another_size_is_read_anew(six: Group) -> None:
    followed = Following(six.name)
    followed.look()
    wider = replace(six.values, partitions=8)
    sync_client().hset(GroupKeys(six.name).meta, "settings", settings_text(wider))
    assert len(followed.look().partitions) == 8


def test_changes_since_the_last_complete_report_count(six: Group) -> None:
    (agent,) = staffed(six, "a")
    followed = Following(six.name)
    assert {row.state for row in followed.look().partitions} == {"owned"}
    told = {f"{six.stream}:1": None, f"{six.stream}:2": f"{agent.held[P(six, 2)]} revoking"}
    beat = Heartbeat(
        member="a", secret=SECRET, sequence=agent.sequence + 1, report=agent.sequence,
        complete=False, owned=told, able=True,
    )  # fmt: skip
    run(dashboard_side.report(beat), six.name)
    states = [row.state for row in followed.look().partitions]
    assert states == ["owned", "acquiring", "releasing", "owned", "owned", "owned"]


def P(group: Group, number: int) -> Partition:
    return Partition(group.stream, number)


def test_who_asks_while_another_one_reads_shares_the_next_reading(
    six: Group, readings: list[tuple[Any, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    watching.snapshot(six.name)
    readings.clear()
    honest, begun, go_on = Following.look, threading.Event(), threading.Event()

    def slow(self: Following, **how: bool) -> Any:
        begun.set()
        assert go_on.wait(DEADLINE_S)
        return honest(self, **how)

    waiting: list[float] = []
    monkeypatch.setattr(Following, "look", slow)
    monkeypatch.setattr(watching, "left_s", lambda most: waiting.append(most) or most)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(watching.snapshot, six.name)
        assert begun.wait(DEADLINE_S)
        others = [pool.submit(watching.snapshot, six.name) for _ in range(7)]
        until(lambda: len(waiting) == 8)
        go_on.set()
        shots = [future.result(DEADLINE_S) for future in (first, *others)]
    assert len(readings) == 2
    assert len({id(shot) for shot in shots[1:]}) == 1


def test_who_needs_progress_does_not_share_a_reading_without(six: Group) -> None:
    """Whatever is read after one has asked is shared, if it has what that one needs."""
    shared = watching._Shared(six.name)

    def asked_before(**what: bool) -> Any:
        shared._began_s = inf
        return shared.snapshot(**what)

    first = shared.snapshot(whole=False, progress=False)
    assert asked_before(whole=False, progress=False) is first
    then = asked_before(whole=False, progress=True)
    assert then is not first
    assert asked_before(whole=False, progress=False) is then
    assert asked_before(whole=True, progress=True) is not then


def test_a_group_that_was_dropped_is_not_gone_on_with(six: Group) -> None:
    watching.read_progress(six.name)
    assert watching.last_snapshot(six.name) is None
    watching.snapshot(six.name, progress=False)
    watching.read_progress(six.name)
    assert watching.last_snapshot(six.name) is not None


def test_groups_that_were_not_asked_for_longest_make_room(
    store: Any, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "KEPT_PARTITIONS_MAX", 9)
    names = [make_group(f"{group_name}-{n}", partitions=4).name for n in range(3)]
    for name in (*names, names[1], names[0]):
        watching.snapshot(name)
    with pytest.raises(following.GroupNotThere):
        watching.snapshot("nobody")
    assert [name for name in names if watching.last_snapshot(name)] == names[:2]
    kept = [one.last.partitions for one in watching._groups.values() if one.last]
    assert watching._size == sum(map(len, kept)) == 8
