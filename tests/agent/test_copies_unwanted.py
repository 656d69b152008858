"""Copies that stop being wanted in the middle of a turn: nothing of it counts later."""

import pytest

from agent.replicas.manager import Copies
from agent.replicas.replica import Standing
from agent.state import StateError
from assignment.member import Wanted
from tests.agent.copies_scene import LEARNER, Scene, caught_up, until, wanted
from tests.contract.world import P0


def learner_in_its_turn(scene: Scene) -> tuple[Copies, Standing]:
    """Held where it reads the changelog, until `goes_on` is set."""
    scene.own(P0)
    copies = scene.copies()
    scene.commit(events=3)
    scene.store.goes_on.clear()
    copies.want(wanted(LEARNER))
    until(lambda: scene.store.asked["read_changelog"], "its turn")
    return copies, copies._copies[P0]


def wanted_no_more_in_a_turn(scene: Scene) -> None:
    """The turn goes on to its end after that, and comes where the changelog ends."""
    copies, standing = learner_in_its_turn(scene)
    copies.want(Wanted())
    scene.store.goes_on.set()
    until(lambda: not (standing.running or standing.queued), "its turn has ended")


def test_a_learner_that_is_wanted_again_is_ready_only_when_it_has_caught_up(scene: Scene) -> None:
    wanted_no_more_in_a_turn(scene)
    (copies,) = scene.made
    end = scene.commit(events=1_000)
    scene.store.goes_on.clear()
    copies.want(wanted(LEARNER))
    report = copies.reports()[P0]
    assert not report.ready, "it is a thousand events behind and does not know it yet"
    assert report.percent < 100
    scene.store.goes_on.set()
    assert caught_up(copies).ready
    assert scene.world.store.committed([P0])[P0] == end


def test_a_failure_of_what_was_not_wanted_any_more_delays_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies, standing = learner_in_its_turn(scene)
    honest = standing.work.go_on

    def fails(*arguments: object) -> None:
        monkeypatch.setattr(standing.work, "go_on", honest)
        copies.want(Wanted())
        raise StateError("no space left")

    until(lambda: standing.running, "its turn")
    monkeypatch.setattr(standing.work, "go_on", fails)
    scene.store.goes_on.set()
    caught_up(copies)
    scene.commit()
    until(lambda: standing.role is None and not standing.running, "it failed")
    copies.want(wanted(LEARNER))
    assert (copies.reports()[P0].why, standing.retry_ms) == ("", None)
    assert caught_up(copies).ready
    assert standing.failures == 0
