"""Who owned each partition at one moment: packed small to be kept, and as a page's script reads it.

Pure: arrays and bytes, no clock. A map at a time is an earlier map and the tenures that began or
ended since; what may be given twice changes nothing the second time.

Kept: zlib of one JSON line {"names": [...], "size": partitions, "columns": [[type, least] ...]}, a
bit for each partition, whether it was held, and of those that were owner (index in names), fence
and since_ms, each less its least value in the narrowest unsigned little-endian type that holds it.

For a page: u32 length of the head, the head in JSON, spaces up to a multiple of 8, then little-
endian arrays of all partitions: fence and since_ms as f64 (both are below 2^53), owner as i32 (-1
nobody).
"""

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from assignment.maps import UNPACKED_MAX

Whole = NDArray[np.int64]
STILL = 2**62  # a tenure's end that has not come
LENGTH_BYTES = 4
ALIGNED = 8  # typed arrays of a script begin at such

Row = tuple[int, str, int, int, int]  # number, member, fence, started_ms, ended_ms or STILL


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipMap:
    """By partition number; where nobody holds the lock owner is -1, fence and since_ms are 0."""

    names: tuple[str, ...]
    owner: Whole  # index in names
    fence: Whole
    since_ms: Whole
    several: frozenset[int] = frozenset()  # held twice at that moment; the highest fence is shown

    @property
    def size(self) -> int:
        return len(self.owner)

    def held(self) -> Whole:
        """Numbers of the partitions that somebody holds, ascending."""
        return np.flatnonzero(self.owner >= 0)

    def owner_of(self, number: int) -> str | None:
        at = int(self.owner[number])
        return None if at < 0 else self.names[at]

    def owners(self) -> list[str | None]:
        names = (*self.names, None)  # -1 is the last
        return [names[at] for at in self.owner.tolist()]

    def loads(self) -> dict[str, int]:
        """Of every name, those without a partition too."""
        counts = np.bincount(self.owner[self.owner >= 0], minlength=len(self.names))
        return dict(zip(self.names, counts.tolist(), strict=True))


def nobody(size: int) -> OwnershipMap:
    nothing = np.zeros(size, np.int64)
    return OwnershipMap(names=(), owner=nothing - 1, fence=nothing, since_ms=nothing)


def changed(before: OwnershipMap, rows: Iterable[Row], at_ms: int) -> OwnershipMap:
    """`rows`: every tenure that began or ended after the moment of `before` and not after `at_ms`;
    others that do not contradict it may be among them.
    """
    found = list(rows)
    if not found:
        return before
    numbers, members, *values = zip(*found, strict=True)
    index = {name: at for at, name in enumerate(before.names)}
    holder = np.fromiter((index.setdefault(m, len(index)) for m in members), np.int64)
    number = np.fromiter(numbers, np.int64)
    fence, began, ended = (np.fromiter(column, np.int64) for column in values)
    owners, fences, since = before.owner.copy(), before.fence.copy(), before.since_ms.copy()

    over = ended <= at_ms
    gone = number[over][fences[number[over]] == fence[over]]
    owners[gone], fences[gone], since[gone] = -1, 0, 0

    holds = np.flatnonzero(~over & (began <= at_ms))
    holds = holds[np.argsort(fence[holds], kind="stable")]  # of several the highest is put last
    at, its = number[holds], fence[holds]
    others = (fences[at] != its) & (fences[at] > 0)
    several = {*at[others].tolist(), *_repeated(at)}
    newer = its >= fences[at]
    at, holds = at[newer], holds[newer]
    owners[at], fences[at], since[at] = holder[holds], fence[holds], began[holds]
    return OwnershipMap(
        names=tuple(index),
        owner=owners,
        fence=fences,
        since_ms=since,
        several=frozenset(several),
    )


def _repeated(values: Whole) -> list[int]:
    found, counts = np.unique(values, return_counts=True)
    repeated: list[int] = found[counts > 1].tolist()
    return repeated


# --- kept -----------------------------------------------------------------------------------------


class _Head(msgspec.Struct, frozen=True):
    names: tuple[str, ...]
    size: int
    columns: tuple[tuple[str, int], ...]


_head = msgspec.json.Decoder(_Head).decode


def pack(found: OwnershipMap) -> bytes:
    """Names that hold nothing are left out, and that a partition was held twice."""
    held = found.owner >= 0
    owner = found.owner[held]
    counts = np.bincount(owner, minlength=len(found.names))
    used = np.flatnonzero(counts)
    owner = (np.cumsum(counts > 0) - 1)[owner]
    columns = [_narrow(values) for values in (owner, found.fence[held], found.since_ms[held])]
    head = {
        "names": [found.names[at] for at in used],
        "size": found.size,
        "columns": [(values.dtype.str, least) for values, least in columns],
    }
    body = b"".join(values.tobytes() for values, _ in columns)
    line = json.dumps(head, separators=(",", ":")).encode() + b"\n"
    return zlib.compress(line + np.packbits(held).tobytes() + body, 1)


def _narrow(values: NDArray[Any]) -> tuple[NDArray[Any], int]:
    least = int(values.min()) if len(values) else 0
    less = values - least
    kind = np.min_scalar_type(int(less.max()) if len(less) else 0)
    return less.astype(kind.newbyteorder("<")), least


def unpack(packed: bytes) -> OwnershipMap:
    """Raises ValueError for what `pack` has not made."""
    unpacking = zlib.decompressobj()
    raw = unpacking.decompress(packed, UNPACKED_MAX)
    if not unpacking.eof:
        raise ValueError(f"it is cut off, or more than {UNPACKED_MAX} bytes")
    end = raw.index(b"\n")
    head, start = _head(raw[:end]), end + 1
    bits = np.frombuffer(raw, np.uint8, -(-head.size // 8), start)
    held, start = np.unpackbits(bits, count=head.size).astype(bool), start + len(bits)
    count, columns = int(held.sum()), []
    for kind, least in head.columns:
        values = np.frombuffer(raw, np.dtype(kind), count, start)
        columns.append((values, least))
        start += values.nbytes
    (owner, _), fence, since = columns
    return OwnershipMap(
        names=head.names,
        owner=_spread(held, (owner, 0), -1),
        fence=_spread(held, fence, 0),
        since_ms=_spread(held, since, 0),
    )


def _spread(held: NDArray[np.bool_], column: tuple[NDArray[Any], int], otherwise: int) -> Whole:
    values, least = column
    whole: Whole = np.add(values, least, dtype=np.int64)
    if len(whole) == len(held):
        return whole
    made = np.full(len(held), otherwise, np.int64)
    made[held] = whole
    return made


# --- for a page -----------------------------------------------------------------------------------


def encode(found: OwnershipMap, more: Mapping[str, Any]) -> bytes:
    """`more`: what the head says beside names, size and the partitions held twice."""
    several = sorted(found.several)
    head = {"names": found.names, "size": found.size, "several": several, **more}
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-(LENGTH_BYTES + len(text)) % ALIGNED)
    arrays = (found.fence.astype("<f8"), found.since_ms.astype("<f8"), found.owner.astype("<i4"))
    length = len(text).to_bytes(LENGTH_BYTES, "little")
    return b"".join([length, text, *(values.tobytes() for values in arrays)])
