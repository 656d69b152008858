"""Strategies that an operator tells where partitions belong: config, zone, zone_nearby."""

from typing import Any

import pytest

from assignment.errors import InvalidInput
from assignment.strategies import get
from assignment.types import Partition
from tests.assignment.test_strategies import numbers
from tests.builders import STREAM, given, member

# --- how partitions are named ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "named",
    [["0-2"], [0, 1, 2], ["0", "1-2"], ["flights:0-2"], [["flights", 0], ["flights", 1], 2]],
)
def test_partitions_have_several_spellings(named: list[Any]) -> None:
    got = numbers("config", given(member("a"), flights=3), {"config_map": {"a": named}})
    assert got == [[0, 1, 2]]


@pytest.mark.parametrize(
    "named",
    ["x", "2-1", "-1", -1, 1.5, True, None, [], ["flights"], ["flights", "0"], {}, "9999999999"],
)
def test_what_is_no_partition_is_refused_by_value(named: object) -> None:
    with pytest.raises(InvalidInput, match="config: config_map of 'a'"):
        get("config", {"config_map": {"a": [named]}})


def test_with_several_topics_a_number_alone_is_refused() -> None:
    strategy = get("config", {"config_map": {"a": ["0-1"]}})
    with pytest.raises(InvalidInput, match="0-1 lacks its topic; there are 2"):
        strategy(given(member("a"), x=1, y=1))


def test_a_topic_may_have_a_colon_in_its_name() -> None:
    strategy = get("config", {"config_map": {"a": ["x:y:0"]}})
    assert strategy(given(member("a"), **{"x:y": 1})) == {"a": (Partition("x:y", 0),)}


# --- config ---------------------------------------------------------------------------------------


def test_config_is_the_map_itself_and_others_idle() -> None:
    problem = given(member("a"), member("b"), member("c"), flights=4)
    assert numbers("config", problem, {"config_map": {"b": ["0-2"], "a": [3]}}) == [
        [3],
        [0, 1, 2],
        [],
    ]


def test_everything_wrong_with_a_map_is_listed() -> None:
    strategy = get(
        "config", {"config_map": {"a": ["x:0-3", "x:9-12"], "b": ["x:3", "y:0"], "z": ["x:5"]}}
    )
    with pytest.raises(InvalidInput) as caught:
        strategy(given(member("a"), member("b", reads=("x",)), x=8, y=2))
    assert str(caught.value) == (
        "config_map does not fit: x:9-12 of 'a' is not there; member 'z' is not there;"
        " y:0 given to a member that does not read it; x:3 given more than once;"
        " x:4-7, y:1 given to nobody"
    )


def test_a_topic_without_readers_is_no_gap() -> None:
    strategy = get("config", {"config_map": {"a": ["x:0"]}})
    assert strategy(given(member("a", reads=("x",)), x=1, y=5)) == {"a": (Partition("x", 0),)}


@pytest.mark.parametrize("value", [None, [], "a", {"a": "0"}, {"a": None}])
def test_a_map_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="config: config_map"):
        get("config", {"config_map": value})


# --- zone -----------------------------------------------------------------------------------------


def zone(allowed: list[str], **zones: list[Any]) -> dict[str, Any]:
    return {"allowed_zones": allowed, "partition_zones": zones}


def test_zone_gives_blocks_and_the_remainder_from_the_tail() -> None:
    three = given(*(member(m) for m in "abc"), flights=4)
    assert numbers("zone", three, zone(["r1"], r1=["0-3"])) == [[0, 3], [1], [2]]
    two = given(*(member(m) for m in "abc"), flights=2)
    assert numbers("zone", two, zone(["r1"], r1=["0-1"])) == [[0], [1], []]


def test_partitions_of_other_zones_or_none_are_nobodys() -> None:
    problem = given(member("a"), member("b"), flights=9)
    parameters = zone(["r1", "r3", "far"], r1=["0-1"], r2=["2-3"], r3=["6-7"])
    assert numbers("zone", problem, parameters) == [[0, 1], [6, 7]]


