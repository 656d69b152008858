"""A group's arrays, made of values that a test writes as rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assignment.coordinator.reading import settings_of
from assignment.pauses import Pauses
from assignment.scripts.group_read import GroupRead
from assignment.scripts.rows import Since
from assignment.types import Partition
from dashboard.live import reported
from dashboard.live.cells import STATE_INDEX, Cells, LivePartition
from dashboard.live.heard import Heard, Told
from dashboard.live.ownership import NOBODY, Names, Ownership
from dashboard.live.progress import UNKNOWN, Progress
from dashboard.live.snapshot import LiveSnapshot, build

Backlog = tuple[int | None, int | None]  # events that a stream got, when the first one waits since


def built(
    read: GroupRead, since: Mapping[Partition, Since], backlog: Sequence[Backlog]
) -> LiveSnapshot:
    settings = settings_of(read)
    held, progress = Ownership(settings.stream, settings.partitions), Progress(settings.partitions)
    heard = Heard(settings.stream, settings.partitions)
    for partition, lock in read.locks.items():
        granted = since.get(partition)
        at_ms = granted.at_ms if granted and granted.fence == lock.fence else 0
        held.put(partition.number, lock.member_id, lock.fence, at_ms)
    for partition, applied in read.applied.items():
        progress.total[partition.number] = applied.total
        progress.committed_ms[partition.number] = applied.at_ms
    for partition, offset in read.offsets.items():
        progress.offsets[partition.number] = str(offset)
    for number, (events, first_ms) in enumerate(backlog):
        progress.appended[number] = UNKNOWN if events is None else events
        progress.first_ms[number] = UNKNOWN if first_ms is None else first_ms
    progress.read_ms[:] = read.now_ms
    told = Told(
        read=read,
        claims={m: heard.claims_of(report.owned) for m, report in read.reports.items()},
        targets={m: heard.numbers_of(row) for m, row in read.target.items()},
        computes=b"",
    )
    return build("g", told, held, progress)


class _Shown(reported.Replicas):
    """As they are given."""

    def __init__(self, rows: Mapping[int, reported.LiveReplicas]) -> None:
        self._rows = rows
        self.learners = {n: row.learner.member for n, row in rows.items() if row.learner}

    def __getitem__(self, number: int) -> reported.LiveReplicas:
        return self._rows[number]

    def __iter__(self) -> Any:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def live_partition(
    number: int, owner: str | None = "a", fence: int = 1, **more: Any
) -> LivePartition:
    values: dict[str, Any] = {
        "partition": f"s:{number}",
        "number": number,
        "owner": owner,
        "fence": None if owner is None else str(2**32 + fence),
        "state": "unowned" if owner is None else "owned",
        "since_ms": None if owner is None else 1_000,
        "target": owner,
        "offset": None,
        "committed_at_ms": None,
        "lag_records": 0,
    }
    return LivePartition(**(values | more))


def cells_of(*rows: LivePartition, now_ms: int = 0, read_ms: int | None = None) -> Cells:
    """Rows 0, 1, ... as a snapshot has them. `read_ms` None: now."""
    names = Names()

    def index(name: str | None) -> int:
        return NOBODY if name is None else names.index(name)

    def whole(name: str, unknown: int = 0) -> Any:
        values = [getattr(row, name) for row in rows]
        return np.array([unknown if v is None else int(v) for v in values], np.int64)

    replicas = {
        row.number: reported.LiveReplicas(standbys=row.standbys, learner=row.learner)
        for row in rows
        if row.standbys or row.learner
    }
    return Cells(
        stream=rows[0].partition.rpartition(":")[0] if rows else "s",
        now_ms=now_ms,
        names=names.texts,
        owner=np.array([index(row.owner) for row in rows], np.int32),
        fence=whole("fence"),
        since=whole("since_ms"),
        state=np.array([STATE_INDEX[row.state] for row in rows], np.uint8),
        target=np.array([index(row.target) for row in rows], np.int32),
        paused=np.array([row.pause is not None for row in rows], np.bool_),
        pausing=np.array([row.state == "pausing" for row in rows], np.bool_),
        pauses=Pauses(partitions={Partition.parse(r.partition): r.pause for r in rows if r.pause}),
        lag=whole("lag_records", UNKNOWN),
        first_ms=np.full(len(rows), UNKNOWN, np.int64),
        committed_ms=whole("committed_at_ms"),
        read_ms=np.full(len(rows), now_ms if read_ms is None else read_ms, np.int64),
        offsets=np.array([row.offset for row in rows], np.object_),
        replicas=_Shown(replicas),
        troubles=reported.Troubles(halted={}, unserved={}, may_own=frozenset()),
    )
