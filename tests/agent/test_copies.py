"""Copies of state by real threads: what an agent keeps, says and hands over."""

import threading
import time
from pathlib import Path
from typing import Any

from agent.replicas import manager, replica
from agent.replicas.manager import Copies
from agent.replicas.news import CopyNews
from agent.state import PartitionState
from agent.state.restoring import RestoreResult
from assignment.member import Wanted
from assignment.types import Claim, CopyReport, Partition
from tests.agent.copies_scene import (
    LEARNER,
    MANY,
    OWNER,
    PATIENCE_S,
    STANDBY,
    Scene,
    caught_up,
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
    copies = scene.copies()
    copies.want(wanted())
    report = caught_up(copies)
    assert report == CopyReport(
        role=STANDBY, lag=0, percent=100.0, rate=report.rate, eta_ms=0, ready=True
    )
    assert scene.news(CopyNews) == [CopyNews(P0, "standby")]
    last = scene.commit(events=2, a=None, c=3)
    standing_of = copies._copies[P0]
    until(lambda: standing_of.place and standing_of.place.offset == last, "tailed")
    copies.want(Wanted())
    until(lambda: not standing_of.running and not standing_of.queued, "closed")
    assert scene.content() == {"b": 2, "c": 3}
    assert len(scene.news(CopyNews)) == 1


def test_a_copy_of_what_was_never_committed_is_ready_at_once(scene: Scene) -> None:
    scene.own(P0)
    copies = scene.copies()
    copies.want(wanted(LEARNER))
    assert caught_up(copies).ready


def test_while_nothing_changes_nothing_is_read(scene: Scene) -> None:
    scene.own(*MANY)
    copies = scene.copies()
    copies.want(wanted(STANDBY, *MANY))
    for partition in MANY:
        caught_up(copies, partition)
    before = scene.store.asked["read_changelog"]
    waits = scene.store.asked["wait_changelogs"]
    until(lambda: scene.store.asked["wait_changelogs"] >= waits + 2, "it waits")
    assert scene.store.asked["read_changelog"] == before
    scene.commit(MANY[3])
    until(lambda: scene.store.asked["read_changelog"] > before, "the changed one is read")
    assert scene.store.asked["read_changelog"] <= before + 2


# --- ready ----------------------------------------------------------------------------------------


def test_eager_each_learner_is_ready_for_itself_and_stable_all_together(scene: Scene) -> None:
    one, two = MANY[:2]
    scene.own(one, two)
    Path(scene.folder / "copies" / scene.world.store.group).mkdir(parents=True)
    blocked = scene.folder / "copies" / scene.world.store.group
    scene.commit(one)
    copies = scene.copies()
    copies.want(wanted(LEARNER, one, eager=False))
    assert caught_up(copies, one).ready
    copies.want(wanted(LEARNER, one, two, eager=False))
    assert copies.reports()[one].ready, "it said so before"
    caught_up(copies, two)
    until(lambda: copies.reports()[two].ready, "both are")
    assert blocked.is_dir()


def test_stable_nobody_is_ready_before_all_are(scene: Scene, monkeypatch: Any) -> None:
    one, two = MANY[:2]
    scene.own(one, two)
    monkeypatch.setattr(manager, "THREADS", 1)
    copies = scene.copies()
    hold_back(scene, copies, two, monkeypatch)
    copies.want(wanted(LEARNER, one, two, eager=False))
    until(lambda: copies._copies[one].caught_up, "one caught up")
    assert not copies.reports()[one].ready
    assert copies.reports()[two].percent < 100
    copies.want(wanted(LEARNER, one, two, eager=True))
    assert copies.reports()[one].ready
    assert not copies.reports()[two].ready
    copies.want(wanted(LEARNER, one, eager=False))
    assert copies.reports()[one].ready


def hold_back(scene: Scene, copies: Copies, partition: Partition, monkeypatch: Any) -> None:
    """That copy's turns get it nowhere."""
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
    copies = scene.copies()
    copies.want(wanted(STANDBY))
    caught_up(copies)
    copies.want(wanted(LEARNER))
    assert copies.reports()[P0].ready
    copies.want(wanted(OWNER))
    assert (copies.reports()[P0].role, copies.reports()[P0].ready) == (LEARNER, True)


def test_what_is_given_and_was_no_learner_is_restored_early_and_not_spoken_of(
    scene: Scene,
) -> None:
    scene.own(P0)
    scene.commit()
    copies = scene.copies()
    copies.want(wanted(OWNER))
    until(lambda: copies._copies[P0].place, "restored early")
    assert copies.reports() == {}


def test_with_an_acceptable_lag_a_learner_is_ready_before_the_end(
    scene: Scene, monkeypatch: Any
) -> None:
    monkeypatch.setattr(manager, "TURN_MS", 0)
    scene.own(P0)
    for _ in range(40):
        scene.commit(events=10)
    copies = scene.copies()
    seen: list[tuple[int, bool]] = []
    real = replica.Standing.take

    def take(self: Any, *arguments: Any) -> bool:
        news = real(self, *arguments)
        seen.append((self.lag, self.caught_up))
        return news

    monkeypatch.setattr(replica.Standing, "take", take)
    copies.want(wanted(LEARNER, acceptable_lag_records=100))
    caught_up(copies)
    assert {up for lag, up in seen if lag > 100} == {False}
    assert {up for lag, up in seen if lag <= 100} == {True}
    assert len([lag for lag, _ in seen if 0 < lag <= 100]) == 10


def test_a_consumer_without_state_is_a_ready_learner_without_a_file(scene: Scene) -> None:
    scene.own(P0)
    scene.commit()
    copies = scene.copies()
    copies.want(wanted(LEARNER, stateful=False))
    report = copies.reports()[P0]
    assert (report.ready, report.lag, report.percent) == (True, 0, 100.0)
    copies.want(wanted(OWNER, stateful=False))
    assert copies.reports()[P0].ready
    copies.want(Wanted())
    assert not scene.file() and not scene.store.asked["read_changelog"]
    copies.want(wanted(LEARNER, stateful=False))
    copies.want(wanted(LEARNER))
    assert caught_up(copies).ready and scene.file()


# --- handover -------------------------------------------------------------------------------------


def test_a_warm_learner_is_handed_over_by_its_last_entries_alone(scene: Scene) -> None:
    scene.own(P0)
    scene.commit(a=1)
    scene.snapshot()
    copies = scene.copies()
    copies.want(wanted(LEARNER))
    caught_up(copies)
    scene.commit(b=2)
    before = scene.store.asked["read_snapshots"]
    claim = Claim(P0, 7)
    copies.order(claim)
    copies.want(Wanted(held=frozenset({P0})))
    until(lambda: scene.news(RestoreResult), "handed over")
    assert scene.news(RestoreResult) == [RestoreResult(claim)]
    assert scene.store.asked["read_snapshots"] == before
    assert copies.reports() == {}
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
    begun = count_calls(monkeypatch, PartitionState, "begin_anew")
    copies = scene.copies()
    copies.want(wanted(LEARNER))
    until(lambda: 40 < copies.reports()[P0].percent < 100, "half way")
    report = copies.reports()[P0]
    assert not report.ready and 5_000 < report.lag < 20_000
    claim = Claim(P0, 7)
    copies.order(claim)
    copies.want(Wanted(held=frozenset({P0})))
    blocks.release(100)
    until(lambda: scene.news(RestoreResult), "restored")
    assert scene.news(RestoreResult) == [RestoreResult(claim)]
    assert begun == [P0]
    assert len(scene.content()) == 30_004


def count_calls(monkeypatch: Any, owner: Any, name: str) -> list[Partition]:
    real, calls = getattr(owner, name), []

    def called(self: Any, *arguments: Any) -> Any:
        calls.append(self.partition)
        return real(self, *arguments)

    monkeypatch.setattr(owner, name, called)
    return calls


def test_what_was_committed_before_the_order_is_in_the_copy_that_is_handed_over(
    scene: Scene,
) -> None:
    """The order comes while the copy reads what it takes for the end of the changelog."""
    scene.own(P0)
    scene.commit(a=1)
    copies = scene.copies()
    scene.store.goes_on.clear()
    copies.want(wanted(LEARNER))
    until(lambda: scene.store.asked["read_changelog"], "it reads")
    scene.commit(b=2)
    copies.order(Claim(P0, 7))
    scene.store.goes_on.set()
    until(lambda: scene.news(RestoreResult), "handed over")
    assert scene.content() == {"a": 1, "b": 2}


def test_acquired_anew_meanwhile_only_the_last_claim_is_answered(scene: Scene) -> None:
    scene.own(P0)
    scene.commit()
    copies = scene.copies()
    scene.store.goes_on.clear()
    copies.order(Claim(P0, 7))
    until(lambda: scene.store.asked["read_changelog"], "it reads")
    copies.order(Claim(P0, 8))
    scene.store.goes_on.set()
    until(lambda: scene.news(RestoreResult), "restored")
    assert scene.news(RestoreResult) == [RestoreResult(Claim(P0, 8))]


def test_released_it_goes_on_as_a_standby_without_a_restore(scene: Scene) -> None:
    scene.own(P0)
    scene.commit(a=1)
    scene.snapshot()
    copies = scene.copies()
    copies.order(Claim(P0, 7))
    copies.want(Wanted(held=frozenset({P0})))
    until(lambda: scene.news(RestoreResult), "restored")
    before = scene.store.asked["read_snapshots"]
    scene.commit(b=2)
    copies.want(wanted(STANDBY))
    assert caught_up(copies).ready
    assert scene.store.asked["read_snapshots"] == before


def test_acquired_partitions_go_before_all_copies(scene: Scene, monkeypatch: Any) -> None:
    monkeypatch.setattr(manager, "THREADS", 1)
    scene.own(*MANY)
    for partition in MANY:
        scene.commit(partition)
    copies = scene.copies()
    scene.store.goes_on.clear()
    copies.want(wanted(LEARNER, *MANY[:-1]))
    until(lambda: scene.store.asked["read_changelog"], "the first is at work")
    copies.order(Claim(MANY[-1], 7))
    scene.store.goes_on.set()
    until(lambda: scene.news(RestoreResult), "restored")
    arrived = [one for one in scene.delivered if isinstance(one, RestoreResult | CopyNews)]
    assert arrived.index(RestoreResult(Claim(MANY[-1], 7))) <= 1
    for partition in MANY[:-1]:
        caught_up(copies, partition)
