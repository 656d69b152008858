"""Who has each partition, who keeps or learns its state, packed small; and what a round changed.

Pure: bytes in, values out. Owners: zlib of one JSON line with the members, then one little-endian
u16 per partition, 0 for nobody, else 1 + index of the member (backend.md, History). Replicas: zlib
of one JSON line {"members": [...], "standby": {member: [numbers]}, "learning": {the same}}.
"""

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from assignment.columns import NOBODY, renumbered
from assignment.types import Partition, TargetRow

MEMBERS_MAX = 65_535  # what a u16 can tell apart
UNPACKED_MAX = 2**26  # bytes: 100,000 partitions, each a member of its own, have a fifth of it
KINDS = ("assigned", "revoked", "standby", "learning")
Numbers = dict[str, list[int]]
Roles = dict[str, Numbers]  # member -> kind -> numbers


def pack_owners(members: Sequence[str], owners: NDArray[np.int64]) -> bytes:
    """`owners[number]` is the index of the member that has partition `number`, or NOBODY."""
    used = np.unique(owners[owners != NOBODY]).tolist()
    named = sorted(members[owner] for owner in used)
    if len(named) > MEMBERS_MAX:
        raise OverflowError(f"{len(named)} members do not fit into a map of {MEMBERS_MAX}")
    cell = np.append(renumbered(members, named) + 1, 0)  # the last one is of NOBODY
    cells = cell[owners].astype("<u2").tobytes()
    return zlib.compress(json.dumps(named).encode() + b"\n" + cells, 1)


def _unpacked(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    found = unpacking.decompress(packed, UNPACKED_MAX)
    if not unpacking.eof:
        raise ValueError(f"it is cut off, or more than {UNPACKED_MAX} bytes")
    return found


def unpack_owners(packed: bytes) -> list[str | None]:
    members, cells = unpack_cells(packed)
    return list(map([None, *members].__getitem__, cells.tolist()))


def unpack_cells(packed: bytes) -> tuple[tuple[str, ...], NDArray[np.uint16]]:
    """The members, and [partitions] 0 for nobody, else 1 + index of the member. ValueError, or an
    error of zlib, for what pack_owners did not write.
    """
    head, _, body = _unpacked(packed).partition(b"\n")
    members, cells = _names(head), np.frombuffer(body, "<u2")
    if cells.max(initial=0) > len(members):
        raise ValueError(f"it names member {cells.max()} of {len(members)}")
    return members, cells


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


def check_replicas(packed: bytes) -> None:
    """Raises what `roles` raises of them."""
    _replicas(_unpacked(packed))


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
