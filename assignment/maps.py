"""Who has each partition, who keeps or learns its state, packed small; and what a round changed.

Pure: bytes in, values out. Owners: zlib of one JSON line with the members, then one little-endian
u16 per partition, 0 for nobody, else 1 + index of the member (backend.md, History). Replicas: zlib
of one JSON line {"members": [...], "standby": {member: [numbers]}, "learning": {the same}}.
"""

import json
import sys
import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

import msgspec

from assignment.types import Partition, TargetRow

MEMBERS_MAX = 65_535  # what a u16 can tell apart
UNPACKED_MAX = 2**26  # bytes: 100,000 partitions, each a member of its own, have a fifth of it
KINDS = ("assigned", "revoked", "standby", "learning")
Numbers = dict[str, list[int]]
Roles = dict[str, Numbers]  # member -> kind -> numbers


def pack_owners(owners: Sequence[str | None]) -> bytes:
    """`owners[number]` is the member that has partition `number`."""
    members = sorted({owner for owner in owners if owner is not None})
    if len(members) > MEMBERS_MAX:
        raise OverflowError(f"{len(members)} members do not fit into a map of {MEMBERS_MAX}")
    index = {member: i for i, member in enumerate(members, 1)}
    cells = array("H", (0 if owner is None else index[owner] for owner in owners))
    if sys.byteorder == "big":
        cells.byteswap()
    return zlib.compress(json.dumps(members).encode() + b"\n" + cells.tobytes(), 1)


def _unpacked(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    found = unpacking.decompress(packed, UNPACKED_MAX)
    if not unpacking.eof:
        raise ValueError(f"it is cut off, or more than {UNPACKED_MAX} bytes")
    return found


def unpack_owners(packed: bytes) -> list[str | None]:
    head, _, body = _unpacked(packed).partition(b"\n")
    members = [None, *_names(head)]
    cells = array("H", body)
    if sys.byteorder == "big":
        cells.byteswap()
    return [members[cell] for cell in cells]


class _Replicas(msgspec.Struct, frozen=True):
    members: tuple[str, ...] = ()
    standby: dict[str, list[int]] = {}
    learning: dict[str, list[int]] = {}


_names = msgspec.json.Decoder(tuple[str, ...]).decode
_replicas = msgspec.json.Decoder(_Replicas).decode


class Move(NamedTuple):
    number: int
    before: str | None
    after: str | None


def moves(before: Sequence[str | None], after: Sequence[str | None]) -> list[Move]:
    """Partitions whose owner differs; either may have more partitions than the other."""
    pairs = enumerate(zip_longest(before, after))
    return [Move(number, old, new) for number, (old, new) in pairs if old != new]


def pack_replicas(rows: Mapping[str, TargetRow]) -> bytes:
    said = {
        "members": sorted(rows),
        "standby": {m: _numbers(row.standby) for m, row in rows.items() if row.standby},
        "learning": {m: _numbers(row.learning) for m, row in rows.items() if row.learning},
    }
    return zlib.compress(json.dumps(said, sort_keys=True, separators=(",", ":")).encode(), 1)


def _numbers(partitions: Iterable[Partition]) -> list[int]:
    return sorted(partition.number for partition in partitions)


def roles(before: Sequence[str | None], after: Sequence[str | None], packed: bytes | None) -> Roles:
    """Of every member named by any of the three. `before` and `after`: number -> owner."""
    said = _replicas(_unpacked(packed)) if packed else _Replicas()
    found: Roles = {member: _nothing() for member in said.members}
    for number, owner in enumerate(after):
        if owner is not None:
            found.setdefault(owner, _nothing())["assigned"].append(number)
    for number, owner, _ in moves(before, after):
        if owner is not None:
            found.setdefault(owner, _nothing())["revoked"].append(number)
    for kind, rows in (("standby", said.standby), ("learning", said.learning)):
        for member, numbers in rows.items():
            found.setdefault(member, _nothing())[kind] = numbers
    return dict(sorted(found.items()))


def _nothing() -> Numbers:
    return {kind: [] for kind in KINDS}
