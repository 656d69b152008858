"""Processes that share an instance name, one after the other (KIP-345)."""

import pytest

from agent.store.group import GroupStore
from assignment.errors import Fenced
from assignment.scripts import agent_side, dashboard_side
from assignment.scripts.agent_side import Granted, NotTarget
from assignment.scripts.dashboard_side import EvictResult, JoinResult
from assignment.types import Claim, Drain, HeldState, speaker_of
from assignment.wire import ConsumerHealth
from tests.contract.world import LONG_MS, P0, P1, World

BEATS_MS = 2 * 300  # heartbeats that a live process is given
RUNNING, RESTORING = HeldState.RUNNING, HeldState.RESTORING


def speaker(secret: str) -> str:
    return speaker_of("i", dashboard_side.process_of(secret))


def acquired(world: World, secret: str) -> int:
    answer = world.store.acquire(speaker(secret), LONG_MS, 1, 1, [P0])
    assert isinstance(answer, tuple) and isinstance(answer[0], Granted), answer
    return answer[0].fence


@pytest.fixture
def instance(world: World) -> tuple[World, int]:
    """Its first process is able, owns P0 and runs it under this fence; P1 is another's."""
    world.configure(heartbeat_ms=300, session_timeout_ms=1_200, lease_ms=1_500, renew_ms=500)
    assert world.restart("i", "one").result is JoinResult.OK
    world.join("b")
    world.set_incarnation(1)
    world.report("b", 1, able=True)
    world.report("i", 1, secret="one", able=True)
    world.assign(i={P0}, b={P1})
    fence = acquired(world, "one")
    assert world.move("i", P0, fence, RESTORING, RUNNING)
    return world, fence


def stop(world: World, secret: str) -> bool:
    return world.run(dashboard_side.leave("i", secret, stops=True))


@pytest.mark.parametrize("process", ["", "0", "host-of-anyo"])
def test_who_knows_less_than_the_secret_of_a_process_does_not_speak_for_it(
    world: World, process: str
) -> None:
    """Its row is searched for it: neither the secret's beginning nor another text of the row is."""
    world.configure()
    told = dashboard_side.process_of("one")
    host = f'"secret":"{"host-of-anyo" * 5}'
    world.run(dashboard_side.join("i", "one", {"host": host, "incarnation": 1, "instance": "i"}))
    process = process or told[:-1]
    with pytest.raises(Fenced):
        world.run(agent_side.renew(f"i@{process}", LONG_MS, []))
    world.run(agent_side.renew(f"i@{told}", LONG_MS, []))


def test_whoever_stops_keeps_its_row_and_its_target_and_changes_nothing(
    instance: tuple[World, int],
) -> None:
    world, fence = instance
    before = world.read()
    assert stop(world, "one")
    after = world.read()
    assert after.meta.group_epoch == before.meta.group_epoch
    assert after.target == before.target
    row = after.members["i"]
    assert (row.stopped, row.able, row.away_since_ms) == (True, True, after.grants[P0].until_ms)
    assert (after.grants[P0].ended, P0 in after.locks) == ("released", False)
    assert not {"i"} & (after.reports.keys() | after.asked.keys())
    with pytest.raises(Fenced):
        world.run(agent_side.renew(speaker("one"), LONG_MS, [Claim(P0, fence)]))
    assert not stop(world, "one"), "it stopped before"


def test_the_next_process_takes_over_at_once_with_a_new_fence_and_no_rebalance(
    instance: tuple[World, int],
) -> None:
    world, fence = instance
    before = world.read()
    stop(world, "one")
    assert world.restart("i", "two").result is JoinResult.OK
    assert acquired(world, "two") > fence
    world.report("i", 1, secret="two")
    assert world.read().members["i"].able, "while its consumer starts it counts as it was"
    world.report("i", 2, secret="two", able=True)
    after = world.read()
    assert after.meta.group_epoch == before.meta.group_epoch
    row, was = after.members["i"], before.members["i"]
    assert (row.able, row.stopped, row.away_since_ms) == (True, False, 0)
    assert (row.joined_at_ms, row.able_at_ms) == (was.joined_at_ms, was.able_at_ms)
    assert row.host == "host of two"


def test_a_process_that_does_not_get_able_in_time_counts_as_unable(
    instance: tuple[World, int],
) -> None:
    world, _ = instance
    world.configure(
        rebalance_due=False, heartbeat_ms=300, session_timeout_ms=1_200, lease_ms=1_500,
        renew_ms=500, instance_timeout_ms=50,
    )  # fmt: skip
    stop(world, "one")
    world.restart("i", "two")
    world.pass_ms(60)
    assert world.report("i", 1, secret="two").rebalance_due
    assert not world.read().members["i"].able


