"""Scale-downs on a real Redis: who is told, what each did, what survives a restart (S1 to S9)."""

import time
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from assignment.errors import InvalidInput
from assignment.scripts import Purpose
from assignment.types import Drain
from dashboard import coordinator, scale_down
from dashboard.coordinator import draining
from dashboard.live import StoreUnavailable
from dashboard.live import groups as live_groups
from dashboard.models import (
    AuditEntry,
    AuditSource,
    MemberEnd,
    MemberRecord,
    Rebalance,
    ScaleDown,
    ScaleDownState,
)
from dashboard.queries import scale_downs
from dashboard.scale_down import Conflict
from tests.dashboard.scaling import Scene

pytestmark = pytest.mark.django_db
BY_ANN = {"actor": "ann", "source": AuditSource.PAGE}


@pytest.fixture
def scene(store: Any, group_name: str, db: None) -> Scene:
    """S1 has 0 3, S2 has 1 4, S3 has 2."""
    return Scene(group_name)


def start(scene: Scene, **asked: Any) -> ScaleDown:
    return scale_down.start(scene.group, **(BY_ANN | asked))


def told(scene: Scene) -> dict[str, str]:
    view = live_groups.read(scene.group.name, Purpose.LOOK)
    return {m: row.drain.value for m, row in view.members.items() if row.drain is not Drain.NONE}


def epoch(scene: Scene) -> int:
    return live_groups.read(scene.group.name, Purpose.LOOK).meta.group_epoch


# --- looking --------------------------------------------------------------------------------------


def test_a_look_says_who_would_leave_and_changes_nothing(scene: Scene) -> None:
    before = epoch(scene)
    found = scale_down.preview(scene.group, percent=66)
    assert (found.members, found.stay, found.refused) == (3, 2, "")
    assert [(c.member_id, c.owned, c.covered) for c in found.leave] == [("S3", 1, 0)]
    assert [c.member_id for c in found.candidates] == ["S3", "S1", "S2"]
    assert (epoch(scene), ScaleDown.objects.count()) == (before, 0)


def test_a_look_at_names(scene: Scene) -> None:
    found = scale_down.preview(scene.group, members=["S2", " S1", "S2", ""])
    assert [c.member_id for c in found.leave] == ["S1", "S2"]


def test_copies_elsewhere_are_counted(store: Any, group_name: str) -> None:
    scene = Scene(group_name, standby_replicas=1)
    found = scale_down.preview(scene.group, members=["S1"])
    assert [(c.owned, c.covered) for c in found.leave] == [(2, 2)]


@pytest.mark.parametrize("percent", [0, -1, 101, "abc", "", "80.5", "1e2"])
def test_a_wrong_percentage_is_refused(scene: Scene, percent: Any) -> None:
    for deed in (scale_down.preview, lambda group, **asked: start(scene, **asked)):
        with pytest.raises(InvalidInput, match="percent"):
            deed(scene.group, percent=percent)
    assert not ScaleDown.objects.exists()


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"members": ["S1", "S9", "S8"]}, "no such member: S8, S9"),
        ({"members": []}, "no member was named"),
        ({"members": [" "]}, "no member was named"),
        ({}, "neither a percentage nor members"),
        ({"members": ["S1"], "timeout_ms": -1}, "timeout_ms -1"),
        ({"members": ["S1"], "timeout_ms": 0, "at_deadline": "abort"}, "change nothing"),
    ],
)
def test_what_cannot_be_right_is_refused(scene: Scene, asked: Any, text: str) -> None:
    before = epoch(scene)
    with pytest.raises(InvalidInput, match=text):
        start(scene, **asked)
    assert (epoch(scene), ScaleDown.objects.count(), told(scene)) == (before, 0, {})


def test_all_members_leave_only_when_that_is_forced(scene: Scene) -> None:
    everybody = ["S1", "S2", "S3"]
    assert "must be forced" in scale_down.preview(scene.group, members=everybody).refused
    with pytest.raises(Conflict, match="must be forced"):
        start(scene, members=everybody)
    row = start(scene, members=everybody, force_all=True)
    assert sorted(row.members) == everybody


def test_a_group_that_is_not_stateful_is_refused(store: Any, group_name: str) -> None:
    scene = Scene(group_name, stateful=False)
    assert "is not stateful" in scale_down.preview(scene.group, percent=66).refused
    with pytest.raises(Conflict, match="is not stateful"):
        start(scene, percent=66)


