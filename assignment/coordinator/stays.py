"""Who came, who went and how, whose session is over: what one reading says of members."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from assignment.bounds import printable
from assignment.coordinator.effects import KeepStays, ReadHints, ReadStays, Steps
from assignment.coordinator.facts import Hint, Stay, StayEnd
from assignment.coordinator.reading import is_expected, known_ms, settings_of
from assignment.plausible import is_reached
from assignment.scripts.group_read import GroupRead
from assignment.types import Reason

OLDER_AT_MOST_MS = 60_000  # a view; Celery's task_time_limit. More: the clock of Redis was set back
ENDS = {Reason.LEAVE: StayEnd.LEFT, Reason.LOST: StayEnd.LOST}
HOST_MAX, VERSION_MAX, APPLICATION_MAX = 255, 50, 100


class Went(NamedTuple):
    """`signalled`: it said so, on SIGTERM. Whom a scale-down forced only its record tells."""

    at_ms: int
    end: StayEnd
    signalled: bool = False


def is_from_before(view: GroupRead, at_ms: int) -> bool:
    """Whether the view was read before that, and so can say nothing of what began then."""
    return 0 <= at_ms - view.now_ms < OLDER_AT_MOST_MS


def note_stays(view: GroupRead) -> Steps[bool]:
    """Whether a member came or went. One that never sent a heartbeat leaves no record."""
    stays = yield from ReadStays()
    known = {stay.member_id: stay for stay in stays}
    gone = [stay for stay in stays if _is_over(stay, view)]
    ends = how_they_went((yield from ReadHints())) if gone else {}
    ended = [_ended(stay, ends, view.now_ms) for stay in gone]
    for stay in gone:
        del known[stay.member_id]
    new = sorted(view.members.keys() - known.keys())
    come = [_stay(view, member) for member in new if _has_come(view, member)]
    moved = [now for stay in known.values() if (now := _as_now(stay, view)) is not stay]
    if changed := (*ended, *come, *moved):
        yield from KeepStays(changed)
    return bool(gone or come)


def _has_come(view: GroupRead, member: str) -> bool:
    """Of whoever says that it joined in years nothing is kept."""
    return view.has_reported(member) and is_reached(view.members[member].joined_at_ms, view.now_ms)


def _is_over(stay: Stay, view: GroupRead) -> bool:
    """A stay that began after the view was read is left alone."""
    row = view.members.get(stay.member_id)
    same = row is not None and row.joined_at_ms == stay.joined_at_ms
    return not same and not is_from_before(view, stay.joined_at_ms)


def _ended(stay: Stay, ends: Mapping[str, Went], now_ms: int) -> Stay:
    went = ends.get(stay.member_id, Went(now_ms, StayEnd.LOST))
    return replace(stay, left_at_ms=max(went.at_ms, stay.joined_at_ms), end=went.end)


def how_they_went(hints: Iterable[Hint]) -> dict[str, Went]:
    """By member, as far as the hints still know: its last time."""
    signalled: set[str] = set()
    found: dict[str, Went] = {}
    for hint in hints:
        if hint.reason == Reason.LEAVING:
            signalled.add(hint.member_id)
        elif end := ENDS.get(hint.reason):
            found[hint.member_id] = Went(hint.at_ms, end, hint.member_id in signalled)
    return found


def _stay(view: GroupRead, member: str) -> Stay:
    row = view.members[member]
    return Stay(
        member_id=member,
        joined_at_ms=row.joined_at_ms,
        host=printable(row.host[:HOST_MAX]),
        version=printable(row.version[:VERSION_MAX]),
        application=_application(view, member),
    )


def _as_now(stay: Stay, view: GroupRead) -> Stay:
    """The same one, unless something changed: the next process of an instance may run elsewhere;
    Spark's application is known late.
    """
    row = view.members.get(stay.member_id)
    if row is None or row.joined_at_ms != stay.joined_at_ms:
        return stay
    application = _application(view, stay.member_id) or stay.application
    if (row.host, row.version, application) == (stay.host, stay.version, stay.application):
        return stay
    now = replace(_stay(view, stay.member_id), application=application)
    return stay if now == stay else now


def _application(view: GroupRead, member: str) -> str:
    report = view.reports.get(member)
    said = report.consumer.spark_application_id if report else ""
    return printable(said[:APPLICATION_MAX])


def expired_members(view: GroupRead) -> dict[str, int]:
    """Member without heartbeat and renew for session_timeout_ms -> its last beat; the time in which
    nobody could know does not count. A tick that is only late knows: beats are read anew.

    An instance is awaited for instance_timeout_ms. Of a row that cannot be read the beat alone
    counts; one that never had a beat goes at once. What it reports is not looked at: nobody stays
    for as long as a report takes to be read.
    """
    timeout = settings_of(view).session_timeout_ms
    members = view.members.keys() | view.bad_members.keys()
    found = dict.fromkeys(sorted(members - view.beats.keys()), 0)
    for member, beat in sorted(view.beats.items()):
        row = view.members.get(member)
        if row is not None and is_expected(view, row):
            continue
        if (row is not None and row.stopped) or known_ms(view, beat) > timeout:
            found[member] = beat
    return found
