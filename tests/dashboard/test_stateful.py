"""A stateful group on a real Redis: handovers by learners, and the record of each round."""

from typing import Any

import pytest

from assignment.types import Partition
from dashboard.actions import at_once, groups
from dashboard.models import AuditSource, Group, Rebalance, RebalanceOutcome, Tenure
from dashboard.records.audit import By
from dashboard.records.queries import previews
from tests.dashboard.scaling import Scene

pytestmark = pytest.mark.django_db


def test_who_owned_nothing_before_is_given_it_at_once(scene: Scene) -> None:
    assert scene.owned == {"S1": [0, 3], "S2": [1, 4], "S3": [2]}
    assert scene.last.roles["S3"] == {
        "assigned": [2], "revoked": [], "standby": [], "learning": [],
    }  # fmt: skip
    assert (scene.last.strategy, scene.last.learning) == ("planner", 0)


def test_a_joiner_learns_first_and_takes_over_when_it_is_ready(scene: Scene) -> None:
    owned = scene.owned
    joiner = scene.join("S4")
    scene.round()
    assert scene.owned == owned | {"S4": []}, "the owner goes on"
    assert scene.learning() == {"S4": [0]}
    row = scene.last
    assert (row.moved, row.kept, row.avoidable, row.learning) == (0, 5, 0, 1)
    assert (row.stickiness, row.stickiness_best) == (1.0, 1.0)
    assert row.outcome == RebalanceOutcome.DONE, "learning goes on after the round"
    joiner.catch_up()
    scene.round()
    row = scene.last
    assert (row.cause, row.roles["S1"]) == (
        "ready", {"assigned": [3], "revoked": [0], "standby": [], "learning": []},
    )  # fmt: skip
    assert scene.owned == {"S1": [3], "S2": [1, 4], "S3": [2], "S4": [0]}
    assert row.outcome == RebalanceOutcome.DONE
    assert row.max_minus_min == 1


def test_only_the_moved_partition_has_a_new_tenure(scene: Scene) -> None:
    before = set(Tenure.objects.values_list("number", "fence"))
    scene.join("S4")
    scene.round()
    scene.agents["S4"].catch_up()
    scene.round()
    after = set(Tenure.objects.values_list("number", "fence"))
    assert [number for number, _ in after - before] == [0]


def test_a_lost_learner_leaves_the_owner_in_peace(scene: Scene) -> None:
    scene.join("S4")
    scene.round()
    owned = scene.owned
    scene.agents.pop("S4").leave()
    scene.round()
    assert scene.owned == {m: own for m, own in owned.items() if m != "S4"}
    assert scene.learning() == {}


def test_a_lost_owner_is_followed_by_its_learner_though_not_ready(scene: Scene) -> None:
    """T4: what it owned and nobody learned goes to the least loaded."""
    scene.join("S4")
    scene.round()
    scene.agents.pop("S1").leave()
    scene.round()
    assert scene.owned == {"S2": [1, 4], "S3": [2, 3], "S4": [0]}
    assert scene.last.cause == "leave"


def test_two_coordinators_in_a_row_change_nothing(scene: Scene) -> None:
    scene.join("S4")
    scene.round()
    count = Rebalance.objects.count()
    at_once.rebalance(scene.group, By("ann", AuditSource.PAGE, ""), strategy="sticky")
    scene.round()
    assert Rebalance.objects.count() == count + 1
    assert scene.learning() == {"S4": [0]}, "the learner stays where it is"
    assert (scene.last.cause, scene.last.moved) == ("manual", 0)


def test_standbys_are_placed_when_the_setting_says_so(scene: Scene) -> None:
    groups.change_settings(
        scene.group, {"standby_replicas": 1}, by=By("ann", AuditSource.PAGE, "safer")
    )
    scene.round()
    row = scene.last
    assert (row.cause, row.planned, row.actor, row.reason) == ("standbys", True, "ann", "safer")
    assert sorted(n for roles in row.roles.values() for n in roles["standby"]) == [0, 1, 2, 3, 4]
    assert row.moved == 0


def test_a_group_becomes_stateful_without_moving(store: Any, group_name: str) -> None:
    scene = Scene(group_name, stateful=False)
    owned = scene.owned
    assert (scene.last.strategy, scene.last.replicas) == ("sticky", None)
    groups.change_settings(scene.group, {"stateful": True}, by=By("ann", AuditSource.PAGE))
    scene.round()
    assert (scene.last.cause, scene.last.strategy, scene.owned) == ("stateful", "planner", owned)


def test_the_preview_tells_what_would_be_learned(scene: Scene) -> None:
    scene.join("S4")
    found = previews.of_group(scene.group.name)
    assert [p.strategy for p in found.every] == ["planner"]
    change = found.every[0].change
    assert change is not None
    assert (change.moves, change.waiting) == ((), 0)
    assert [(m.partition, m.giver, m.taker) for m in change.learning] == [
        (Partition(scene.group.stream, 0), "S1", "S4")
    ]
    assert not Rebalance.objects.filter(learning__gt=0).exists(), "a look changes nothing"


def test_learners_wait_for_their_turn(store: Any, group_name: str) -> None:
    scene = Scene(group_name, members=("S1",), learners_max=1, partitions=6)
    scene.join("S2")
    scene.join("S3")
    scene.round()
    assert scene.last.learning == 1
    assert previews.of_group(scene.group.name).every[0].change.waiting == 3


def test_a_group_that_is_not_stateful_hands_over_at_once(store: Any, group_name: str) -> None:
    scene = Scene(group_name, stateful=False)
    scene.join("S4")
    scene.round()
    assert sorted(map(len, scene.owned.values())) == [1, 1, 1, 2]
    assert Group.objects.get(pk=scene.group.pk).values.stateful is False