def test_a_group_without_members_is_refused(store: Any, group_name: str) -> None:
    with pytest.raises(Conflict, match="no live member"):
        start(Scene(group_name, members=()), percent=50)


# --- the whole way --------------------------------------------------------------------------------


def test_a_member_leaves_when_others_have_learned_what_it_has(scene: Scene) -> None:
    """T3: nobody pauses, S2 ends when it owns nothing."""
    row = start(scene, members=["S2"], reason="a smaller machine will do")
    assert (row.state, told(scene), row.live) == ("running", {"S2": "leaving"}, 3)
    assert row.told_at_ms is not None
    owned = scene.owned
    scene.round()
    assert scene.owned == owned, "told, and nothing moved"
    assert sum(map(len, scene.learning().values())) == 2
    assert "S2" not in scene.learning()
    last = scene.last
    assert (last.cause, last.planned, last.actor, last.reason) == (
        "scale-down", True, "ann", "a smaller machine will do",
    )  # fmt: skip
    first, second = (scene.agents[m] for m in sorted(scene.learning()))
    first.catch_up()
    scene.round()
    assert not scene.agents["S2"].ended
    second.catch_up()
    scene.round()
    assert scene.agents["S2"].ended
    assert sorted(map(len, scene.owned.values())) == [2, 3]
    assert (scene.scale_down().state, scene.outcomes()) == ("done", {"S2": "clean"})
    assert scene.scale_down().ended_at_ms is not None
    assert MemberRecord.objects.get(member_id="S2").end == MemberEnd.LEFT
    moved = [r.moved for r in Rebalance.objects.filter(at_ms__gte=row.asked_at_ms)]
    assert sum(moved) == 2
    actions = list(AuditEntry.objects.order_by("id").values_list("action", "actor"))
    assert ("scale down", "ann") in actions
    assert actions[-1] == ("scale down ended", "evenkeel")


def test_what_remains_in_percent(scene: Scene) -> None:
    row = start(scene, percent=66)
    assert (row.percent, sorted(row.members)) == (66, ["S3"])


def test_nobody_leaves_at_a_hundred_percent(scene: Scene) -> None:
    row = start(scene, percent=100)
    assert (row.state, row.members, told(scene)) == ("done", {}, {})
    assert start(scene, percent=66).state == "running", "it blocks nothing"


def test_a_hot_swap_moves_only_what_the_leaver_had(store: Any, group_name: str) -> None:
    """S8: the newcomer is the learner for it."""
    scene = Scene(group_name, partitions=6)
    owned = scene.owned
    scene.join("S9")
    start(scene, members=["S2"])
    scene.round()
    assert scene.learning() == {"S9": owned["S2"]}
    scene.agents["S9"].catch_up()
    scene.round()
    assert scene.owned == {"S1": owned["S1"], "S3": owned["S3"], "S9": owned["S2"]}
    assert scene.outcomes() == {"S2": "clean"}


def test_the_list_may_be_edited_before_it_is_confirmed(scene: Scene) -> None:
    row = start(scene, percent=66, members=["S1"])
    assert (row.percent, sorted(row.members)) == (66, ["S1"])


# --- one at a time --------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [{"percent": 66}, {"members": ["S3", "S1"]}])
def test_the_same_command_is_answered_with_the_running_one(scene: Scene, asked: Any) -> None:
    row = start(scene, **asked)
    before = epoch(scene), AuditEntry.objects.count()
    assert start(scene, **asked).pk == row.pk
    assert (epoch(scene), AuditEntry.objects.count()) == before


@pytest.mark.parametrize(
    "asked", [{"percent": 33}, {"members": ["S3"]}, {"percent": 66, "timeout_ms": 5_000}]
)
def test_another_one_is_refused_while_one_runs(scene: Scene, asked: Any) -> None:
    start(scene, percent=66)
    assert "runs" in scale_down.preview(scene.group, percent=33).refused
    with pytest.raises(Conflict, match="another scale-down runs"):
        start(scene, **asked)
    assert told(scene) == {"S3": "leaving"}


