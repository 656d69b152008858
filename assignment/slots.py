"""Which node of a Redis Cluster has a key: slots, and what CLUSTER SLOTS says of them."""

from binascii import crc_hqx
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

SLOTS = 16_384


class Address(NamedTuple):
    """Of a node, as its clients reach it."""

    host: str
    port: int


def slot_of(key: str | bytes) -> int:
    """Of what stands between its first { and the next }, where that is something (Redis Cluster
    specification, "Hash tags"), else of the whole key.
    """
    name = key.encode() if isinstance(key, str) else key
    _, is_open, rest = name.partition(b"{")
    tag, is_closed, _ = rest.partition(b"}")
    return crc_hqx(tag if is_open and is_closed and tag else name, 0) % SLOTS


@dataclass(frozen=True, slots=True)
class Topology:
    """Who is the primary of each slot, as one node saw it at one moment."""

    by_slot: tuple[Address | None, ...]  # None: nobody has it
    replicas: tuple[Address, ...]

    @classmethod
    def of(cls, answer: Sequence[Any], asked: tuple[str, int]) -> "Topology":
        """Of a raw answer to CLUSTER SLOTS; a node that does not know its own host leaves it out,
        and is found where it was asked.
        """
        by_slot: list[Address | None] = [None] * SLOTS
        replicas: dict[Address, None] = {}
        for first, last, *nodes in answer:
            primary, *others = (_address(node, asked[0]) for node in nodes)
            replicas.update(dict.fromkeys(others))
            by_slot[first : last + 1] = [primary] * (last + 1 - first)
        return cls(tuple(by_slot), tuple(replicas))

    def primary(self, slot: int) -> Address:
        """Raises KeyError: no node has it."""
        found = self.by_slot[slot]
        if found is None:
            raise KeyError(slot)
        return found

    @property
    def primaries(self) -> tuple[Address, ...]:
        """All that have a slot, each once."""
        return tuple(dict.fromkeys(one for one in self.by_slot if one is not None))

    @property
    def is_complete(self) -> bool:
        return None not in self.by_slot


def _address(node: Sequence[Any], asked_host: str) -> Address:
    host = node[0].decode() if isinstance(node[0], bytes) else node[0]
    return Address(host or asked_host, int(node[1]))
