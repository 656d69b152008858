"""A scale-down that must end: its limit, one forced, an abort (learners.md S5, S7)."""

from dataclasses import replace
from typing import Any

import pytest

from assignment.coordinator.facts import StayEnd
from assignment.errors import InvalidInput
from dashboard import coordinator
from dashboard.actions import scale_down
from dashboard.actions.groups import Refused
from dashboard.live import groups as live_groups
from dashboard.models import AuditEntry, MemberRecord
from tests.dashboard.scaling import BY_ANN, Scene, start, told

pytestmark = pytest.mark.django_db

A_MINUTE_MS = 60_000


def until_late(scene: Scene) -> None:
    """As if they had been told a minute earlier."""
    row = scene.scale_down()
    assert row.told_at_ms is not None
    row.told_at_ms -= A_MINUTE_MS
    row.save(update_fields=["told_at_ms"])
    assert row.deadline_ms is not None and row.deadline_ms <= live_groups.redis_now_ms()


def test_when_the_time_is_up_they_go_and_learners_take_over(scene: Scene) -> None:
    """T6."""
    start(scene, members=["S2"], timeout_ms=A_MINUTE_MS)
    scene.round()
    learning = scene.learning()
    assert told(scene) == {"S2": "leaving"}
    until_late(scene)
    coordinator.tick()
    assert told(scene) == {"S2": "forced"}
    scene.round()
    assert scene.agents["S2"].ended
    scene.round()
    for member, numbers in learning.items():
        assert set(numbers) <= set(scene.owned[member]), "not ready, and owner all the same"
    assert (scene.scale_down().state, scene.outcomes()) == ("done", {"S2": "forced"})
    assert MemberRecord.objects.get(member_id="S2").end == StayEnd.FORCED
    assert AuditEntry.objects.get(action="force members").actor == "evenkeel"


def test_no_time_at_all_means_at_once(scene: Scene) -> None:
    start(scene, members=["S2"], timeout_ms=0)
    assert told(scene) == {"S2": "forced"}
    scene.round()
    assert scene.agents["S2"].ended
    scene.round()
    assert scene.outcomes() == {"S2": "forced"}


def test_the_groups_own_limit_is_the_default(store: Any, group_name: str) -> None:
    scene = Scene(group_name, scale_down_timeout_ms=70_000)
    assert start(scene, members=["S1"]).timeout_ms == 70_000
    scale_down.abort(scene.scale_down(), by=BY_ANN)
    assert start(scene, members=["S1"], timeout_ms=None).timeout_ms is None


def test_at_the_deadline_it_may_be_aborted_instead(scene: Scene) -> None:
    start(scene, members=["S2"], timeout_ms=A_MINUTE_MS, at_deadline="abort")
    scene.round()
    owned = scene.owned
    until_late(scene)
    coordinator.tick()
    scene.settle()
    assert (scene.scale_down().state, scene.outcomes()) == ("cancelled", {"S2": "cancelled"})
    assert (told(scene), scene.owned, scene.learning()) == ({}, owned, {})
    assert AuditEntry.objects.get(action="abort scale down").actor == "evenkeel"


def test_the_limit_can_be_extended(scene: Scene) -> None:
    row = start(scene, members=["S2"], timeout_ms=A_MINUTE_MS)
    row = scale_down.extend(row, 600_000, by=replace(BY_ANN, reason="slow disk"))
    assert row.timeout_ms == 600_000
    entry = AuditEntry.objects.get(action="extend scale down")
    assert (entry.before, entry.after["timeout_ms"]) == ({"timeout_ms": A_MINUTE_MS}, 600_000)
    for timeout_ms in (600_000, 5_000, -1):
        with pytest.raises(InvalidInput):
            scale_down.extend(row, timeout_ms, by=BY_ANN)
    assert scale_down.extend(row, None, by=BY_ANN).deadline_ms is None
    with pytest.raises(InvalidInput, match="without end already"):
        scale_down.extend(row, 900_000, by=BY_ANN)


def test_one_member_can_be_forced(scene: Scene) -> None:
    row = start(scene, members=["S2", "S3"])
    scale_down.force(row, "S3", by=BY_ANN)
    assert told(scene) == {"S2": "leaving", "S3": "forced"}
    scale_down.force(row, "S3", by=BY_ANN)
    assert AuditEntry.objects.filter(action="force members").count() == 1
    scene.round()
    scene.round()
    assert scene.outcomes() == {"S2": "", "S3": "forced"}
    with pytest.raises(InvalidInput, match="'S1' was not told"):
        scale_down.force(row, "S1", by=BY_ANN)
    with pytest.raises(Refused, match="gone already"):
        scale_down.force(row, "S3", by=BY_ANN)


def test_nothing_is_extended_once_all_are_forced(scene: Scene) -> None:
    row = start(scene, members=["S2"], timeout_ms=A_MINUTE_MS)
    scale_down.force(row, "S2", by=BY_ANN)
    with pytest.raises(Refused, match="forced out already"):
        scale_down.extend(row, 90_000, by=BY_ANN)


def test_an_abort_drops_the_learners_and_the_owners_stay(scene: Scene) -> None:
    row = start(scene, members=["S2"])
    scene.round()
    owned = scene.owned
    scale_down.abort(row, by=replace(BY_ANN, reason="a mistake"))
    assert told(scene) == {}
    scene.settle()
    assert (scene.owned, scene.learning(), scene.outcomes()) == (owned, {}, {"S2": "cancelled"})
    last = scene.last
    assert (last.cause, last.actor, last.moved) == ("cancelled", "ann", 0)
    assert all(not agent.replicas for agent in scene.here)


def test_an_abort_is_above_a_learner_that_is_ready_at_that_moment(scene: Scene) -> None:
    row = start(scene, members=["S2"])
    scene.round()
    owned, epoch = scene.owned, scene.last.target_epoch
    for agent in scene.here:
        agent.catch_up()
    scale_down.abort(row, by=BY_ANN)
    for agent in scene.here:
        agent.catch_up()
    scene.settle()
    assert (scene.owned, scene.learning()) == (owned, {})
    later = scene.group.rebalances.filter(target_epoch__gt=epoch)
    assert {round.moved for round in later} == {0}


def test_an_abort_half_way_keeps_what_has_moved(scene: Scene) -> None:
    row = start(scene, members=["S2", "S3"])
    scene.round()
    scene.agents["S1"].catch_up(2)
    scene.round()
    assert scene.agents["S3"].ended
    scale_down.abort(row, by=BY_ANN)
    assert scene.outcomes() == {"S2": "cancelled", "S3": "clean"}
    assert scale_down.abort(scene.scale_down(), by=BY_ANN).state == "cancelled", "again: the same"
    assert AuditEntry.objects.filter(action="abort scale down").count() == 1


def test_what_is_done_cannot_be_changed(scene: Scene) -> None:
    row = start(scene, members=["S2"], timeout_ms=0)
    scene.round()
    scene.round()
    for action in (
        lambda: scale_down.abort(row, by=BY_ANN),
        lambda: scale_down.force(row, "S2", by=BY_ANN),
        lambda: scale_down.extend(row, 1_000, by=BY_ANN),
    ):
        with pytest.raises(Refused):
            action()
