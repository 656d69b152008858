"""Deeds of a scale-down that come while a round is being planned, or from another dashboard."""

from collections.abc import Callable
from typing import Any

import pytest

from assignment.scripts import Purpose
from dashboard import coordinator, scale_down
from dashboard.live import groups as live_groups
from dashboard.models import Rebalance
from tests.dashboard.scaling import BY_ANN, Scene, start, told

pytestmark = pytest.mark.django_db


@pytest.fixture
def scene(store: Any, group_name: str, db: None) -> Scene:
    """S1 has 0 3, S2 has 1 4, S3 has 2."""
    return Scene(group_name)


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Does something after the next plan was read and before its target is stored."""
    honest = live_groups.read

    def arrange(deed: Callable[[], Any]) -> None:
        def read(group: str, purpose: Purpose, *more: Any) -> Any:
            view = honest(group, purpose, *more)
            if purpose is Purpose.PLAN:
                monkeypatch.setattr(live_groups, "read", honest)
                deed()
            return view

        monkeypatch.setattr(live_groups, "read", read)

    return arrange


def test_an_abort_is_above_a_promotion_that_was_planned_before_it(
    scene: Scene, between: Callable[[Callable[[], Any]], None]
) -> None:
    row = start(scene, members=["S2"])
    scene.round()
    owned = scene.owned
    for agent in scene.here:
        agent.catch_up()
    between(lambda: scale_down.abort(row, **BY_ANN))
    scene.round()
    scene.settle()
    assert (scene.owned, scene.learning(), told(scene)) == (owned, {}, {})
    later = Rebalance.objects.filter(at_ms__gte=row.asked_at_ms)
    assert {round.moved for round in later} == {0}


def test_whoever_is_told_to_leave_gets_nothing_by_a_plan_from_before(
    scene: Scene, between: Callable[[Callable[[], Any]], None]
) -> None:
    """S4 is to learn one partition of its own; told to leave meanwhile, it learns nothing."""
    scene.join("S4")
    rounds = Rebalance.objects.count()
    between(lambda: start(scene, members=["S4"]))
    assert coordinator.rebalance(scene.group.name).startswith("epoch")
    assert scene.learning() == {}
    assert (scene.last.cause, Rebalance.objects.count()) == ("scale-down", rounds + 1)
    scene.round()
    assert scene.agents["S4"].ended
    assert scene.outcomes() == {"S4": "clean"}
