"""Replicas that stop being wanted in the middle of a turn: nothing of it counts later."""

import pytest

from agent.replicas.manager import ReplicaManager
from agent.state.errors import StateError
from assignment.member.replicas import Wanted
from tests.agent.replicas_scene import LEARNER, Scene, caught_up, of, until, wanted
from tests.contract.world import P0


def learner_in_its_turn(scene: Scene) -> ReplicaManager:
    """Held where it reads the changelog, until `goes_on` is set."""
    scene.own(P0)
    replicas = scene.replicas()
    scene.commit(events=3)
    scene.store.goes_on.clear()
    replicas.want(wanted(LEARNER))
    until(lambda: scene.store.asked["read_changelog"], "its turn")
    return replicas


def wanted_no_more_in_a_turn(scene: Scene) -> None:
    """The turn goes on to its end after that, and comes where the changelog ends."""
    replicas = learner_in_its_turn(scene)
    replicas.want(Wanted())
    scene.store.goes_on.set()
    until(lambda: not (of(replicas).running or of(replicas).queued), "its turn has ended")


def test_a_learner_that_is_wanted_again_is_ready_only_when_it_has_caught_up(scene: Scene) -> None:
    wanted_no_more_in_a_turn(scene)
    (replicas,) = scene.made
    end = scene.commit(events=1_000)
    scene.store.goes_on.clear()
    replicas.want(wanted(LEARNER))
    report = replicas.reports()[P0]
    assert not report.ready, "it is a thousand events behind and does not know it yet"
    assert report.percent < 100
    scene.store.goes_on.set()
    assert caught_up(replicas).ready
    assert scene.world.store.committed([P0])[P0] == end


def test_a_failure_of_what_was_not_wanted_any_more_delays_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas = learner_in_its_turn(scene)
    work = replicas._works[P0]
    honest = work.go_on

    def fails(*arguments: object) -> None:
        monkeypatch.setattr(work, "go_on", honest)
        replicas.want(Wanted())
        raise StateError("no space left")

    until(lambda: of(replicas).running, "its turn")
    monkeypatch.setattr(work, "go_on", fails)
    scene.store.goes_on.set()
    caught_up(replicas)
    scene.commit()
    until(lambda: not _is_at_it(replicas), "it failed")
    replicas.want(wanted(LEARNER))
    assert (replicas.reports()[P0].why, of(replicas).retry_ms) == ("", None)
    assert caught_up(replicas).ready
    assert of(replicas).failures == 0


def _is_at_it(replicas: ReplicaManager) -> bool:
    """What nobody wants goes at once when a disk is full, and is forgotten then."""
    replica = replicas._replicas.of.get(P0)
    return replica is not None and (replica.role is not None or replica.running)
