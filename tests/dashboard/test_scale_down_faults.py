"""Scale-downs in which members die, come back, or Redis is away (learners.md S6, T8, T9)."""

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from assignment.scripts.dashboard_side import evict
from assignment.scripts.group_read import Purpose
from assignment.types import Reason
from dashboard import coordinator
from dashboard.actions import groups, scale_down
from dashboard.live import groups as live_groups
from dashboard.live.connection import StoreUnavailable
from dashboard.live.scripts import run
from dashboard.models import AuditEntry, AuditSource, Rebalance, ScaleDown
from dashboard.records.audit import By
from tests.dashboard.scaling import BY_ANN, Scene, epoch, start, told

pytestmark = pytest.mark.django_db


def lose(scene: Scene, member: str) -> None:
    """Its session ends."""
    scene.agents.pop(member)
    view = live_groups.read(scene.group.name, Purpose.LOOK)
    run(evict(member, view.beats[member], Reason.LOST), scene.group.name)


def test_a_leaving_member_that_dies_is_not_waited_for(scene: Scene) -> None:
    """T8."""
    start(scene, members=["S2"])
    scene.round()
    learning = scene.learning()
    lose(scene, "S2")
    coordinator.tick()
    assert (scene.scale_down().state, scene.outcomes()) == ("done", {"S2": "died"})
    scene.round()
    for member, numbers in learning.items():
        assert set(numbers) <= set(scene.owned[member])


def test_a_leaving_member_that_is_sent_a_signal_went_by_force(scene: Scene) -> None:
    start(scene, members=["S2"])
    scene.round()
    agent = scene.agents.pop("S2")
    agent.beat(leaving=True)
    agent.leave()
    coordinator.tick()
    assert (scene.scale_down().state, scene.outcomes()) == ("done", {"S2": "forced"})


def test_a_staying_member_that_dies_meanwhile(scene: Scene) -> None:
    """T9: S2 keeps what it has until S3 has learned it."""
    start(scene, members=["S2"])
    scene.round()
    lose(scene, "S1")
    coordinator.tick()
    scene.round()
    assert scene.owned == {"S2": [1, 4], "S3": [0, 2, 3]}
    assert scene.learning() == {"S3": [1, 4]}
    scene.agents["S3"].catch_up()
    scene.round()
    assert scene.owned == {"S3": [0, 1, 2, 3, 4]}
    assert scene.outcomes() == {"S2": "clean"}


def test_one_that_joins_anew_is_still_leaving(scene: Scene) -> None:
    start(scene, members=["S2", "S3"])
    scene.round()
    lost = scene.agents["S2"]
    lose(scene, "S2")
    coordinator.tick()
    assert scene.outcomes()["S2"] == "died"
    lost.held.clear()
    lost.replicas.clear()
    lost.start()
    scene.agents["S2"] = lost
    coordinator.tick()
    assert (scene.outcomes()["S2"], told(scene)["S2"]) == ("", "leaving")
    scene.round()
    assert lost.ended, "it came back with nothing, so it goes"
    assert scene.outcomes()["S2"] == "clean"


def test_the_last_one_that_comes_back_goes_on_leaving(scene: Scene) -> None:
    start(scene, members=["S2"])
    lost = scene.agents["S2"]
    lose(scene, "S2")
    coordinator.tick()
    assert scene.scale_down().state == "done"
    lost.held.clear()
    lost.start()
    scene.agents["S2"] = lost
    coordinator.tick()
    assert (scene.scale_down().state, told(scene)) == ("running", {"S2": "leaving"})
    scene.round()
    assert (scene.scale_down().state, scene.outcomes()) == ("done", {"S2": "clean"})


def test_a_redis_that_was_away_is_told_by_the_tick(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process was killed, or Redis went away, between the record and the telling."""
    with monkeypatch.context() as patch:
        patch.setattr(coordinator, "advance", _away)
        row = start(scene, members=["S2"], timeout_ms=60_000)
    assert (row.state, row.told_at_ms, row.deadline_ms, told(scene)) == (
        "running", None, None, {},
    )  # fmt: skip
    coordinator.tick()
    assert told(scene) == {"S2": "leaving"}
    row.refresh_from_db()
    assert row.told_at_ms is not None, "the limit counts from now"


def _away(*_: Any) -> bool:
    raise StoreUnavailable("away")


def test_an_abort_that_redis_was_not_told_is_told_by_the_tick(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = start(scene, members=["S2"])
    with monkeypatch.context() as patch:
        patch.setattr(coordinator, "advance", _away)
        assert scale_down.abort(row, by=BY_ANN).state == "cancelled"
    assert told(scene) == {"S2": "leaving"}
    coordinator.tick()
    assert told(scene) == {}


def test_a_crash_after_the_telling_tells_nobody_twice(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before told_at_ms was stored."""
    with monkeypatch.context() as patch:
        patch.setattr(live_groups, "redis_now_ms", _away)
        start(scene, members=["S2"])
    assert (told(scene), scene.scale_down().told_at_ms) == ({"S2": "leaving"}, None)
    before = epoch(scene)
    coordinator.tick()
    assert (epoch(scene), told(scene)) == (before, {"S2": "leaving"})
    assert scene.scale_down().told_at_ms is not None


def test_ticks_without_news_change_nothing(scene: Scene) -> None:
    start(scene, members=["S2"])
    scene.round()
    before = epoch(scene), Rebalance.objects.count(), AuditEntry.objects.count()
    for _ in range(3):
        coordinator.tick()
        coordinator.rebalance(scene.group.name)
    assert (epoch(scene), Rebalance.objects.count(), AuditEntry.objects.count()) == before


def test_a_view_from_before_the_record_says_nothing_of_it(scene: Scene) -> None:
    old = live_groups.read(scene.group.name, Purpose.LOOK)
    scene.join("S4")
    start(scene, members=["S4"])
    coordinator.advance(scene.group, old)
    assert (scene.scale_down().state, told(scene)) == ("running", {"S4": "leaving"})


def test_only_one_can_run_whoever_asks(scene: Scene) -> None:
    row = start(scene, members=["S2"])
    assert not scene.group.scale_downs.exclude(pk=row.pk).exists()
    with pytest.raises(IntegrityError), transaction.atomic():
        ScaleDown.objects.create(
            group=scene.group, asked_at_ms=1, actor="bob", source="page", live=3, members={}
        )


def test_after_a_wiped_redis_everybody_is_told_again(scene: Scene, store: Any) -> None:
    """Nobody is there for a moment, and nobody has died of that."""
    start(scene, members=["S2"])
    store.delete(*store.keys(f"ek:{{{scene.group.name}}}:*"))
    coordinator.tick()
    coordinator.tick()
    assert scene.outcomes() == {"S2": ""}
    for agent in scene.here:
        agent.held.clear()
        agent.join()
    coordinator.tick()
    assert (told(scene), scene.outcomes()) == ({"S2": "leaving"}, {"S2": ""})


def test_a_group_that_stops_being_stateful_lets_the_leaving_go(scene: Scene) -> None:
    start(scene, members=["S2"])
    scene.round()
    changes = {"stateful": False}
    groups.change_settings(scene.group, changes, by=By("ann", AuditSource.PAGE))
    scene.round()
    assert scene.agents["S2"].ended, "nothing is learned there: others have it at once"
    scene.round()
    assert (scene.scale_down().state, scene.outcomes()) == ("done", {"S2": "clean"})
    assert sorted(map(len, scene.owned.values())) == [2, 3]
