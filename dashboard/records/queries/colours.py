"""Which hue a member has: the same on every page, never that of another member alive meanwhile.

The hue of somebody who has just gone is not given to who comes next: a handover can be seen.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from django.db.models import Max, Min

from dashboard.live.snapshot import LiveMember
from dashboard.models import MemberRecord

HUES = 10  # of page.css; the members alive beyond them share
STAYS_MAX = 5_000  # a group with a longer history gives hues anew from there
STILL_HERE = 2**63


class Stay(NamedTuple):
    member_id: str
    joined_at_ms: int
    left_at_ms: int | None


def hues(stays: Iterable[Stay]) -> dict[str, int]:
    """`stays` in the order of joining; hues are dealt in turn, leaving out those in use."""
    given: dict[str, int] = {}
    used_until = [0] * HUES
    turn = 0
    for stay in stays:
        taken = {hue for hue in range(HUES) if used_until[hue] > stay.joined_at_ms}
        hue = given.setdefault(stay.member_id, _next(turn, taken))
        left = STILL_HERE if stay.left_at_ms is None else stay.left_at_ms
        used_until[hue] = max(used_until[hue], left)
        turn = hue + 1
    return given


def _next(turn: int, taken: Collection[int]) -> int:
    """From `turn` on the first that is free; when none is, members share."""
    in_turn = ((turn + step) % HUES for step in range(HUES))
    return next((hue for hue in in_turn if hue not in taken), turn % HUES)


def of_group(group_id: int) -> dict[str, int]:
    """Member id -> hue, of everybody who was ever there."""
    rows = (
        MemberRecord.objects.filter(group_id=group_id)
        .values_list("member_id")
        .annotate(joined=Min("joined_at_ms"), left=Max("left_at_ms"))
        .order_by("-joined", "-member_id")[:STAYS_MAX]
    )
    staying = set(
        MemberRecord.objects.filter(group_id=group_id, left_at_ms=None).values_list(
            "member_id", flat=True
        )
    )
    return hues(
        Stay(member_id, joined, None if member_id in staying else left)
        for member_id, joined, left in reversed(rows)
    )


def with_present(given: dict[str, int], present: Iterable[LiveMember]) -> dict[str, int]:
    """Whoever has joined and is not recorded yet gets the hue that the record will give."""
    members = sorted(present, key=lambda member: (member.joined_at_ms, member.id))
    used = {given[member.id] for member in members if member.id in given}
    turn = max(given.values(), default=-1) + 1 if len(given) < HUES else len(given)
    result = dict(given)
    for member in members:
        if member.id not in result:
            result[member.id] = _next(turn, used)
            used.add(result[member.id])
            turn = result[member.id] + 1
    return result
