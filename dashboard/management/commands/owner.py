"""owner GROUP PARTITION --at TIME: who held the lock of a partition at a moment."""

from contextlib import suppress
from typing import Any

from django.core.management.base import CommandParser

from assignment.errors import InvalidInput
from assignment.types import Partition
from dashboard.coordinator import store_events
from dashboard.live.connection import StoreUnavailable
from dashboard.management.answers import AnswerCommand, group_named
from dashboard.models import Group, Tenure
from dashboard.pages.texts import parse_moment, utc
from dashboard.records.queries import tenures


class Command(AnswerCommand):
    help = "Tells who owned a partition at a moment, with the fence, from the history of its lock."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("group")
        parser.add_argument("partition", help="a number, or stream:number")
        parser.add_argument("--at", required=True, help="ISO time (UTC) or ms since 1970")

    def answer(self, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        group = group_named(options["group"])
        with suppress(StoreUnavailable):  # the last second may not be stored yet
            store_events(group)
        partition = partition_of(group, options["partition"])
        found = tenures.owner_at(group, partition, parse_moment(options["at"]))
        return as_json(group, found), said(found)


def partition_of(group: Group, text: str) -> Partition:
    """From `17` or `stream:17`. Raises InvalidInput when the group has no such partition."""
    partition = Partition(group.stream, int(text)) if text.isdecimal() else Partition.parse(text)
    if partition.stream != group.stream or not 0 <= partition.number < group.partitions:
        raise InvalidInput(
            f"partition {text!r} is not of group {group.name!r}: it has {group.stream}:0 to"
            f" {group.stream}:{group.partitions - 1}"
        )
    return partition


def as_json(group: Group, answer: tenures.OwnerAt) -> dict[str, Any]:
    last = answer.tenures[-1] if answer.tenures else None
    return {
        "group": group.name,
        "partition": str(answer.partition),
        "at": iso(answer.at_ms),
        "at_ms": answer.at_ms,
        "owner": answer.owner,
        "fence": str(last.fence) if last else None,
        "from_ms": last.started_ms if last else None,
        "to_ms": last.ended_ms if last else None,
        "end": last.end if last else None,
        "others": [f"{row.member_id}/{row.fence}" for row in answer.tenures[:-1]],
        "doubtful": answer.doubtful,
    }


def said(answer: tenures.OwnerAt) -> str:
    if not answer.tenures:
        found = f"{answer.partition} had no owner at {iso(answer.at_ms)}"
    else:
        owners = ", ".join(map(tenure, answer.tenures))
        found = f"{answer.partition} at {iso(answer.at_ms)}: {owners}"
    return found + (" (doubtful: events of its lock were lost since)" if answer.doubtful else "")


def tenure(row: Tenure) -> str:
    until = "now" if row.ended_ms is None else f"{iso(row.ended_ms)} ({row.end or 'end unknown'})"
    return f"{row.member_id} under fence {row.fence}, from {iso(row.started_ms)} to {until}"


def iso(at_ms: int) -> str:
    return utc(at_ms).isoformat(timespec="milliseconds")
