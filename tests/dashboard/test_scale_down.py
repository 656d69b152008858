"""Scale-downs on a real Redis: who is told to leave, and how they do (S1 to S4, S8)."""

from typing import Any

import pytest

from assignment.coordinator.facts import StayEnd
from assignment.errors import InvalidInput
from dashboard import coordinator
from dashboard.actions.groups import Refused
from dashboard.actions.preview import preview
from dashboard.models import AuditEntry, MemberRecord, Rebalance, ScaleDown
from tests.dashboard.scaling import Scene, epoch, start, told

pytestmark = pytest.mark.django_db


def test_a_look_says_who_would_leave_and_changes_nothing(scene: Scene) -> None:
    before = epoch(scene)
    found = preview(scene.group, percent=66)
    assert (found.members, found.stay, found.refused) == (3, 2, "")
    assert [(c.member_id, c.owned, c.covered) for c in found.leave] == [("S3", 1, 0)]
    assert [c.member_id for c in found.candidates] == ["S3", "S1", "S2"]
    assert (epoch(scene), ScaleDown.objects.count()) == (before, 0)


def test_a_look_at_names(scene: Scene) -> None:
    found = preview(scene.group, members=["S2", " S1", "S2", ""])
    assert [c.member_id for c in found.leave] == ["S1", "S2"]


def test_replicas_elsewhere_are_counted(store: Any, group_name: str) -> None:
    scene = Scene(group_name, standby_replicas=1)
    found = preview(scene.group, members=["S1"])
    assert [(c.owned, c.covered) for c in found.leave] == [(2, 2)]


@pytest.mark.parametrize("percent", [0, -1, 101, "abc", "", "80.5", "1e2"])
def test_a_wrong_percentage_is_refused(scene: Scene, percent: Any) -> None:
    for action in (preview, lambda group, **asked: start(scene, **asked)):
        with pytest.raises(InvalidInput, match="percent"):
            action(scene.group, percent=percent)
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
    assert "must be forced" in preview(scene.group, members=everybody).refused
    with pytest.raises(Refused, match="must be forced"):
        start(scene, members=everybody)
    row = start(scene, members=everybody, force_all=True)
    assert sorted(row.members) == everybody


def test_a_group_that_is_not_stateful_is_refused(store: Any, group_name: str) -> None:
    scene = Scene(group_name, stateful=False)
    assert "is not stateful" in preview(scene.group, percent=66).refused
    with pytest.raises(Refused, match="is not stateful"):
        start(scene, percent=66)


def test_a_group_without_members_is_refused(store: Any, group_name: str) -> None:
    with pytest.raises(Refused, match="no live member"):
        start(Scene(group_name, members=()), percent=50)


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
    assert MemberRecord.objects.get(member_id="S2").end == StayEnd.LEFT
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


def test_eager_or_stable_is_the_groups_own_setting(scene: Scene) -> None:
    start(scene, members=["S2"], eager=False, reason="one pause")
    entry = AuditEntry.objects.get(action="change settings")
    assert (entry.actor, entry.reason) == ("ann", "one pause")
    assert entry.after == {"learn_partial_rebalance": False}
    scene.group.refresh_from_db()
    assert not scene.group.values.learn_partial_rebalance


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
    assert "runs" in preview(scene.group, percent=33).refused
    with pytest.raises(Refused, match="another scale-down runs"):
        start(scene, **asked)
    assert told(scene) == {"S3": "leaving"}


def test_the_same_names_are_the_same_command_when_one_has_left(scene: Scene) -> None:
    row = start(scene, members=["S2", "S3"])
    scene.agents.pop("S3").leave()
    coordinator.tick()
    assert start(scene, members=["S2", "S3"]).pk == row.pk