def test_the_same_names_are_the_same_command_when_one_has_left(scene: Scene) -> None:
    row = start(scene, members=["S2", "S3"])
    scene.agents.pop("S3").leave()
    coordinator.tick()
    assert start(scene, members=["S2", "S3"]).pk == row.pk


# --- limits ---------------------------------------------------------------------------------------


def until_late(scene: Scene) -> None:
    deadline = scene.scale_down().deadline_ms
    assert deadline is not None
    while live_groups.redis_now_ms() < deadline:
        time.sleep(0.01)


def test_when_the_time_is_up_they_go_and_learners_take_over(scene: Scene) -> None:
    """T6."""
    start(scene, members=["S2"], timeout_ms=300)
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
    assert MemberRecord.objects.get(member_id="S2").end == MemberEnd.FORCED
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
    scale_down.abort(scene.scale_down(), **BY_ANN)
    assert start(scene, members=["S1"], timeout_ms=None).timeout_ms is None


def test_at_the_deadline_it_may_be_aborted_instead(scene: Scene) -> None:
    start(scene, members=["S2"], timeout_ms=200, at_deadline="abort")
    scene.round()
    owned = scene.owned
    until_late(scene)
    coordinator.tick()
    scene.settle()
    assert (scene.scale_down().state, scene.outcomes()) == ("cancelled", {"S2": "cancelled"})
    assert (told(scene), scene.owned, scene.learning()) == ({}, owned, {})
    assert AuditEntry.objects.get(action="abort scale down").actor == "evenkeel"


def test_the_limit_can_be_extended(scene: Scene) -> None:
    row = start(scene, members=["S2"], timeout_ms=300)
    row = scale_down.extend(row, 600_000, **BY_ANN, reason="slow disk")
    assert row.timeout_ms == 600_000
    entry = AuditEntry.objects.get(action="extend scale down")
    assert (entry.before, entry.after["timeout_ms"]) == ({"timeout_ms": 300}, 600_000)
    for timeout_ms in (600_000, 5_000, -1):
        with pytest.raises(InvalidInput):
            scale_down.extend(row, timeout_ms, **BY_ANN)
    assert scale_down.extend(row, None, **BY_ANN).deadline_ms is None
    with pytest.raises(InvalidInput, match="without end already"):
        scale_down.extend(row, 900_000, **BY_ANN)


def test_one_member_can_be_forced(scene: Scene) -> None:
    row = start(scene, members=["S2", "S3"])
    scale_down.force(row, "S3", **BY_ANN)
    assert told(scene) == {"S2": "leaving", "S3": "forced"}
    scale_down.force(row, "S3", **BY_ANN)
    assert AuditEntry.objects.filter(action="force members").count() == 1
    scene.round()
    scene.round()
    assert scene.outcomes() == {"S2": "", "S3": "forced"}
    with pytest.raises(InvalidInput, match="'S1' was not told"):
        scale_down.force(row, "S1", **BY_ANN)
    with pytest.raises(Conflict, match="gone already"):
        scale_down.force(row, "S3", **BY_ANN)


def test_nothing_is_extended_once_all_are_forced(scene: Scene) -> None:
    row = start(scene, members=["S2"], timeout_ms=60_000)
    scale_down.force(row, "S2", **BY_ANN)
    with pytest.raises(Conflict, match="at once already"):
        scale_down.extend(row, 90_000, **BY_ANN)


# --- abort ----------------------------------------------------------------------------------------


def test_an_abort_drops_the_learners_and_the_owners_stay(scene: Scene) -> None:
    row = start(scene, members=["S2"])
    scene.round()
    owned = scene.owned
    scale_down.abort(row, **BY_ANN, reason="a mistake")
    assert told(scene) == {}
    scene.settle()
    assert (scene.owned, scene.learning(), scene.outcomes()) == (owned, {}, {"S2": "cancelled"})
    last = scene.last
    assert (last.cause, last.actor, last.moved) == ("cancelled", "ann", 0)
    assert all(not agent.copies for agent in scene.here)


def test_an_abort_half_way_keeps_what_has_moved(scene: Scene) -> None:
    row = start(scene, members=["S2", "S3"])
    scene.round()
    scene.agents["S1"].catch_up(2)
    scene.round()
    assert scene.agents["S3"].ended
    scale_down.abort(row, **BY_ANN)
    assert scene.outcomes() == {"S2": "cancelled", "S3": "clean"}
    assert scale_down.abort(scene.scale_down(), **BY_ANN).state == "cancelled", "again: the same"
    assert AuditEntry.objects.filter(action="abort scale down").count() == 1


