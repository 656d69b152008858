"""Replicas of state in trouble, too many of them, and those that nobody wants any more."""

import time
from typing import Any

from agent.replicas import core, manager, replica
from agent.replicas.replica import ReplicaNews
from agent.state.partition import PartitionState
from agent.state.restore import restore as bring_up
from assignment.member.messages import RestoreEnded
from assignment.member.replicas import Wanted
from assignment.types import Claim
from tests.agent.replicas_scene import (
    LEARNER,
    MANY,
    STANDBY,
    Scene,
    caught_up,
    of,
    until,
    wanted,
)
from tests.contract.world import P0, offset

# --- troubles -------------------------------------------------------------------------------------


def test_a_changelog_trimmed_below_a_replica_starts_it_again_from_the_snapshot(
    scene: Scene,
) -> None:
    scene.own(P0)
    scene.commit(a=1)
    replicas = scene.replicas()
    replicas.want(wanted(STANDBY))
    caught_up(replicas)
    replicas.want(Wanted())  # it stands still, and the owner goes on
    until(lambda: not replicas._works[P0]._state, "closed")
    for step in range(3):
        scene.commit(**{f"b{step}": step})
        scene.snapshot()
    oldest = scene.world.store.read_changelog(P0, "0-0", 1).entries[0]
    assert oldest.from_offset > offset(1)
    replicas.want(wanted(LEARNER))
    assert caught_up(replicas).ready
    assert scene.store.asked["read_snapshots"] >= 1
    replicas.order(Claim(P0, 7))
    until(lambda: scene.news(RestoreEnded), "restored")
    assert scene.content() == {"a": 1, "b0": 0, "b1": 1, "b2": 2}


def test_a_broken_snapshot_is_passed_over_for_the_one_before(scene: Scene) -> None:
    scene.own(P0)
    scene.commit(a=1)
    scene.snapshot()
    scene.commit(b=2)
    newest = scene.snapshot()
    scene.commit(c=3)
    newest.write_bytes(newest.read_bytes()[:-30])
    replicas = scene.replicas()
    replicas.want(wanted(LEARNER))
    assert caught_up(replicas).ready
    replicas.order(Claim(P0, 7))
    until(lambda: scene.news(RestoreEnded), "restored")
    assert scene.content() == {"a": 1, "b": 2, "c": 3}


def test_what_no_snapshot_leads_to_is_reported_and_healed_by_the_next_one(
    scene: Scene, monkeypatch: Any
) -> None:
    monkeypatch.setattr(replica, "RETRY_MS", (50, 200))
    scene.own(P0)
    broken = []
    for step in range(3):
        scene.commit(**{f"b{step}": step})
        broken.append(scene.snapshot())
    for path in broken:
        path.unlink(missing_ok=True)
    replicas = scene.replicas()
    replicas.want(wanted(LEARNER))
    why = until(lambda: replicas.reports()[P0].why, "said")
    assert "flights:0" in why and "neither changelog nor snapshots" in why
    report = replicas.reports()[P0]
    assert (report.ready, report.percent, report.lag) == (False, 0.0, 3)
    assert ReplicaNews(P0, "learner", why) in scene.delivered
    scene.commit()
    scene.snapshot()  # of the owner, whose own state is whole
    assert caught_up(replicas).ready
    assert len([n for n in scene.news(ReplicaNews) if n.why]) == 1, "said once"


def test_what_was_acquired_and_cannot_be_restored_is_answered_with_the_reason(
    scene: Scene,
) -> None:
    scene.own(P0)
    for step in range(3):
        scene.commit(**{f"b{step}": step})
        scene.snapshot().unlink()
    replicas = scene.replicas()
    replicas.order(Claim(P0, 7))
    replicas.want(Wanted(held=frozenset({P0})))
    until(lambda: scene.news(RestoreEnded), "answered")
    assert "neither changelog nor snapshots" in scene.news(RestoreEnded)[0].failure
    scene.commit()
    scene.snapshot()
    replicas.order(Claim(P0, 7))
    until(lambda: len(scene.news(RestoreEnded)) == 2, "asked again")
    assert scene.news(RestoreEnded)[1] == RestoreEnded(Claim(P0, 7))


def test_a_full_disk_is_said_tried_again_and_what_nobody_wants_goes(
    scene: Scene, monkeypatch: Any
) -> None:
    monkeypatch.setattr(replica, "RETRY_MS", (50, 200))
    one, two = MANY[:2]
    scene.own(one, two)
    scene.commit(one)
    replicas = scene.replicas()
    replicas.want(wanted(STANDBY, one))
    caught_up(replicas, one)
    replicas.want(Wanted())
    scene.commit(two, **{f"k{n}": "x" * 1_000 for n in range(2_000)})
    monkeypatch.setattr("agent.state.partition.MAP_BYTES", 2**18)
    replicas.want(wanted(LEARNER, two))
    why = until(lambda: replicas.reports()[two].why, "said")
    assert "flights:1" in why and not replicas.reports()[two].ready
    until(lambda: not scene.file(one), "made room")
    monkeypatch.setattr("agent.state.partition.MAP_BYTES", 2**30)
    report = caught_up(replicas, two)
    assert (report.ready, report.why) == (True, "")


