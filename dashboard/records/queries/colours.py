"""Which hue a member has: the same on every page, never that of another member alive meanwhile.

The hue of somebody who has just gone is not given to who comes next: a handover can be seen.
"""

from collections.abc import Iterable
from typing import NamedTuple

from dashboard.live.snapshot import LiveMember
from dashboard.models import MemberRecord
from dashboard.records import bulk

HUES = 10  # of page.css; the members alive beyond them share
STAYS_MAX = 5_000  # a group with a longer history gives hues anew from there
STILL_HERE = 2**63
# `here`: of how many stays there is no end.
STAYS = f"""
SELECT member_id, MIN(joined_at_ms) AS joined, MAX(left_at_ms), COUNT(*) - COUNT(left_at_ms) AS here
FROM {MemberRecord._meta.db_table} WHERE group_id = %s
GROUP BY member_id ORDER BY joined DESC, member_id DESC LIMIT {STAYS_MAX}
"""


class Stay(NamedTuple):
    member_id: str
    joined_at_ms: int
    left_at_ms: int | None


def hues(stays: Iterable[Stay]) -> dict[str, int]:
    """`stays` in the order of joining. Hues are dealt in turn, leaving out those in use as long as
    one is free.
    """
    given: dict[str, int] = {}
    used_until = [0] * HUES
    turn = 0
    for stay in stays:
        in_turn = ((turn + step) % HUES for step in range(HUES))
        free = (hue for hue in in_turn if used_until[hue] <= stay.joined_at_ms)
        hue = given.setdefault(stay.member_id, next(free, turn % HUES))
        left = STILL_HERE if stay.left_at_ms is None else stay.left_at_ms
        used_until[hue] = max(used_until[hue], left)
        turn = hue + 1
    return given


def of_group(group_id: int, present: Iterable[LiveMember] = ()) -> dict[str, int]:
    """Member id -> hue, of everybody who was ever there. Who is `present` and is not recorded yet
    has the hue that the record will give.
    """
    stays = [
        Stay(member_id, joined, None if here else left)
        for member_id, joined, left, here in reversed(bulk.fetched(STAYS, [group_id]))
    ]
    known = {stay.member_id for stay in stays}
    new = (Stay(m.id, m.joined_at_ms, None) for m in present if m.id not in known)
    return hues([*stays, *sorted(new, key=lambda stay: (stay.joined_at_ms, stay.member_id))])
