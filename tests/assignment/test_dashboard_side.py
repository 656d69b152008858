"""What is refused before any script runs: it never reaches Redis."""

from typing import Any

import pytest

from assignment.errors import InvalidInput
from assignment.scripts import dashboard_side, heartbeat
from assignment.troubles import UNSERVED_MAX
from assignment.types import Partition, TargetRow, read_as
from assignment.wire import Heartbeat
from tests.builders import group as view

P0 = Partition("flights", 0)
READY = {"role": "learner", "lag": 0, "percent": 100, "ready": True}


def reported(**changes: Any) -> None:
    beat = {"member": "a", "secret": "s", "sequence": 1, "report": 1, "complete": True}
    heartbeat.report(read_as(Heartbeat, beat | changes))


# --- members and reports --------------------------------------------------------------------------


@pytest.mark.parametrize("member_id", ["", "a b", "a/b", "-a", "x" * 101, "a:1\n"])
def test_a_name_that_is_none_is_refused(member_id: str) -> None:
    with pytest.raises(InvalidInput, match="member"):
        dashboard_side.join(member_id, "secret", {})


@pytest.mark.parametrize("incarnation", [2**21, -1])
def test_a_join_that_claims_an_impossible_incarnation_is_refused(incarnation: int) -> None:
    with pytest.raises(InvalidInput):
        dashboard_side.join("a", "secret", {"incarnation": incarnation})


@pytest.mark.parametrize(
    "wrong",
    [{"reason": "mood", "left_ms": 1}, {"reason": "restore", "left_ms": -1}, {"left_ms": 1}],
)
def test_a_trouble_that_cannot_be_read_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"unserved|trouble"):
        reported(unserved={"s:0": wrong})


def test_no_more_unserved_partitions_than_a_bound_are_told() -> None:
    values = {"reason": "batch", "left_ms": 1}
    with pytest.raises(InvalidInput, match="above"):
        reported(unserved={f"s:{n}": values for n in range(UNSERVED_MAX + 1)})


@pytest.mark.parametrize("held", ["running", "5", "5 sleeping", "x running", "-5 running"])
def test_a_report_of_something_that_cannot_be_held_is_refused(held: str) -> None:
    with pytest.raises(InvalidInput):
        reported(owned={str(P0): held})


@pytest.mark.parametrize(
    ("consumer", "named"),
    [
        ({"rows_per_second": 10**400}, "consumer"),
        ({"rows_per_second": "12"}, "rows_per_second"),
        ({"batch": 2**63}, "consumer"),
        ({"why": "x" * 1_001}, "consumer"),
        ({"halted": [{"partition": "s:1", "reason": "mood"}]}, "reason"),
        ({"halted": [{"partition": "s:x", "reason": "crash"}]}, "'s:x'"),
    ],
)
def test_what_no_consumer_says_is_refused(consumer: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        reported(consumer=consumer)


@pytest.mark.parametrize("text", ["s:01", "s:-1", "s:١", "s:1 ", "s:" + "1" * 17, "s:"])
def test_a_partition_has_one_spelling(text: str) -> None:
    with pytest.raises(InvalidInput, match="stream:number"):
        reported(owned={text: "1 running"})


@pytest.mark.parametrize(
    "changes",
    [
        {"replicas": {"flights": READY}},
        {"replicas": {str(P0): {}}},
        {"replicas": {str(P0): {"role": "owner"}}},
        {"replicas": {str(P0): READY | {"lag": "far"}}},
        {"replicas": {str(P0): READY | {"lag": True}}},
        {"replicas": {str(P0): READY | {"lag": 10**400}}},
        {"replicas": {str(P0): READY | {"percent": 101}}},
        {"replicas": {str(P0): READY | {"rate": float("nan")}}},
        {"replicas": {str(P0): READY | {"eta_ms": 0.5}}},
        {"ready": [str(P0)]},
        {"replicas": {str(P0): READY | {"role": "standby"}}, "ready": [str(P0)]},
    ],
)
def test_a_replica_that_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        reported(**changes)


# --- targets --------------------------------------------------------------------------------------


def test_a_partition_with_two_owners_is_refused() -> None:
    row = TargetRow(target_epoch=3, active=frozenset({P0}))
    with pytest.raises(InvalidInput, match="two owners"):
        dashboard_side.set_target(view(group_epoch=3), {"a": row, "b": row})
    with pytest.raises(InvalidInput, match="epoch 3, not 4"):
        dashboard_side.set_target(view(group_epoch=4), {"a": row})


@pytest.mark.parametrize(
    "twice", [("active", "standby"), ("active", "learning"), ("standby", "learning")]
)
def test_a_partition_in_two_roles_of_a_member_is_refused(twice: tuple[str, str]) -> None:
    row = TargetRow(target_epoch=3, **dict.fromkeys(twice, frozenset({P0})))
    with pytest.raises(InvalidInput, match="two roles"):
        dashboard_side.set_target(view(group_epoch=3), {"a": row})
