"""Replicas of state by real threads: what an agent keeps, says and hands over."""

import threading
import time
from pathlib import Path
from typing import Any

from agent.replicas import manager, replica
from agent.replicas.manager import ReplicaManager
from agent.replicas.replica import ReplicaNews
from agent.state.partition import PartitionState
from agent.store.group import GroupStore
from assignment.member.messages import RestoreEnded
from assignment.member.replicas import Wanted
from assignment.types import Claim, Partition, ReplicaReport
from tests.agent.replicas_scene import (
    LEARNER,
    MANY,
    OWNER,
    PATIENCE_S,
    STANDBY,
    Scene,
    caught_up,
    of,
    until,
    wanted,
)
from tests.contract.world import P0

# --- restore and tail -----------------------------------------------------------------------------


def test_a_standby_is_restored_and_tails_what_comes(scene: Scene) -> None:
    scene.own(P0)
    scene.commit(a=1)
    scene.snapshot()
    scene.commit(events=4, b=2)
    replicas = scene.replicas()
    replicas.want(wanted())
    report = caught_up(replicas)
    assert report == ReplicaReport(
        role=STANDBY, lag=0, percent=100.0, rate=report.rate, eta_ms=0, ready=True
    )
    assert scene.news(ReplicaNews) == [ReplicaNews(P0, "standby")]
    last = scene.commit(events=2, a=None, c=3)
    until(lambda: (p := of(replicas).place) and p.offset == last, "tailed")
    replicas.want(Wanted())
    until(lambda: not of(replicas).running and not of(replicas).queued, "closed")
    assert scene.content() == {"b": 2, "c": 3}
    assert len(scene.news(ReplicaNews)) == 1


def test_a_replica_of_what_was_never_committed_is_ready_at_once(scene: Scene) -> None:
    scene.own(P0)
    replicas = scene.replicas()
    replicas.want(wanted(LEARNER))
    assert caught_up(replicas).ready


def test_while_nothing_changes_nothing_is_read(scene: Scene) -> None:
    scene.own(*MANY)
    replicas = scene.replicas()
    replicas.want(wanted(STANDBY, *MANY))
    for partition in MANY:
        caught_up(replicas, partition)
    before = scene.store.asked["read_changelog"]
    waits = scene.store.asked["wait_changelogs"]
    until(lambda: scene.store.asked["wait_changelogs"] >= waits + 2, "it waits")
    assert scene.store.asked["read_changelog"] == before
    scene.commit(MANY[3])
    until(lambda: scene.store.asked["read_changelog"] > before, "the changed one is read")
    assert scene.store.asked["read_changelog"] <= before + 2


def test_a_connection_to_restore_by_is_not_kept_while_nothing_is_restored(
    scene: Scene, redis_url: str, monkeypatch: Any
) -> None:
    name = f"restores-{scene.world.store.group}"
    monkeypatch.setattr(manager, "SPARE_S", 0.05)
    scene.patient = GroupStore.connect(f"{redis_url}?client_name={name}", scene.world.store.group)
    connected: list[Any] = []

    def go_on(*arguments: Any) -> Any:
        place = restored(*arguments)
        connected.append(count())
        return place

    def count() -> int:
        clients = scene.world.store.door.ask("CLIENT", "LIST")
        return int(clients.count(f" name={name} ".encode()))

    restored = manager.Work.go_on
    monkeypatch.setattr(manager.Work, "go_on", go_on)
    scene.own(P0)
    scene.commit()
    replicas = scene.replicas()
    replicas.want(wanted())
    caught_up(replicas)
    until(lambda: count() == 0, "none is kept")
    last = scene.commit(events=2)
    until(lambda: (p := of(replicas).place) and p.offset == last, "tailed")
    until(lambda: count() == 0, "none is kept")
    assert len(connected) >= 2 and set(connected) == {1}, "in however many steps"


# --- ready ----------------------------------------------------------------------------------------


def test_eager_each_learner_is_ready_for_itself_and_stable_all_together(scene: Scene) -> None:
    one, two = MANY[:2]
    scene.own(one, two)
    Path(scene.folder / "replicas" / scene.world.store.group).mkdir(parents=True)
    blocked = scene.folder / "replicas" / scene.world.store.group
    scene.commit(one)
    replicas = scene.replicas()
    replicas.want(wanted(LEARNER, one, eager=False))
    assert caught_up(replicas, one).ready
    replicas.want(wanted(LEARNER, one, two, eager=False))
    assert replicas.reports()[one].ready, "it said so before"
    caught_up(replicas, two)
    until(lambda: replicas.reports()[two].ready, "both are")
    assert blocked.is_dir()


