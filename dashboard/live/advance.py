"""How far the work on a group's partitions is, as Redis has it. Uses no SQL."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple, Self

from assignment.scripts.agent_side import SnapshotRecord, read_snapshots
from assignment.scripts.rows import Applied, AppliedRows, Offsets
from assignment.scripts.values import columns_of, pairs_of
from assignment.types import Offset, Partition
from assignment.wire import GroupKeys
from dashboard.live.connection import sync_client

log = logging.getLogger(__name__)


class Advance(NamedTuple):
    """How far the work on a group's partitions is."""

    offsets: Mapping[Partition, Offset]
    applied: Mapping[Partition, Applied]
    snapshots: Mapping[Partition, tuple[SnapshotRecord, ...]]


class StoredAdvance(NamedTuple):
    """As it lies in Redis: names and values of the three hashes."""

    offsets: tuple[bytes, ...]
    applied: tuple[bytes, ...]
    snapshots: tuple[bytes, ...]

    @staticmethod
    def keys(group: str) -> tuple[str, ...]:
        """Of the three hashes."""
        keys = GroupKeys(group)
        return keys.offsets, keys.applied, keys.snapshots

    @classmethod
    def of(cls, rows: Iterable[Mapping[bytes, bytes]]) -> Self:
        """The three in their order, as HGETALL gives them."""
        return cls(*(tuple(chain.from_iterable(row.items())) for row in rows))

    def read(self) -> Advance:
        """Raises one of UNREADABLE."""
        return Advance(
            Offsets.parse(columns_of(self.offsets)),
            AppliedRows.parse(columns_of(self.applied)),
            {Partition.parse(p): read_snapshots(v) for p, v in pairs_of(self.snapshots)},
        )


def advanced(groups: Sequence[str]) -> dict[str, StoredAdvance]:
    """One round trip for all; without those of which a key is of another kind."""
    pipe = sync_client().pipeline(transaction=False)
    for name in groups:
        for key in StoredAdvance.keys(name):
            pipe.hgetall(key)
    answers, found = iter(pipe.execute(raise_on_error=False)), dict[str, StoredAdvance]()
    for name in groups:
        rows = [*islice(answers, 3)]
        bad = next((row for row in rows if isinstance(row, Exception)), None)
        if bad is None:
            found[name] = StoredAdvance.of(rows)
        else:
            log.error("group=%s: how far its work is cannot be read: %s", name, bad)
    return found
