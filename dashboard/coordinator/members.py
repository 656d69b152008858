"""Keeps a record of each member's stay, from what the tick sees in Redis."""

from collections.abc import Mapping
from typing import NamedTuple

from assignment.scripts import GroupRead
from dashboard.live import groups as live_groups
from dashboard.models import Group, MemberEnd, MemberRecord

LOST = "member lost"  # the reason that the tick gives to evict


class Went(NamedTuple):
    """`signalled`: it said so before, on SIGTERM. Whom a scale-down forced went by itself: only the
    record of that one tells.
    """

    at_ms: int
    end: MemberEnd
    signalled: bool = False


def note_members(group: Group, read: GroupRead) -> bool:
    """Whether a member came or went."""
    open_records = {r.member_id: r for r in group.member_records.filter(left_at_ms=None)}
    gone = [
        record
        for member, record in open_records.items()
        if member not in read.members or read.members[member].joined_at_ms != record.joined_at_ms
    ]
    ends = how_they_went(group) if gone else {}
    for record in gone:
        went = ends.get(record.member_id, Went(read.now_ms, MemberEnd.LOST))
        record.left_at_ms, record.end = max(went.at_ms, record.joined_at_ms), went.end
        record.save(update_fields=["left_at_ms", "end"])
        open_records.pop(record.member_id)
    come = [_record(group, read, m) for m in read.members if m not in open_records]
    MemberRecord.objects.bulk_create(come, ignore_conflicts=True)
    for member, record in open_records.items():
        application = _application(read, member)
        if application and application != record.spark_application_id:
            record.spark_application_id = application
            record.save(update_fields=["spark_application_id"])
    return bool(gone or come)


def how_they_went(group: Group) -> Mapping[str, Went]:
    """By member, as far as `control` still knows: its last time."""
    kinds = {"leave": MemberEnd.LEFT, LOST: MemberEnd.LOST}
    signalled: set[str] = set()
    found: dict[str, Went] = {}
    for hint in live_groups.hints(group.name):
        if hint.reason == "leaving":
            signalled.add(hint.member_id)
        elif hint.reason in kinds:
            by_signal = hint.member_id in signalled
            found[hint.member_id] = Went(hint.at_ms, kinds[hint.reason], by_signal)
    return found


def _record(group: Group, read: GroupRead, member: str) -> MemberRecord:
    row = read.members[member]
    return MemberRecord(
        group=group,
        member_id=member,
        host=row.host[:255],
        version=row.version[:50],
        joined_at_ms=row.joined_at_ms,
        spark_application_id=_application(read, member),
    )


def _application(read: GroupRead, member: str) -> str:
    report = read.reports.get(member)
    return str(report.consumer.get("spark_application_id", ""))[:100] if report else ""