def test_stable_nobody_is_ready_before_all_are(scene: Scene, monkeypatch: Any) -> None:
    one, two = MANY[:2]
    scene.own(one, two)
    monkeypatch.setattr(manager, "THREADS", 1)
    replicas = scene.replicas()
    hold_back(scene, replicas, two, monkeypatch)
    replicas.want(wanted(LEARNER, one, two, eager=False))
    until(lambda: of(replicas, one).caught_up, "one caught up")
    assert not replicas.reports()[one].ready
    assert replicas.reports()[two].percent < 100
    replicas.want(wanted(LEARNER, one, two, eager=True))
    assert replicas.reports()[one].ready
    assert not replicas.reports()[two].ready
    replicas.want(wanted(LEARNER, one, eager=False))
    assert replicas.reports()[one].ready


def hold_back(
    scene: Scene, replicas: ReplicaManager, partition: Partition, monkeypatch: Any
) -> None:
    """That replica's turns get it nowhere."""
    real = manager.Work.go_on

    def go_on(work: Any, *arguments: Any) -> Any:
        if work._partition == partition:
            time.sleep(0.01)
            return None
        return real(work, *arguments)

    monkeypatch.setattr(manager.Work, "go_on", go_on)


def test_a_standby_that_caught_up_is_ready_the_moment_it_is_a_learner(scene: Scene) -> None:
    scene.own(P0)
    scene.commit()
    replicas = scene.replicas()
    replicas.want(wanted(STANDBY))
    caught_up(replicas)
    replicas.want(wanted(LEARNER))
    assert replicas.reports()[P0].ready
    replicas.want(wanted(OWNER))
    assert (replicas.reports()[P0].role, replicas.reports()[P0].ready) == (LEARNER, True)


def test_what_is_given_and_was_no_learner_is_restored_early_and_not_spoken_of(
    scene: Scene,
) -> None:
    scene.own(P0)
    scene.commit()
    replicas = scene.replicas()
    replicas.want(wanted(OWNER))
    until(lambda: of(replicas).place, "restored early")
    assert replicas.reports() == {}


def test_with_an_acceptable_lag_a_learner_is_ready_before_the_end(
    scene: Scene, monkeypatch: Any
) -> None:
    monkeypatch.setattr(manager, "TURN_MS", 0)
    scene.own(P0)
    for _ in range(40):
        scene.commit(events=10)
    replicas = scene.replicas()
    seen: list[tuple[int, bool]] = []
    real = replica.Replica.after

    def after(self: Any, *arguments: Any) -> replica.Replica:
        found = real(self, *arguments)
        seen.append((found.lag, found.caught_up))
        return found

    monkeypatch.setattr(replica.Replica, "after", after)
    replicas.want(wanted(LEARNER, acceptable_lag_records=100))
    caught_up(replicas)
    assert {up for lag, up in seen if lag > 100} == {False}
    assert {up for lag, up in seen if lag <= 100} == {True}
    assert len([lag for lag, _ in seen if 0 < lag <= 100]) == 10


def test_a_consumer_without_state_is_a_ready_learner_without_a_file(scene: Scene) -> None:
    scene.own(P0)
    scene.commit()
    replicas = scene.replicas()
    replicas.want(wanted(LEARNER, stateful=False))
    report = replicas.reports()[P0]
    assert (report.ready, report.lag, report.percent) == (True, 0, 100.0)
    replicas.want(wanted(OWNER, stateful=False))
    assert replicas.reports()[P0].ready
    replicas.want(Wanted())
    assert not scene.file() and not scene.store.asked["read_changelog"]
    replicas.want(wanted(LEARNER, stateful=False))
    replicas.want(wanted(LEARNER))
    assert caught_up(replicas).ready and scene.file()


# --- handover -------------------------------------------------------------------------------------


def test_a_warm_learner_is_handed_over_by_its_last_entries_alone(scene: Scene) -> None:
    scene.own(P0)
    scene.commit(a=1)
    scene.snapshot()
    replicas = scene.replicas()
    replicas.want(wanted(LEARNER))
    caught_up(replicas)
    scene.commit(b=2)
    before = scene.store.asked["read_snapshots"]
    claim = Claim(P0, 7)
    replicas.order(claim)
    replicas.want(Wanted(held=frozenset({P0})))
    until(lambda: scene.news(RestoreEnded), "handed over")
    assert scene.news(RestoreEnded) == [RestoreEnded(claim)]
    assert scene.store.asked["read_snapshots"] == before
    assert replicas.reports() == {}
    assert scene.content() == {"a": 1, "b": 2}  # nobody has it open any more


