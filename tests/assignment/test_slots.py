"""Slots of keys as the specification of Redis Cluster has them, and who has them."""

from binascii import crc_hqx

import pytest

from assignment.keys import GroupKeys, StreamKeys
from assignment.slots import SLOTS, Address, Topology, slot_of
from assignment.types import Partition

ASKED = Address("10.0.0.9", 7009)


@pytest.mark.parametrize(
    ("key", "counts"),
    [
        ("{user1000}.following", "user1000"),
        ("foo{bar}{zap}", "bar"),
        ("foo{{bar}}zap", "{bar"),
        ("foo{}{bar}", "foo{}{bar}"),
        ("foo{bar", "foo{bar"),
    ],
)
def test_only_the_first_tag_counts_and_only_when_it_holds_something(key: str, counts: str) -> None:
    assert slot_of(key) == slot_of(key.encode()) == crc_hqx(counts.encode(), 0) % SLOTS


def test_slots_are_those_of_the_specification() -> None:
    """CRC16 of "123456789" is 0x31c3; the others were asked of a server by CLUSTER KEYSLOT."""
    assert [slot_of(key) for key in ("123456789", "foo", "")] == [0x31C3 % SLOTS, 12182, 0]


def test_all_of_a_group_is_in_one_slot_and_all_of_a_partition_in_another() -> None:
    keys, partition = GroupKeys("orders"), Partition("s", 3)
    of_group = {*keys.of_script, keys.events, keys.owned("a"), keys.lock(partition)}
    assert {slot_of(key) for key in of_group} == {slot_of("orders")}
    of = StreamKeys("s")
    of_partition = {of.entries(3), of.producers(3), of.index(3), of.hold(3)}
    assert {slot_of(key) for key in of_partition} == {slot_of("s:3")}


def test_a_topology_says_who_is_the_primary_of_each_slot() -> None:
    answer = [
        [0, 9, [b"10.0.0.1", 7001, b"id", []], [b"10.0.0.2", 7002, b"id", []]],
        [11, SLOTS - 1, [None, 7009, b"id", []]],
    ]
    found = Topology.of(answer, ASKED)
    assert (found.primary(9), found.primary(11)) == (Address("10.0.0.1", 7001), ASKED)
    with pytest.raises(KeyError):
        found.primary(10)
    assert found.primaries == (Address("10.0.0.1", 7001), ASKED)
    assert found.replicas == (Address("10.0.0.2", 7002),)
    assert not found.is_complete