def test_a_redis_that_lost_writes_makes_the_replica_start_again(
    scene: Scene, monkeypatch: Any
) -> None:
    monkeypatch.setattr(manager, "CHECK_EVERY_MS", 50)
    scene.own(P0)
    scene.commit(a=1)
    first = scene.world.store.read_changelog(P0, "0-0", 1).entries[0].entry_id
    scene.commit(a=2, b=2)
    replicas = scene.replicas()
    replicas.want(wanted(STANDBY))
    caught_up(replicas)
    keys, door = scene.world.keys, scene.world.door
    door.ask("XDEL", keys.changelog(P0), of(replicas).place.changelog_id)
    door.ask("HSET", keys.offsets, str(P0), "1-0")
    door.ask("HSET", keys.applied, str(P0), "1 1")
    place = until(
        lambda: (p := of(replicas).place) and p.offset == offset(1) and p, "started again"
    )
    assert place.changelog_id == first
    assert len(scene.news(ReplicaNews)) == 2, "it caught up twice"


# --- many, and none -------------------------------------------------------------------------------


def test_large_ones_do_not_keep_small_ones_waiting(scene: Scene, monkeypatch: Any) -> None:
    """More large replicas than threads: all others have their turns meanwhile."""
    monkeypatch.setattr(manager, "TURN_MS", 0)
    scene.own(*MANY)
    large, small = MANY[:3], MANY[3:]
    for partition in large:
        for step in range(60):
            scene.commit(partition, **{f"k{step}-{n}": n for n in range(300)})
    for partition in small:
        scene.commit(partition)
    replicas = scene.replicas()
    replicas.want(wanted(STANDBY, *MANY))
    for partition in MANY:
        caught_up(replicas, partition)
    order = [news.partition for news in scene.news(ReplicaNews)]
    assert set(order[-3:]) == set(large)


def test_of_very_many_replicas_few_files_are_open_at_once(scene: Scene, monkeypatch: Any) -> None:
    monkeypatch.setattr(core, "OPEN_MAX", 4)
    scene.own(*MANY)
    replicas = scene.replicas()
    replicas.want(wanted(STANDBY, *MANY))
    for partition in MANY:
        caught_up(replicas, partition)
    until(lambda: not any(work._state for work in replicas._works.values()), "closed")
    last = scene.commit(MANY[5])
    until(lambda: (p := of(replicas, MANY[5]).place) and p.offset == last, "tailed all the same")


def test_unwanted_replicas_are_kept_for_a_while_and_then_removed(scene: Scene) -> None:
    scene.own(P0)
    scene.commit(a=1)
    replicas = scene.replicas(keep_unwanted_ms=300)
    replicas.want(wanted(STANDBY))
    caught_up(replicas)
    replicas.want(Wanted())
    assert scene.file()
    replicas.want(wanted(STANDBY))
    caught_up(replicas)
    time.sleep(0.5)
    assert scene.file(), "wanted again"
    replicas.want(Wanted())
    until(lambda: not scene.file(), "removed")
    until(lambda: not replicas._replicas.of, "forgotten")
    replicas.want(wanted(STANDBY))
    assert caught_up(replicas).ready


def test_what_is_held_is_never_removed(scene: Scene) -> None:
    scene.own(P0)
    scene.commit(a=1)
    replicas = scene.replicas(keep_unwanted_ms=100)
    replicas.order(Claim(P0, 7))
    replicas.want(Wanted(held=frozenset({P0})))
    until(lambda: scene.news(RestoreEnded), "restored")
    time.sleep(0.4)
    assert scene.file()
    replicas.want(Wanted())
    until(lambda: not scene.file(), "released and unwanted")


def test_what_an_agent_before_left_behind_goes_too_unless_it_is_wanted(scene: Scene) -> None:
    scene.own(*MANY[:2])
    folder = scene.folder / "replicas"
    for partition in MANY[:2]:
        scene.commit(partition)
        state = PartitionState.open(folder, scene.world.store.group, partition)
        bring_up(scene.world.store, state, partition)
        state.close()
    replicas = scene.replicas(keep_unwanted_ms=400)
    replicas.find_left_over()
    replicas.want(wanted(STANDBY, MANY[0]))
    caught_up(replicas, MANY[0])
    until(lambda: not scene.file(MANY[1]), "removed")
    assert scene.file(MANY[0])


def test_without_anything_to_do_there_is_no_thread(scene: Scene) -> None:
    replicas = scene.replicas()
    replicas.find_left_over()
    replicas.want(Wanted())
    assert replicas._workers == [] and replicas._watcher is None
