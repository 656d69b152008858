"""How far the work on each partition is, as arrays: committed, applied, appended.

Pure. No log says this: rows are read again and again, a part of the partitions at a time.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from assignment.scripts.rows import Applied
from assignment.types import Offset
from dashboard.live.ownership import Whole

UNKNOWN = -1


class Progress:
    """`appended`: events that a partition's stream ever got; `first_ms`: when the first one that is
    not committed came; UNKNOWN where Redis cannot tell, or nothing waits. `total` (applied) and
    `committed_ms` are 0 before the first commit.
    """

    def __init__(self, partitions: int) -> None:
        self.offsets: list[str | None] = [None] * partitions
        self.total: Whole = np.zeros(partitions, np.int64)
        self.committed_ms: Whole = np.zeros(partitions, np.int64)
        self.appended: Whole = np.full(partitions, UNKNOWN, np.int64)
        self.first_ms: Whole = np.full(partitions, UNKNOWN, np.int64)

    def take(
        self,
        first: int,
        offsets: Sequence[bytes | None],
        applied: Sequence[bytes | None],
        backlog: Sequence[Any],
    ) -> None:
        """Rows as Redis has them, from partition `first`; `backlog`: as appended.lua answers, or
        b"" where the stream cannot be read.
        """
        part = slice(first, first + len(offsets))
        self.offsets[part] = [None if o is None else str(Offset.parse(o.decode())) for o in offsets]
        done = [(row.total, row.at_ms) if row else (0, 0) for row in map(_applied, applied)]
        self.total[part], self.committed_ms[part] = zip(*done, strict=True)
        waits = [_backlog(answer) for answer in backlog]
        self.appended[part], self.first_ms[part] = zip(*waits, strict=True)


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
