"""Whether owners go back and forth or members come and go, and which: the reason of `flapping`.

Asked once a sample, of what changed lately only; lists show what the sample says. Members that join
for the first time never flap, in however many rounds their partitions come to them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.db.models import QuerySet

from dashboard.live.attention import DEFAULTS, Limits
from dashboard.models import FLAPPING_TEXT_MAX, Group, MemberRecord, Tenure
from dashboard.pages import amounts

WINDOW_MS = 600_000  # what is longer ago has settled
ROWS_MAX = 100_000  # of the window, the newest


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """A partition that went from `owner` to `other` and back, the last time within `took_ms`."""

    number: int
    owner: str
    other: str
    took_ms: int
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejoined:
    member_id: str
    joins: int


def why(group: Group, now_ms: int, limits: Limits = DEFAULTS) -> str:
    """The partition and the member that flap most, and how many more; "" when nothing does."""
    partitions = returned(group, now_ms, limits["flapping_returns"])
    members = rejoined(group, now_ms, limits["flapping_joins"])
    said = [*_partitions_said(group, partitions), *_members_said(members)]
    return "; ".join(said)[:FLAPPING_TEXT_MAX]


def may_flap(groups: Collection[Group], now_ms: int, joins_least: int) -> frozenset[int]:
    """Keys of those in which within the window anybody joined that often, or anything changed hands
    more than once: of others `why` is asked for nothing. After many members joined for the first
    time that is most groups, for as long as the window.
    """
    since_ms = now_ms - WINDOW_MS
    begun = Tenure.objects.filter(group__in=groups, started_ms__gte=since_ms)
    joined = MemberRecord.objects.filter(group__in=groups, joined_at_ms__gte=since_ms)
    return _often(begun, "number", 2) | _often(joined, "member_id", joins_least)


def _often(rows: QuerySet[Any], what: str, least: int) -> frozenset[int]:
    """Keys of groups of which the same is in that many rows; where there are too many, all."""
    found = Counter(rows.order_by().values_list("group_id", what)[:ROWS_MAX])
    if found.total() >= ROWS_MAX:
        return frozenset(rows.order_by().values_list("group_id", flat=True).distinct())
    return frozenset(pk for (pk, _), times in found.items() if times >= least)


def _partitions_said(group: Group, found: list[Returned]) -> Iterator[str]:
    if found:
        one = found[0]
        path = " → ".join((one.owner, one.other, one.owner))
        often = f", {one.times} times in {_window()}" if one.times > 1 else ""
        name = f"{group.stream}:{one.number}"
        took = amounts.span(one.took_ms)
        yield f"partition {name} went {path} within {took}{often}{_more(found, 'partition')}"


def _members_said(found: list[Rejoined]) -> Iterator[str]:
    if found:
        one = found[0]
        more = _more(found, "member")
        yield f"member {one.member_id} joined {one.joins} times in {_window()}{more}"


def _window() -> str:
    return f"{WINDOW_MS // 60_000} min"


def _more(found: list[Returned] | list[Rejoined], noun: str) -> str:
    more = len(found) - 1
    return f" (and {more} more {noun}{'s' if more > 1 else ''})" if more else ""


def returned(group: Group, now_ms: int, least: int) -> list[Returned]:
    """Those that went back most often first, of those that did `least` times or more. Two ranges of
    an index, and nothing older: a database that groups them itself reads all that the group had.
    """
    since_ms = now_ms - WINDOW_MS
    begun = _rows(group.tenures.filter(started_ms__gte=since_ms).order_by("-started_ms"))
    times = Counter(number for number, *_ in begun)
    several = {number for number in times if times[number] > 1}
    if not several:
        return []
    ended = _rows(group.tenures.filter(ended_ms__gte=since_ms).order_by("-ended_ms"))
    rows = sorted(row for row in {*begun, *ended} if row[0] in several)
    found = returns((number, member, started_ms) for number, started_ms, _, member in rows)
    return sorted((r for r in found if r.times >= least), key=lambda r: (-r.times, r.number))


def _rows(tenures: QuerySet[Tenure]) -> list[tuple[int, int, int, str]]:
    return list(tenures.values_list("number", "started_ms", "fence", "member_id")[:ROWS_MAX])


def returns(tenures: Iterable[tuple[int, str, int]]) -> Iterator[Returned]:
    """Of (number, member, started_ms), in that order; each partition that went back at all."""
    for number, rows in groupby(tenures, lambda row: row[0]):
        owners = list(_changes((member, started_ms) for _, member, started_ms in rows))
        threes = zip(owners, owners[1:], owners[2:], strict=False)
        back = [three for three in threes if three[0][0] == three[2][0]]
        if back:
            owner, other, again = back[-1]
            yield Returned(
                number=number,
                owner=owner[0],
                other=other[0],
                took_ms=again[1] - other[1],
                times=len(back),
            )


def _changes(tenures: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """The first tenure of each owner; the next ones of the same owner are no change."""
    for _, rows in groupby(tenures, lambda row: row[0]):
        yield next(rows)


def rejoined(group: Group, now_ms: int, least: int) -> list[Rejoined]:
    """Those that joined most often, `least` times or more, first."""
    stays = group.member_records.filter(joined_at_ms__gte=now_ms - WINDOW_MS)
    joins = Counter(stays.values_list("member_id", flat=True)[:ROWS_MAX])
    often = ((-n, member) for member, n in joins.items() if n >= least)
    return [Rejoined(member_id=member, joins=-n) for n, member in sorted(often)]
