"""What events make of a group is what Redis holds: the shared state behind pages and sockets."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assignment.scripts import heartbeat
from assignment.types import Partition
from assignment.wire import GroupKeys, Heartbeat, settings_text
from dashboard import coordinator
from dashboard.live import health
from dashboard.live.connection import sync_client
from dashboard.live.following import Following
from dashboard.live.scripts import run
from dashboard.models import Group
from dashboard.web.counts import counts
from tests.dashboard.agents import SECRET, FakeAgent, tick
from tests.dashboard.scenes import staffed

pytestmark = pytest.mark.django_db
Step = tuple[str, int, int]


def holders(followed: Following) -> list[tuple[Any, ...]]:
    rows = followed.look().partitions
    return [(row.owner, row.fence, row.state, row.since_ms, row.target) for row in rows]


def members(followed: Following) -> list[tuple[Any, ...]]:
    rows = followed.look().members
    return [(row.id, row.owned, row.targeted, row.batch, row.beat_at_ms) for row in rows]


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


def test_two_processes_that_follow_a_group_see_the_same(six: Group) -> None:
    """What one has read tells nothing of where the other one is."""
    agents = staffed(six, "a", "b")
    first, second = Following(six.name), Following(six.name)
    first.look()
    agents[0].release(sorted(agents[0].held))
    second.look()
    agents[0].leave()
    assert holders(first) == holders(second) == holders(Following(six.name))


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
    told = {
        f"{six.stream}:1": None,
        f"{six.stream}:2": f"{agent.held[Partition(six.stream, 2)]} revoking",
    }
    beat = Heartbeat(
        member="a", secret=SECRET, sequence=agent.sequence + 1, report=agent.sequence,
        complete=False, owned=told, able=True,
    )  # fmt: skip
    run(heartbeat.report(beat), six.name)
    states = [row.state for row in followed.look().partitions]
    assert states == ["owned", "acquiring", "releasing", "owned", "owned", "owned"]
