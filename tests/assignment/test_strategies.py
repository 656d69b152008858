"""The registry, bad input, and the rule of each strategy that takes no parameters but a ring's."""

from hashlib import md5
from typing import Any

import pytest

from assignment.errors import InvalidInput
from assignment.strategies import NAMES, get
from assignment.strategies.given import StrategyInput
from assignment.types import Member, Partition
from tests.builders import STREAM, given, member

ENOUGH: dict[str, dict[str, Any]] = {  # for 12 partitions of the default stream on a, b, c
    "config": {"config_map": {"a": ["0-3"], "b": ["4-7"], "c": ["8-11"]}},
    "zone": {"allowed_zones": ["z"], "partition_zones": {"z": ["0-11"]}},
    "zone_nearby": {"partition_zones": {}},
}


def numbers(
    strategy: str, problem: StrategyInput, parameters: dict[str, Any] | None = None
) -> list[list[int]]:
    return [[p.number for p in own] for own in get(strategy, parameters)(problem).values()]


def static(member_id: str, instance: str) -> Member:
    return member(member_id, instance_id=instance)


# --- the registry ---------------------------------------------------------------------------------


def test_all_eleven_are_there() -> None:
    assert (
        *("averagely", "circle", "config", "consistent_hash", "join_order", "range"),
        *("round_robin", "sticky", "weighted_sticky", "zone", "zone_nearby"),
    ) == NAMES


def test_an_unknown_strategy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="'fair' is not known; known are averagely, circle"):
        get("fair")


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_parameter_is_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"{name}: parameter 'colour' is not known"):
        get(name, {"colour": 1})


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("config", "config_map"),
        ("zone", "allowed_zones, partition_zones"),
        ("zone_nearby", "partition_zones"),
    ],
)
def test_what_cannot_work_without_parameters_says_so(name: str, missing: str) -> None:
    with pytest.raises(InvalidInput, match=f"{name}: parameter {missing} is missing"):
        get(name)


@pytest.mark.parametrize("name", NAMES)
def test_without_members_nothing_is_assigned(name: str) -> None:
    assert get(name, ENOUGH.get(name))(given()) == {}


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("config", "zone")])
def test_without_partitions_everybody_idles(name: str) -> None:
    problem = given(member("a"), member("b"), flights=0)
    assert get(name, ENOUGH.get(name))(problem) == {"a": (), "b": ()}


@pytest.mark.parametrize("name", NAMES)
def test_twelve_on_three_are_all_owned(name: str) -> None:
    assigned = get(name, ENOUGH.get(name))(given(member("a"), member("b"), member("c")))
    assert list(assigned) == ["a", "b", "c"]
    assert sorted(p for own in assigned.values() for p in own) == [
        Partition(STREAM, n) for n in range(12)
    ]


# --- bad input ------------------------------------------------------------------------------------


def test_a_duplicate_member_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="'a' is there twice"):
        given(member("a"), member("b"), member("a"))


def test_an_empty_member_id_is_refused() -> None:
    with pytest.raises(InvalidInput, match="member id is empty"):
        given(member(""))


@pytest.mark.parametrize("count", [-1, 2.0, "2", True, None])
def test_a_partition_count_that_is_none_is_refused_by_value(count: object) -> None:
    with pytest.raises(InvalidInput, match=repr(count)):
        StrategyInput(members=(), topics={"x": count})  # type: ignore[dict-item]


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("config", "zone", "sticky")])
def test_a_topic_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="'a' subscribes to unknown 'y'"):
        get(name, ENOUGH.get(name))(given(member("a", reads=("y",)), x=1))


# --- rules ----------------------------------------------------------------------------------------


def test_averagely_gives_contiguous_blocks() -> None:
    three = given(member("b"), member("a"), member("c"), flights=8)
    assert numbers("averagely", three) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    four = given(*(member(m) for m in "abcd"), flights=2)
    assert numbers("averagely", four) == [[0], [1], [], []]


def test_averagely_starts_anew_for_each_topic_and_its_readers() -> None:
    problem = given(member("a", reads=("x",)), member("b", reads=("x", "y")), x=3, y=1)
    assert get("averagely")(problem) == {
        "a": (Partition("x", 0), Partition("x", 1)),
        "b": (Partition("x", 2), Partition("y", 0)),
    }


def test_circle_deals_in_turn() -> None:
    three = given(*(member(m) for m in "abc"), flights=8)
    assert numbers("circle", three) == [[0, 3, 6], [1, 4, 7], [2, 5]]
    four = given(*(member(m) for m in "abcd"), flights=2)
    assert numbers("circle", four) == [[0], [1], [], []]


@pytest.mark.parametrize(
    ("members", "sizes"),
    [
        (1, [5]),
        (2, [3, 2]),
        (3, [2, 2, 1]),
        (4, [2, 1, 1, 1]),
        (5, [1, 1, 1, 1, 1]),
        (6, [1, 1, 1, 1, 1, 0]),
    ],
)
def test_join_order_gives_blocks_in_the_order_of_joining(members: int, sizes: list[int]) -> None:
    """The last by id joined first."""
    joined = [member(f"m{n}", joined_at_ms=members - n) for n in range(members)]
    got = numbers("join_order", given(*joined, flights=5))[::-1]
    assert [len(own) for own in got] == sizes
    assert [n for own in got for n in own] == list(range(5))


