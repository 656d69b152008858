"""Who has each partition, packed small (backend.md, History).

Pure: bytes in, list out. Form: zlib of one JSON line with the members, then one little-endian u16
per partition, 0 for nobody, else 1 + index of the member.
"""

import json
import sys
import zlib
from array import array
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

MEMBERS_MAX = 65_535  # what a u16 can tell apart


def pack(owners: Sequence[str | None]) -> bytes:
    """`owners[number]` is the member that has partition `number`."""
    members = sorted({owner for owner in owners if owner is not None})
    if len(members) > MEMBERS_MAX:
        raise OverflowError(f"{len(members)} members do not fit into a map of {MEMBERS_MAX}")
    index = {member: i for i, member in enumerate(members, 1)}
    cells = array("H", (0 if owner is None else index[owner] for owner in owners))
    if sys.byteorder == "big":
        cells.byteswap()
    return zlib.compress(json.dumps(members).encode() + b"\n" + cells.tobytes(), 1)


def unpack(packed: bytes) -> list[str | None]:
    head, _, body = zlib.decompress(packed).partition(b"\n")
    members = [None, *json.loads(head)]
    cells = array("H", body)
    if sys.byteorder == "big":
        cells.byteswap()
    return [members[cell] for cell in cells]


class Move(NamedTuple):
    number: int
    before: str | None
    after: str | None


def moves(before: Sequence[str | None], after: Sequence[str | None]) -> list[Move]:
    """Partitions whose owner differs; either may have more partitions than the other."""
    pairs = enumerate(zip_longest(before, after))
    return [Move(number, old, new) for number, (old, new) in pairs if old != new]