def test_an_unready_learner_goes_on_where_it_was_when_it_is_acquired(
    scene: Scene, monkeypatch: Any
) -> None:
    scene.own(P0)
    scene.commit(events=30_000, **{f"k{n}": n for n in range(30_000)})
    for step in range(3):
        scene.commit(**{f"b{step}": step})
        scene.snapshot()
    scene.commit(last=1)
    monkeypatch.setattr(manager, "TURN_MS", 0)
    monkeypatch.setattr(manager, "THREADS", 1)
    blocks = threading.Semaphore(2)
    real = PartitionState.add

    def add(state: PartitionState, items: Any) -> None:
        assert blocks.acquire(timeout=PATIENCE_S)
        real(state, items)

    monkeypatch.setattr(PartitionState, "add", add)
    begun = count_calls(monkeypatch, PartitionState, "replacement")
    replicas = scene.replicas()
    replicas.want(wanted(LEARNER))
    until(lambda: 40 < replicas.reports()[P0].percent < 100, "half way")
    report = replicas.reports()[P0]
    assert not report.ready and 5_000 < report.lag < 20_000
    claim = Claim(P0, 7)
    replicas.order(claim)
    replicas.want(Wanted(held=frozenset({P0})))
    blocks.release(100)
    until(lambda: scene.news(RestoreEnded), "restored")
    assert scene.news(RestoreEnded) == [RestoreEnded(claim)]
    assert begun == [P0]
    assert len(scene.content()) == 30_004


def count_calls(monkeypatch: Any, owner: Any, name: str) -> list[Partition]:
    real, calls = getattr(owner, name), []

    def called(self: Any, *arguments: Any) -> Any:
        calls.append(self.partition)
        return real(self, *arguments)

    monkeypatch.setattr(owner, name, called)
    return calls


def test_what_was_committed_before_the_order_is_in_the_replica_that_is_handed_over(
    scene: Scene,
) -> None:
    """The order comes while the replica reads what it takes for the end of the changelog."""
    scene.own(P0)
    scene.commit(a=1)
    replicas = scene.replicas()
    scene.store.goes_on.clear()
    replicas.want(wanted(LEARNER))
    until(lambda: scene.store.asked["read_changelog"], "it reads")
    scene.commit(b=2)
    replicas.order(Claim(P0, 7))
    scene.store.goes_on.set()
    until(lambda: scene.news(RestoreEnded), "handed over")
    assert scene.content() == {"a": 1, "b": 2}


def test_acquired_anew_meanwhile_only_the_last_claim_is_answered(scene: Scene) -> None:
    scene.own(P0)
    scene.commit()
    replicas = scene.replicas()
    scene.store.goes_on.clear()
    replicas.order(Claim(P0, 7))
    until(lambda: scene.store.asked["read_changelog"], "it reads")
    replicas.order(Claim(P0, 8))
    scene.store.goes_on.set()
    until(lambda: scene.news(RestoreEnded), "restored")
    assert scene.news(RestoreEnded) == [RestoreEnded(Claim(P0, 8))]


def test_released_it_goes_on_as_a_standby_without_a_restore(scene: Scene) -> None:
    scene.own(P0)
    scene.commit(a=1)
    scene.snapshot()
    replicas = scene.replicas()
    replicas.order(Claim(P0, 7))
    replicas.want(Wanted(held=frozenset({P0})))
    until(lambda: scene.news(RestoreEnded), "restored")
    before = scene.store.asked["read_snapshots"]
    scene.commit(b=2)
    replicas.want(wanted(STANDBY))
    assert caught_up(replicas).ready
    assert scene.store.asked["read_snapshots"] == before


def test_acquired_partitions_go_before_all_replicas(scene: Scene, monkeypatch: Any) -> None:
    monkeypatch.setattr(manager, "THREADS", 1)
    scene.own(*MANY)
    for partition in MANY:
        scene.commit(partition)
    replicas = scene.replicas()
    scene.store.goes_on.clear()
    replicas.want(wanted(LEARNER, *MANY[:-1]))
    until(lambda: scene.store.asked["read_changelog"], "the first is at work")
    replicas.order(Claim(MANY[-1], 7))
    scene.store.goes_on.set()
    until(lambda: scene.news(RestoreEnded), "restored")
    arrived = [one for one in scene.delivered if isinstance(one, RestoreEnded | ReplicaNews)]
    assert arrived.index(RestoreEnded(Claim(MANY[-1], 7))) <= 1
    for partition in MANY[:-1]:
        caught_up(replicas, partition)
