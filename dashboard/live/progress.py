"""How far the work on each partition is, as arrays: committed, applied, appended.

Pure. No log says this: rows are read again and again, a part of the partitions at a time.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assignment.scripts.rows import Applied
from assignment.types import Offset
from dashboard.live.ownership import Whole

UNKNOWN = -1


class Progress:
    """`appended`: events that a partition's stream ever got; `first_ms`: when the first one that is
    not committed came; UNKNOWN where Redis cannot tell, or nothing waits. `total` (applied) and
    `committed_ms` are 0 before the first commit. `read_ms`: when each was read, by the clock of
    Redis; 0: never.
    """

    def __init__(self, partitions: int) -> None:
        self.offsets: NDArray[np.object_] = np.full(partitions, None, np.object_)
        self.total: Whole = np.zeros(partitions, np.int64)
        self.committed_ms: Whole = np.zeros(partitions, np.int64)
        self.appended: Whole = np.full(partitions, UNKNOWN, np.int64)
        self.first_ms: Whole = np.full(partitions, UNKNOWN, np.int64)
        self.read_ms: Whole = np.zeros(partitions, np.int64)

    def take(
        self,
        numbers: Sequence[int],
        read_ms: int,
        offsets: Sequence[bytes | None],
        applied: Sequence[bytes | None],
        backlog: Sequence[Any],
    ) -> None:
        """Rows of these partitions as Redis has them; `backlog`: as appended.lua answers, or b""
        where the stream cannot be read.
        """
        part = np.array(numbers, np.int64)
        self.read_ms[part] = read_ms
        self.offsets[part] = [None if o is None else str(Offset.parse(o.decode())) for o in offsets]
        done = [(row.total, row.at_ms) if row else (0, 0) for row in map(_applied, applied)]
        self.total[part], self.committed_ms[part] = zip(*done, strict=True)
        waits = [_backlog(answer) for answer in backlog]
        self.appended[part], self.first_ms[part] = zip(*waits, strict=True)

    def lag(self) -> Whole:
        """UNKNOWN where it is."""
        behind = np.maximum(0, self.appended - self.total)
        found: Whole = np.where(self.appended == UNKNOWN, UNKNOWN, behind)
        return found


def _applied(raw: bytes | None) -> Applied | None:
    return None if raw is None else Applied.parse(raw)


def _backlog(answer: Any) -> tuple[int, int]:
    """What the producer library counted, and one for every entry that came without it."""
    if not answer:
        return UNKNOWN, UNKNOWN
    events, entries, added, first, _ = answer
    first_ms = int(first.partition(b"-")[0]) if first else UNKNOWN
    if not added:  # Redis 6.2 does not count what others add
        return (int(events) if int(entries) else UNKNOWN), first_ms
    return int(events) + max(0, int(added) - int(entries)), first_ms
