"""Actions of a scale-down that come while a round is being planned, or from another dashboard."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from assignment.scripts.dashboard_side import evict
from assignment.scripts.group_read import Purpose
from assignment.types import Reason
from dashboard import coordinator
from dashboard.actions import preview, scale_down
from dashboard.actions.groups import Refused
from dashboard.live import groups as live_groups
from dashboard.live.scripts import run
from dashboard.models import AuditEntry, Rebalance
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

    def arrange(action: Callable[[], Any]) -> None:
        def read(group: str, purpose: Purpose, *more: Any) -> Any:
            view = honest(group, purpose, *more)
            if purpose is Purpose.REBALANCE:
                monkeypatch.setattr(live_groups, "read", honest)
                action()
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
    between(lambda: scale_down.abort(row, by=BY_ANN))
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


# --- two dashboards -------------------------------------------------------------------------------


def test_whoever_comes_second_changes_nothing_not_even_a_setting(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = preview.leavers

    def leavers(*asked: Any, **more: Any) -> Any:
        monkeypatch.setattr(preview, "leavers", honest)
        leave = honest(*asked, **more)
        start(scene, members=["S3"])
        return leave

    monkeypatch.setattr(preview, "leavers", leavers)
    with pytest.raises(Refused, match="another scale-down runs"):
        start(scene, members=["S2"], eager=False)
    scene.group.refresh_from_db()
    assert scene.group.values.learn_partial_rebalance
    assert not AuditEntry.objects.filter(action="change settings").exists()
    assert told(scene) == {"S3": "leaving"}


@pytest.mark.parametrize("more", [{"at_deadline": "abort"}, {"eager": False}])
def test_to_go_about_it_in_another_way_is_another_command(
    scene: Scene, more: dict[str, Any]
) -> None:
    asked: dict[str, Any] = {"members": ["S2"], "timeout_ms": 60_000, "eager": True}
    row = start(scene, **asked)
    assert start(scene, **asked).pk == row.pk
    with pytest.raises(Refused, match="another scale-down runs"):
        start(scene, **(asked | more))


def test_a_view_from_before_a_member_was_lost_does_not_bring_it_back(scene: Scene) -> None:
    start(scene, members=["S2"])
    old = live_groups.read(scene.group.name, Purpose.LOOK)
    scene.agents.pop("S2")
    beat = old.beats["S2"]
    run(evict("S2", beat, Reason.LOST), scene.group.name)
    coordinator.tick()
    assert (scene.scale_down().state, scene.outcomes()) == ("done", {"S2": "died"})
    coordinator.advance(scene.group, old)
    assert (scene.scale_down().state, scene.outcomes()) == ("done", {"S2": "died"})
    assert not AuditEntry.objects.filter(action="scale down goes on").exists()


def test_a_clock_that_is_set_back_does_not_hide_who_has_gone(scene: Scene) -> None:
    row = start(scene, members=["S2"])
    scene.agents.pop("S2").leave()
    view = live_groups.read(scene.group.name, Purpose.LOOK)
    just_before = replace(view, now_ms=row.asked_at_ms - 1)
    coordinator.advance(scene.group, just_before)
    assert scene.outcomes() == {"S2": ""}, "that one may be from before the record"
    an_hour_back = replace(view, now_ms=row.asked_at_ms - 3_600_000)
    coordinator.advance(scene.group, an_hour_back)
    assert (scene.scale_down().state, scene.outcomes()) == ("done", {"S2": "clean"})
