"""Mistakes that the peers are known to make (assignment.md), each tried on every strategy that
could make it. Those of `sticky` alone are in test_sticky.py.
"""

from typing import Any

import pytest

from assignment.strategies import get
from assignment.strategies.given import Assigned, StrategyInput
from assignment.types import Member, Partition
from tests.assignment.test_strategies import static
from tests.builders import STREAM, given, member

HEAVY_FIRST = {"weights": [5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}
SPREADING = (  # strategies that leave no member idle while there are enough partitions
    ("averagely", {}),
    ("circle", {}),
    ("join_order", {}),
    ("range", {}),
    ("round_robin", {}),
    ("sticky", {}),
    ("weighted_sticky", {}),
    ("weighted_sticky", HEAVY_FIRST),
    ("zone", {"allowed_zones": ["z"], "partition_zones": {"z": ["0-11"]}}),
    ("zone_nearby", {"partition_zones": {}}),
    ("zone_nearby", {"partition_zones": {}, "inner": "sticky"}),
)
RUNNING = [("consistent_hash", {}), *SPREADING]
spreading = pytest.mark.parametrize(("name", "parameters"), SPREADING)
running = pytest.mark.parametrize(("name", "parameters"), RUNNING)


def owners(assigned: Assigned) -> dict[Partition, str]:
    return {p: m for m, own in assigned.items() for p in own}


@spreading
def test_two_that_join_at_once_both_get_something(name: str, parameters: dict[str, Any]) -> None:
    members = (member("a", range(6)), member("b", range(6, 12)), member("c"), member("d"))
    assert all(get(name, parameters)(given(*members)).values())


@running
def test_a_replaced_member_is_noticed_although_the_count_is_the_same(
    name: str, parameters: dict[str, Any]
) -> None:
    strategy = get(name, parameters)
    before = strategy(given(member("a"), member("b"), member("c")))
    now = (Member(member_id=m, owned=dict.fromkeys(before.get(m, ()), 1)) for m in "abd")
    assigned = strategy(given(*now))
    assert set(assigned) == {"a", "b", "d"}
    assert set(owners(assigned)) == {Partition(STREAM, n) for n in range(12)}


@running
def test_two_topics_with_equal_numbers_do_not_share_one_map(
    name: str, parameters: dict[str, Any]
) -> None:
    if name == "zone":
        parameters = {"allowed_zones": ["z"], "partition_zones": {"z": ["x:0-5", "y:0-5"]}}
    if parameters == HEAVY_FIRST:
        parameters = {"weights": {"x:0": 5, "y:3": 7}}
    members = (
        Member(member_id="a", owned={Partition("x", n): 1 for n in range(6)}),
        Member(member_id="b", owned={Partition("y", n): 1 for n in range(6)}),
    )
    assigned = get(name, parameters)(StrategyInput(members=members, topics={"x": 6, "y": 6}))
    assert sum(map(len, assigned.values())) == len(owners(assigned)) == 12


@pytest.mark.parametrize(
    "parameters", [{}, {"weights": [1 + n % 7 for n in range(100_000)]}], ids=["equal", "weighted"]
)
def test_nothing_moves_when_nothing_changed_however_uneven_the_division(
    parameters: dict[str, Any],
) -> None:
    """100,000 over 999: quotas dealt anew would move 100."""
    strategy = get("weighted_sticky", parameters)
    ids = [f"m{n:03}" for n in range(999)]
    before = strategy(given(*map(member, ids), flights=100_000))
    members = (Member(member_id=m, owned=dict.fromkeys(own, 1)) for m, own in before.items())
    assert strategy(given(*members, flights=100_000)) == before


@running
def test_static_and_dynamic_members_side_by_side_all_get_their_share(
    name: str, parameters: dict[str, Any]
) -> None:
    members = (static("a", "i2"), member("b"), static("c", "i1"), member("d"), static("e", "i0"))
    assigned = get(name, parameters)(given(*members))
    assert set(owners(assigned)) == {Partition(STREAM, n) for n in range(12)}
    if name != "consistent_hash":
        assert all(assigned.values())


@running
def test_a_stale_report_after_an_absence_gives_no_partition_two_owners(
    name: str, parameters: dict[str, Any]
) -> None:
    """The one that was away still says it owns 0-5, which another has under a newer fence."""
    back, now = member("away", range(6), at=1), member("b", range(12), at=2)
    assigned = get(name, parameters)(given(back, now))
    assert sum(map(len, assigned.values())) == len(owners(assigned)) == 12


@pytest.mark.parametrize("parameters", [{}, HEAVY_FIRST], ids=["equal", "weighted"])
def test_the_newer_claim_is_the_one_that_weighted_sticky_keeps(parameters: dict[str, Any]) -> None:
    back, now = member("away", [0], at=1), member("b", [0], at=2)
    assert owners(get("weighted_sticky", parameters)(given(back, now)))[Partition(STREAM, 0)] == "b"