def test_a_live_process_is_found_by_its_beat_and_the_second_one_is_refused(
    instance: tuple[World, int],
) -> None:
    world, fence = instance
    first = world.restart("i", "two")
    assert (first.result, first.host, first.wait_ms) == (JoinResult.WAIT, "host of one", BEATS_MS)
    world.pass_ms(2)
    world.run(agent_side.renew(speaker("one"), LONG_MS, [Claim(P0, fence)]))
    refused = world.restart("i", "two", first.seen)
    assert (refused.result, refused.host) == (JoinResult.IN_USE, "host of one")
    assert world.store.owned("i")[P0].fence == fence


def test_a_process_that_only_renews_is_awaited_for_longer_than_a_renew(
    instance: tuple[World, int],
) -> None:
    """Cut off from its dashboard it sends no heartbeat, and lives."""
    world, fence = instance
    world.configure(heartbeat_ms=300, lease_ms=3_000, renew_ms=1_000, session_timeout_ms=3_000)
    world.run(agent_side.renew(speaker("one"), LONG_MS, [Claim(P0, fence)]))
    first = world.restart("i", "two")
    world.pass_ms(1_000)
    assert world.restart("i", "two", first.seen).result is JoinResult.WAIT
    world.run(agent_side.renew(speaker("one"), LONG_MS, [Claim(P0, fence)]))
    assert world.restart("i", "two", first.seen).result is JoinResult.IN_USE
    assert first.wait_ms == 1_200


def test_a_silent_process_is_replaced_after_two_heartbeats_and_not_before(
    instance: tuple[World, int],
) -> None:
    world, fence = instance
    before = world.read()
    seen = world.restart("i", "two").seen
    assert world.restart("i", "two", seen).result is JoinResult.WAIT, "too early"
    world.pass_ms(BEATS_MS)
    assert world.restart("i", "two", seen).result is JoinResult.OK
    after = world.read()
    assert (after.grants[P0].ended, after.locks.keys() & {P0}) == ("expired", set())
    assert after.members["i"].away_since_ms == before.beats["i"]
    assert after.meta.group_epoch == before.meta.group_epoch
    assert acquired(world, "two") > fence


def test_of_two_that_come_at_once_one_takes_over(instance: tuple[World, int]) -> None:
    world, _ = instance
    seen = {name: world.restart("i", name).seen for name in ("two", "three")}
    world.pass_ms(BEATS_MS)
    results = [world.restart("i", name, seen[name]).result for name in ("two", "three")]
    assert results == [JoinResult.OK, JoinResult.IN_USE]
    stop(world, "two")
    assert world.restart("i", "four").result is JoinResult.OK
    assert world.restart("i", "three").result is JoinResult.WAIT


def test_what_a_replaced_process_asks_later_is_refused(instance: tuple[World, int]) -> None:
    """It stood still, and goes on: also with what the new one owns by now."""
    world, fence = instance
    seen = world.restart("i", "two").seen
    world.pass_ms(BEATS_MS)
    world.restart("i", "two", seen)
    new = acquired(world, "two")
    assert world.move("i", P0, new, RESTORING, RUNNING)
    store, old = GroupStore(world.door, world.store.group), speaker("one")
    for ask in (
        lambda: store.run(agent_side.renew(old, LONG_MS, [Claim(P0, new)])),
        lambda: store.acquire(old, LONG_MS, 1, 1, [P0]),
        lambda: store.run(agent_side.next_batch(old)),
    ):
        with pytest.raises(Fenced):
            ask()
    assert not store.write_progress(old, ConsumerHealth(state="ready"))
    assert not stop(world, "one")
    assert [start.fence for start in store.run(agent_side.next_batch(speaker("two")))] == [new]
    assert new > fence


def test_a_member_without_that_instance_name_is_never_replaced(world: World) -> None:
    world.configure()
    world.join("i", "one", host="here")
    assert world.restart("i", "two").result is JoinResult.IN_USE
    assert world.run(dashboard_side.leave("i", "one", stops=True))
    assert "i" not in world.read().members, "nobody is expected back"


def test_told_to_leave_an_instance_leaves_for_good(instance: tuple[World, int]) -> None:
    world, _ = instance
    world.run(dashboard_side.set_drain(Drain.LEAVING, ["i"]))
    assert stop(world, "one")
    assert "i" not in world.read().members


def test_an_instance_that_comes_back_changed_is_planned_anew(instance: tuple[World, int]) -> None:
    world, _ = instance
    stop(world, "one")
    before = world.group_epoch()
    row = {"instance": "i", "capacity": 2.0}
    assert world.run(dashboard_side.join("i", "two", row)).result is JoinResult.OK
    assert world.group_epoch() == before + 1


def test_whoever_judged_a_stopped_instance_cannot_evict_the_next_process(
    instance: tuple[World, int],
) -> None:
    world, _ = instance
    stop(world, "one")
    judged_ms = world.read().beats["i"]
    world.pass_ms(2)
    world.restart("i", "two")
    assert world.evict("i", judged_ms) is EvictResult.NEWER
    answer = world.store.acquire(speaker("two"), LONG_MS, 1, 1, [P1])
    assert answer == (NotTarget(P1),)