@pytest.mark.parametrize(
    ("zones", "said"),
    [
        ({"r1": ["0-4"]}, "zone 'r1' has partitions not there: 4"),
        ({"r1": ["0-2"], "r2": [2]}, "flights:2 more than once"),
    ],
)
def test_zones_that_do_not_fit_are_refused(zones: dict[str, list[Any]], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        get("zone", zone(["r1"], **zones))(given(member("a"), flights=4))


# --- zone_nearby ----------------------------------------------------------------------------------


def test_a_zones_partitions_stay_in_it() -> None:
    members = [member("a", zone="r1"), member("b", zone="r2"), member("c", zone="r1")]
    got = get("zone_nearby", {"partition_zones": {"r1": ["0-2"], "r2": ["3-11"]}})(given(*members))
    assert [[p.number for p in own] for own in got.values()] == [
        [0, 1],
        [3, 4, 5, 6, 7, 8, 9, 10, 11],
        [2],
    ]


def test_zones_without_members_are_shared_by_all_zone_by_zone() -> None:
    members = [member("a", zone="r1"), member("b", zone="r1"), member("c")]
    parameters = {"partition_zones": {"r1": [0, 1], "r2": ["2-5"], "r3": ["6-8"]}}
    assert numbers("zone_nearby", given(*members, flights=12), parameters) == [
        [0, 2, 3, 6, 9],
        [1, 4, 7, 10],
        [5, 8, 11],
    ]


def test_a_zone_whose_members_do_not_read_the_topic_is_shared() -> None:
    members = [member("a", zone="r1", reads=("x",)), member("b", zone="r2", reads=("x", "y"))]
    parameters = {"partition_zones": {"r1": ["x:0-1", "y:0"], "r2": ["x:2"]}}
    got = get("zone_nearby", parameters)(given(*members, x=3, y=1))
    assert got == {
        "a": (Partition("x", 0), Partition("x", 1)),
        "b": (Partition("x", 2), Partition("y", 0)),
    }


def test_the_inner_strategy_has_its_own_parameters_and_true_numbers() -> None:
    """A ring within a zone hashes partitions by their own numbers, not by their place in it."""
    ids = [f"CID-{n}" for n in range(4)]
    ring = {"virtual_nodes": 3}
    alone = numbers("consistent_hash", given(*map(member, ids), flights=20), ring)
    got = numbers(
        "zone_nearby",
        given(*(member(m, zone="r2") for m in ids), member("x", zone="r1"), flights=20),
        {
            "inner": "consistent_hash",
            "inner_parameters": ring,
            "partition_zones": {"r1": ["0-9"], "r2": ["10-19"]},
        },
    )
    assert got == [[n for n in own if n > 9] for own in alone] + [list(range(10))]


def test_sticky_within_zones_keeps_what_is_in_the_right_zone() -> None:
    members = [
        member("a", owns=(5, 11), zone="r1"),
        member("b", owns=(0, 1, 2), zone="r1"),
        member("c", zone="r2"),
    ]
    parameters = {"inner": "sticky", "partition_zones": {"r1": ["0-5"], "r2": ["6-11"]}}
    got = numbers("zone_nearby", given(*members), parameters)
    assert set(got[1]) == {0, 1, 2} and 5 in got[0] and got[2] == [6, 7, 8, 9, 10, 11]


def test_weights_reach_the_inner_strategy() -> None:
    members = [member("a", zone="r1"), member("b", zone="r1"), member("c", zone="r2")]
    parameters = {
        "inner": "weighted_sticky",
        "inner_parameters": {"weights": [9, 1, 1, 1, 1, 1]},
        "partition_zones": {"r1": ["0-3"], "r2": ["4-5"]},
    }
    assert numbers("zone_nearby", given(*members, flights=6), parameters) == [
        [0],
        [1, 2, 3],
        [4, 5],
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"inner": "zone"}, "inner 'zone' is not one of averagely"),
        ({"inner": None}, "inner None is not one of"),
        ({"inner": ["circle"]}, "inner .'circle'. is not one of"),
        ({"inner_parameters": {"virtual_nodes": 3}}, "'virtual_nodes' is not known"),
        ({"inner": "consistent_hash", "inner_parameters": {"virtual_nodes": 0}}, "0 is not within"),
        ({"partition_zones": []}, "partition_zones is .., not an object"),
    ],
)
def test_wrong_parameters_are_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        get("zone_nearby", {"partition_zones": {}} | changes)


def test_members_without_zones_share_everything() -> None:
    got = get("zone_nearby", {"partition_zones": {"r1": ["0-5"]}})(given(member("a"), member("b")))
    assert {m: len(own) for m, own in got.items()} == {"a": 6, "b": 6}
    assert got["a"][0] == Partition(STREAM, 0)