def test_what_is_done_cannot_be_changed(scene: Scene) -> None:
    row = start(scene, members=["S2"], timeout_ms=0)
    scene.round()
    scene.round()
    for deed in (
        lambda: scale_down.abort(row, **BY_ANN),
        lambda: scale_down.force(row, "S2", **BY_ANN),
        lambda: scale_down.extend(row, 1_000, **BY_ANN),
    ):
        with pytest.raises(Conflict):
            deed()


# --- faults ---------------------------------------------------------------------------------------


def lose(scene: Scene, member: str) -> None:
    """Its session ends."""
    scene.agents.pop(member)
    view = live_groups.read(scene.group.name, Purpose.LOOK)
    live_groups.evict(scene.group.name, member, view.beats[member], coordinator.members.LOST)


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
    lost.copies.clear()
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
        patch.setattr(draining, "advance", _away)
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
        patch.setattr(draining, "advance", _away)
        assert scale_down.abort(row, **BY_ANN).state == "cancelled"
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
    draining.advance(scene.group, old)
    assert (scene.scale_down().state, told(scene)) == ("running", {"S4": "leaving"})


def test_only_one_can_run_whoever_asks(scene: Scene) -> None:
    row = start(scene, members=["S2"])
    assert not scene.group.scale_downs.exclude(pk=row.pk).exists()
    with pytest.raises(IntegrityError), transaction.atomic():
        ScaleDown.objects.create(
            group=scene.group, asked_at_ms=1, actor="bob", source="page", live=3, members={}
        )


# --- progress -------------------------------------------------------------------------------------


def test_progress_tells_who_learns_what_and_how_far(scene: Scene) -> None:
    row = start(scene, members=["S2"], timeout_ms=60_000)
    found = scale_downs.progress(row)
    (leaving,) = found.members
    assert [p.state for p in leaving.partitions] == ["waiting", "waiting"]
    assert 0 < (found.time_left_ms or 0) <= 60_000
    assert found.allowed_actions == ("extend", "force", "abort")
    scene.round()
    (leaving,) = scale_downs.progress(row).members
    assert (leaving.member_id, leaving.told, leaving.left, leaving.ready) == ("S2", "leaving", 2, 0)
    assert (leaving.percent, leaving.eta_ms) == (50.0, 1_000)
    takers = {p.number: p.taker for p in leaving.partitions}
    assert {m: n for n, m in takers.items()} == {m: n[0] for m, n in scene.learning().items()}
    first = scene.agents[takers[1] or ""]
    first.catch_up()
    (leaving,) = scale_downs.progress(row).members
    assert [(p.state, p.percent) for p in leaving.partitions] == [
        ("ready", 100.0), ("learning", 50.0),
    ]  # fmt: skip
    assert (leaving.ready, leaving.percent) == (1, 75.0)
    coordinator.rebalance(scene.group.name)
    (leaving,) = scale_downs.progress(row).members
    assert [p.state for p in leaving.partitions] == ["moving", "learning"]


def test_progress_of_one_that_ended(scene: Scene) -> None:
    row = start(scene, members=["S2"], timeout_ms=0)
    scene.round()
    scene.round()
    row.refresh_from_db()
    found = scale_downs.progress(row)
    assert (found.time_left_ms, found.allowed_actions, found.gone, found.left) == (None, (), 1, 0)
    assert (found.members[0].outcome, found.members[0].here) == ("forced", False)


def test_lists_of_scale_downs(scene: Scene) -> None:
    first = start(scene, members=["S2"])
    scale_down.abort(first, **BY_ANN)
    second = start(scene, members=["S3"])
    assert scale_downs.running(scene.group) == second
    page = scale_downs.page(scene.group, size=1)
    assert ([row.pk for row in page.rows], page.older) == ([second.pk], second.pk)
    assert [r.pk for r in scale_downs.page(scene.group, before=page.older).rows] == [first.pk]
    assert scale_downs.find(scene.group, first.pk) == first
    assert [row.state for row in scale_downs.every(scene.group)] == [
        ScaleDownState.RUNNING, ScaleDownState.CANCELLED,
    ]  # fmt: skip
