"""All that a check needs of a run: streams, changelogs, tenures. Nothing may have been trimmed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings

from assignment.scripts.group_read import Purpose
from assignment.types import Offset
from assignment.wire import ChangelogEntry, unpack_ids
from dashboard.evaluation.figures import Interval
from dashboard.evaluation.inspecting import Server
from dashboard.evaluation.judge import Content
from dashboard.live import groups as live
from dashboard.models import Group, Rebalance, Tenure
from dashboard.records.queries import rebalances


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    now_ms: int
    content: Content
    intervals: Sequence[Interval]
    refused_commits: int
    rebalances: int
    rounds_ms: Sequence[int]  # when each target was stored

    def appended_ms(self) -> dict[int, int]:
        """Event id -> when it was appended."""
        return {
            event: entry.offset.ms
            for entries in self.content.stream.values()
            for entry in entries
            for event in entry.ids
        }

    def last_committed_ms(self) -> dict[int, int]:
        """Event id -> when it was committed last."""
        found: dict[int, int] = {}
        for entries in self.content.commits.values():
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
    server = Server(settings.REDIS_URL, name, group.values.stream, group.partitions)
    return Record(
        now_ms=read.now_ms,
        content=server.content(),
        intervals=intervals(group, server.refused()),
        refused_commits=read.meta.refused_commits,
        rebalances=rebalances.count(group),
        rounds_ms=list(
            Rebalance.objects.filter(group=group).order_by("at_ms").values_list("at_ms", flat=True)
        ),
    )


def intervals(group: Group, refused: Mapping[tuple[str, int], int]) -> list[Interval]:
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
