"""What a few letters may mean: groups, members and partitions that somebody may see."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from dashboard.actions.roles import Action, Rights
from dashboard.models import Group, MemberRecord
from dashboard.records.rights import narrowed_to, visible

FOUND_MAX = 10  # of each kind
STAYS_MAX = 100  # read for as many members: who restarts has several
GONE_MS = 7 * 86_400_000  # a member that left is found for a week
PARTITION = re.compile(r"(?P<stream>[A-Za-z0-9_.-]{1,100}):(?P<number>[0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class Found:
    """`partitions`: (group, number); `members`: (group, member)."""

    groups: Sequence[Group]
    members: Sequence[tuple[str, str]]
    partitions: Sequence[tuple[str, int]]


def find(text: str, rights: Rights, now_ms: int) -> Found:
    """`text`: a part of a name, in any case; of a partition stream:number. "": the first groups."""
    groups = visible(rights).filter(name__icontains=text)[:FOUND_MAX]
    if not text:
        return Found(list(groups), (), ())
    return Found(list(groups), _members(text, rights, now_ms), _partitions(text, rights))


def _members(text: str, rights: Rights, now_ms: int) -> list[tuple[str, str]]:
    stays = MemberRecord.objects.filter(member_id__icontains=text)
    lately = Q(left_at_ms=None) | Q(joined_at_ms__gte=now_ms - GONE_MS)
    rows = narrowed_to(stays.filter(lately), rights, Action.SEE, "group__name")
    return list(_distinct(rows))[:FOUND_MAX]


def _distinct(rows: QuerySet[MemberRecord]) -> Iterator[tuple[str, str]]:
    """Each member once, who joined last first."""
    found = rows.order_by("-joined_at_ms").values_list("group__name", "member_id")[:STAYS_MAX]
    yield from dict.fromkeys(found)


def _partitions(text: str, rights: Rights) -> list[tuple[str, int]]:
    asked = PARTITION.fullmatch(text)
    if asked is None:
        return []
    number, stream = int(asked["number"]), asked["stream"]
    groups = visible(rights).filter(stream=stream, partitions__gt=number)[:FOUND_MAX]
    return [(group.name, number) for group in groups]
