"""The status object of one group: what `status --json` prints and `up` ends with.

Owned is what the live locks say; state, application id and what its replicas lack are what the
member's agent reported.
"""

import time
from collections.abc import Mapping
from typing import Any

from django.db.models import F, Q, Window
from django.db.models.functions import Lag

from assignment.scripts.group_read import GroupRead, Purpose
from assignment.types import Drain, HeldState, Partition
from assignment.wire import ConsumerHealth
from dashboard.live import groups as live
from dashboard.models import Group, ScaleDownState, Tenure
from dashboard.records.queries import rebalances

READY = "ready"
RUNNING = ScaleDownState.RUNNING
ENDED_WITHIN_MS = 600_000  # who was told to leave ends soon after the last of its scale-down


def group_status(group: Group) -> dict[str, Any]:
    """Raises StoreUnavailable."""
    read = live.read(group.name, Purpose.LOOK)
    owned = owned_by_member(read)
    members = {
        member_id: {
            "owned": [str(p) for p in sorted(owned.get(member_id, ()))],
            **replicas_of(read, member_id),
            "state": state_of(read, member_id),
            "spark_application_id": _health(read, member_id).spark_application_id,
        }
        for member_id in sorted(read.members)
    }
    return {
        "ready": is_ready(group, read, owned, members),
        "members": members,
        "partitions": group.partitions,
        "learning": sum(len(row.learning) for row in read.target.values()),
        "processed": sum(applied.total for applied in read.applied.values()),
        "rebalances": rebalances.count(group),
        "conflicts": len(overlaps(group)) + double_claims(read),
    }


def for_the_tree(group: Group) -> dict[str, Any]:
    """`told`: member -> when a scale-down was asked for that told it to leave, unless that was
    taken back; `outcomes`: how each went; `at_ms`: this machine's clock before all was read.
    """
    at_ms = time.time_ns() // 1_000_000
    lately = Q(state=RUNNING) | Q(ended_at_ms__gte=at_ms - ENDED_WITHIN_MS)
    rows = list(group.scale_downs.filter(lately).order_by("asked_at_ms"))
    told = {
        member_id: row.asked_at_ms
        for row in rows
        for member_id, entry in row.members.items()
        if entry["outcome"] != "cancelled"
    }
    return {
        "at_ms": at_ms,
        "told": told,
        "outcomes": {m: entry["outcome"] for row in rows for m, entry in row.members.items()},
        "scale_downs_running": sum(r.state == RUNNING for r in rows),
    }


def for_checks(name: str) -> dict[str, Any]:
    """Refused commits so far, how many events of the locks the history lacks, how many batches the
    owner with the fewest has finished since its consumer started, since when each member is able,
    and the last commit of the partition that waits for its next one the longest.
    """
    read = live.read(name, Purpose.LOOK)
    stored = Group.objects.values_list("last_event_seq", flat=True).get(name=name)
    at_work = [m for m in owned_by_member(read) if m in read.members]
    return {
        "refused_commits": read.meta.refused_commits,
        "history_behind": read.meta.event_seq - stored,
        "batches_min": min((_health(read, m).batch for m in at_work), default=0),
        "able_since_ms": {m: row.able_at_ms for m, row in read.members.items() if row.able},
        "committed_ms": min((a.at_ms for a in read.applied.values()), default=0),
    }


def owned_by_member(read: GroupRead) -> dict[str, set[Partition]]:
    owned: dict[str, set[Partition]] = {}
    for partition, lock in read.locks.items():
        owned.setdefault(lock.member_id, set()).add(partition)
    return owned


def replicas_of(read: GroupRead, member_id: str) -> dict[str, Any]:
    """Partitions that it keeps replicas of by the target, and how far the replicas are, as
    reported.
    """
    row, report = read.target.get(member_id), read.reports.get(member_id)
    replicas = report.replicas if report else {}
    return {
        "standby": [str(p) for p in sorted(row.standby)] if row else [],
        "learning": [str(p) for p in sorted(row.learning)] if row else [],
        "percent": {str(p): replica.percent for p, replica in sorted(replicas.items())},
    }


def _health(read: GroupRead, member_id: str) -> ConsumerHealth:
    """As last reported; its defaults before the first report."""
    report = read.reports.get(member_id)
    return report.consumer if report else ConsumerHealth()


def state_of(read: GroupRead, member_id: str) -> str:
    """starting, ready, stalled or dead as reported; leaving; unknown before its first report."""
    row = read.members[member_id]
    if row.leaving or row.drain is not Drain.NONE:
        return "leaving"
    return _health(read, member_id).state if member_id in read.reports else "unknown"


def is_ready(
    group: Group,
    read: GroupRead,
    owned: Mapping[str, set[Partition]],
    members: Mapping[str, Mapping[str, Any]],
) -> bool:
    """Every partition runs in the hands that the target gives it to, and every member is ready."""
    running = sum(
        held.state is HeldState.RUNNING and p in owned.get(member_id, ())
        for member_id, report in read.reports.items()
        for p, held in report.owned.items()
    )
    return (
        read.grants_are_possible
        and running == group.partitions
        and read.meta.target_epoch == read.meta.group_epoch
        and all(member["state"] == READY for member in members.values())
        and all(row.active == owned.get(m, set()) for m, row in read.target.items())
    )


def overlaps(group: Group) -> list[tuple[str, int, int]]:
    """(partition, fence, ms) of every tenure that began before the one before it had ended."""
    before = Window(Lag("ended_ms"), partition_by=F("partition"), order_by=F("fence").asc())
    rows = (
        Tenure.objects.filter(group=group)
        .annotate(ended_before_ms=before)
        .filter(started_ms__lt=F("ended_before_ms"))
        .values_list("partition", "fence", "ended_before_ms", "started_ms")
    )
    return [(partition, fence, end - start) for partition, fence, end, start in rows]


def double_claims(read: GroupRead) -> int:
    """Partitions that two members report under one fence: no lock grants that."""
    claims = [
        (p, held.fence) for report in read.reports.values() for p, held in report.owned.items()
    ]
    return len(claims) - len(set(claims))
