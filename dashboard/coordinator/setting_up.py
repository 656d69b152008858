"""Makes Redis hold what the database says of a group: settings, an incarnation, and after a wipe
what can be put back.
"""

import logging

from django.db.models import Max

from assignment.coordinator import needs_incarnation
from assignment.scripts import GroupRead, SnapshotRecord
from assignment.types import GroupSettings, Offset, Partition
from assignment.wire import parse_settings
from dashboard.live import groups as live_groups
from dashboard.live import waiting
from dashboard.models import AuditSource, Group, HistoryGap, PartitionMirror
from dashboard.records import audit

# Settings that a plan depends on, and what a rebalance is called that they cause.
DECIDING = {
    "stateful": "stateful",
    "strategy": "strategy",
    "strategy_parameters": "strategy",
    "standby_replicas": "standbys",
    "learners_max": "learners",
}

log = logging.getLogger(__name__)


def tell(group: Group) -> bool:
    """Whether Redis had to be told: it held other settings, or none. Raises StoreUnavailable."""
    stored = live_groups.stored_settings(group.name)
    if stored == group.settings_text:
        return False
    if stored is None and group.incarnation > 0:
        put_back(group)
        return True
    why = _decides(parse_settings(stored), group.values) if stored else ""
    live_groups.configure(group.name, group.values, why or "settings", rebalance_due=bool(why))
    live_groups.add_reader(group.stream, group.partitions, group.name)
    return True


def _decides(before: GroupSettings, after: GroupSettings) -> str:
    """The cause of the rebalance that the change makes due; "" when no plan depends on it."""
    differing = (n for n in DECIDING if getattr(before, n) != getattr(after, n))
    return next((DECIDING[name] for name in differing), "")


def raise_incarnation(group: Group, view: GroupRead) -> None:
    """Before a Redis that may have lost writes grants anything. The database has it first."""
    wanted = needs_incarnation(view, group.incarnation)
    if wanted is None or waiting.is_waiting(group.name):
        return
    Group.objects.filter(pk=group.pk, incarnation__lt=wanted).update(incarnation=wanted)
    group.incarnation = wanted
    done, stored = live_groups.set_incarnation(group.name, wanted, view.run_id)
    log.info("incarnation group=%s value=%d done=%s stored=%d", group.name, wanted, done, stored)


def put_back(group: Group) -> None:
    """Redis was wiped (coordination.md section 6): after a lease, grants under a new incarnation.

    Each partition starts from its last snapshot: its offset is the snapshot's. What only Redis held
    is gone, and that is said loudly.
    """
    waiting.wait(group.name, group.values.lease_ms)
    epoch = group.rebalances.aggregate(last=Max("target_epoch"))["last"] or 0
    live_groups.resume(group.name, epoch, group.last_event_seq)
    mirrored = list(PartitionMirror.objects.filter(group=group))
    records = {
        Partition(group.stream, row.number): _record(row.snapshot[0])
        for row in mirrored
        if row.snapshot
    }
    restored = live_groups.restore(group.name, records)
    lost = _destroyed(group, mirrored)
    at_ms = live_groups.redis_now_ms()
    group.events_cursor = live_groups.FIRST_ENTRY
    group.save(update_fields=["events_cursor"])
    HistoryGap.objects.create(group=group, at_ms=at_ms, events_lost=None)
    group.tenures.filter(ended_ms=None).update(ended_ms=at_ms, end=None)
    audit.record(
        actor=audit.AUTOMATIC,
        action="redis wiped",
        object=group.name,
        group=group,
        reason="this Redis does not know the group any more",
        before={row.number: row.offset for row in mirrored},
        after={str(p): str(r.offset) for p, r in records.items()},
        source=AuditSource.AUTOMATIC,
        result=f"{restored or 0} of {group.partitions} partitions put back",
    )
    log.error("redis wiped group=%s restored=%s destroyed: %s", group.name, restored, lost)
    live_groups.configure(group.name, group.values, "redis wiped", rebalance_due=False)
    live_groups.add_reader(group.stream, group.partitions, group.name)


def _record(snapshot: dict[str, str]) -> SnapshotRecord:
    return SnapshotRecord(
        url=snapshot["url"],
        offset=Offset.parse(snapshot["offset"]),
        changelog_id=live_groups.FIRST_ENTRY,  # the changelog it pointed into is gone
        total=int(snapshot["total"]),
        fence=int(snapshot["fence"]),
    )


def _destroyed(group: Group, mirrored: list[PartitionMirror]) -> str:
    """What nobody can give back, in a sentence per kind."""
    behind = [
        f"{row.number} ({row.total - int(row.snapshot[0]['total']) if row.snapshot else row.total})"
        for row in mirrored
        if not row.snapshot or row.snapshot[0]["offset"] != row.offset
    ]
    return (
        f"members, locks, events of stream {group.stream} that lived in this Redis, ownership"
        f" events since number {group.last_event_seq}, and effects above the last snapshot of"
        f" partitions (events): {', '.join(behind) or 'none'}"
    )