def test_members_that_joined_at_one_time_are_in_the_order_of_ids() -> None:
    problem = given(member("b", joined_at_ms=5), member("a", joined_at_ms=5), flights=2)
    assert numbers("join_order", problem) == [[0], [1]]


def test_range_puts_static_members_first_by_instance() -> None:
    problem = given(member("a"), static("c", "i1"), static("b", "i2"), flights=5)
    assert get("range")(problem) == {
        "a": (Partition(STREAM, 4),),
        "b": (Partition(STREAM, 2), Partition(STREAM, 3)),
        "c": (Partition(STREAM, 0), Partition(STREAM, 1)),
    }


def test_range_lines_up_co_partitioned_topics() -> None:
    got = get("range")(given(member("a"), static("b", "i"), x=5, y=5))
    for own in got.values():
        assert [p.number for p in own if p.stream == "x"] == [
            p.number for p in own if p.stream == "y"
        ]


@pytest.mark.parametrize("name", ["range", "round_robin"])
def test_a_static_member_keeps_its_share_under_a_new_id(name: str) -> None:
    before = get(name)(given(static("a1", "i1"), static("b", "i2"), static("c", "i3"), x=7, y=4))
    after = get(name)(given(static("z9", "i1"), static("b", "i2"), static("c", "i3"), x=7, y=4))
    assert after == {"b": before["b"], "c": before["c"], "z9": before["a1"]}


def test_round_robin_goes_on_from_topic_to_topic_past_those_that_do_not_read() -> None:
    problem = given(
        member("a", reads=("x",)),
        member("b", reads=("x", "y")),
        member("c", reads=("x", "y", "z")),
        x=2,
        y=3,
        z=1,
    )
    assert get("round_robin")(problem) == {
        "a": (Partition("x", 0),),
        "b": (Partition("x", 1), Partition("y", 1)),
        "c": (Partition("y", 0), Partition("y", 2), Partition("z", 0)),
    }


def test_round_robin_deals_an_empty_topic_to_nobody_and_keeps_the_turn() -> None:
    got = get("round_robin")(given(member("a"), member("b"), x=1, y=0, z=1))
    assert got == {"a": (Partition("x", 0),), "b": (Partition("z", 0),)}


# --- the ring -------------------------------------------------------------------------------------


def ring_by_hand(members: list[str], nodes: int, partitions: int) -> list[list[int]]:
    """RocketMQ's ConsistentHashRouter, written as it reads there."""

    def hashed(text: str) -> int:
        return int.from_bytes(md5(text.encode()).digest()[:4], "big")

    ring = {hashed(f"{m}-{n}"): m for m in sorted(members) for n in range(nodes)}
    found: dict[str, list[int]] = {m: [] for m in sorted(members)}
    for number in range(partitions):
        text = f"MessageQueue [topic=topic, brokerName=brokerName, queueId={number}]"
        clockwise = [point for point in ring if point >= hashed(text)]
        found[ring[min(clockwise or ring)]].append(number)
    return list(found.values())


@pytest.mark.parametrize(("members", "partitions", "nodes"), [(10, 20, 3), (20, 10, 3), (7, 99, 1)])
def test_consistent_hash_is_rocketmqs_ring(members: int, partitions: int, nodes: int) -> None:
    ids = [f"CID-{n}" for n in range(members)]
    got = numbers(
        "consistent_hash",
        given(*map(member, ids), topic=partitions),
        {"virtual_nodes": nodes},
    )
    assert got == ring_by_hand(ids, nodes, partitions)


def test_ten_virtual_nodes_are_the_default() -> None:
    ids = [f"CID-{n}" for n in range(5)]
    assert numbers("consistent_hash", given(*map(member, ids), topic=40)) == ring_by_hand(
        ids, 10, 40
    )


def test_only_a_leavers_partitions_move_on_the_ring() -> None:
    ids = [f"CID-{n}" for n in range(9)]
    before = get("consistent_hash")(given(*map(member, ids), topic=200))
    after = get("consistent_hash")(given(*map(member, ids[:4] + ids[5:]), topic=200))
    for name, own in after.items():
        assert set(before[name]) <= set(own)
        assert set(own) - set(before[name]) <= set(before[ids[4]])


def test_each_reader_set_has_its_own_ring() -> None:
    """A member that does not read a topic is no point of that topic's ring."""
    readers = [member(f"CID-{n}", reads=("topic", "other")) for n in range(5)]
    got = get("consistent_hash")(
        given(member("CID-9", reads=("other",)), *readers, topic=40, other=0)
    )
    alone = get("consistent_hash")(given(*readers, topic=40, other=0))
    assert {m: own for m, own in got.items() if m != "CID-9"} == alone


@pytest.mark.parametrize("value", [0, -1, 1_001, 2.5, "3", True, None])
def test_wrong_virtual_nodes_are_refused_by_value(value: object) -> None:
    with pytest.raises(InvalidInput, match=f"consistent_hash: virtual_nodes.*{value}"):
        get("consistent_hash", {"virtual_nodes": value})
