"""All that a check needs of a run: streams, changelogs, tenures. Nothing may have been trimmed."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from assignment.scripts.group_read import Purpose
from assignment.types import Offset, Partition
from assignment.wire import ChangelogEntry, unpack_ids
from dashboard.evaluation import changelogs
from dashboard.evaluation.judge import Appended, Commits, Stream
from dashboard.evaluation.steps import Commit, Interval
from dashboard.live import groups as live
from dashboard.models import Group, Rebalance, Tenure

ID = "id"  # column of the flights' events


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    now_ms: int
    stream: Stream
    commits: Commits
    intervals: Sequence[Interval]
    refused_commits: int
    rebalances_ms: Sequence[int]  # when each target was stored

    @property
    def commit_times(self) -> list[Commit]:
        """A changelog's entry id begins with Redis' time of the commit."""
        return [
            Commit(committed_ms(entry), str(partition), entry.fence)
            for partition, entries in self.commits.items()
            for entry in entries
        ]

    def appended_ms(self) -> dict[int, int]:
        """Event id -> when it was appended."""
        return {
            event: entry.offset.ms
            for entries in self.stream.values()
            for entry in entries
            for event in entry.ids
        }

    def last_committed_ms(self) -> dict[int, int]:
        """Event id -> when it was committed last."""
        found: dict[int, int] = {}
        for entries in self.commits.values():
            for entry in entries:
                for event in unpack_ids(entry.ids):
                    found[event] = max(found.get(event, 0), committed_ms(entry))
        return found


def committed_ms(entry: ChangelogEntry) -> int:
    return Offset.parse(entry.entry_id).ms


def read(name: str) -> Record:
    """Raises StoreUnavailable."""
    group = Group.objects.get(name=name)
    read = live.read(name, Purpose.LOOK)
    partitions = group.values.all_partitions()
    return Record(
        now_ms=read.now_ms,
        stream={p: entries_of(p) for p in partitions},
        commits={p: list(changelogs.entries(name, p)) for p in partitions},
        intervals=intervals(group),
        refused_commits=read.meta.refused_commits,
        rebalances_ms=list(
            Rebalance.objects.filter(group=group).order_by("at_ms").values_list("at_ms", flat=True)
        ),
    )


def intervals(group: Group) -> list[Interval]:
    refused = changelogs.refused(group.name)
    return [
        Interval(
            partition=tenure.partition,
            member=tenure.member_id,
            fence=tenure.fence,
            started_ms=tenure.started_ms,
            ended_ms=tenure.ended_ms,
            end=tenure.end,
            refused_at_ms=tenure.refused_at_ms,
            refused=refused.get((tenure.partition, tenure.fence), 0),
        )
        for tenure in Tenure.objects.filter(group=group)
    ]


def entries_of(partition: Partition) -> list[Appended]:
    return [
        Appended(Offset.parse(entry_id), ids_of(fields))
        for entry_id, fields in changelogs.appended(partition.stream, partition.number)
    ]


def ids_of(fields: Mapping[bytes, bytes]) -> tuple[int, ...]:
    """Ids of the events in an entry of any form; a malformed one has none."""
    try:
        if b"arrow" in fields:
            with pa.ipc.open_stream(io.BytesIO(fields[b"arrow"])) as table:
                return tuple(table.read_all().column(ID).to_pylist())
        if b"lines" in fields:
            return tuple(int(json.loads(line)[ID]) for line in fields[b"lines"].splitlines())
        event = json.loads(fields[b"json"]) if b"json" in fields else {ID: fields[ID.encode()]}
        return (int(event[ID]),)
    except (pa.ArrowException, KeyError, TypeError, ValueError):
        return ()


def acknowledged(path: Path) -> list[int]:
    """Ids of the events that the producer was told are stored, one a line."""
    return [int(line) for line in path.read_text().splitlines()]
