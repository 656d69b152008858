"""Who is told to leave, and when their time is up (learners.md S1-S5). Decides; tells nobody.

What a scale-down does to partitions is the planner's: `MemberView.leaving` and `forced`. To cancel
is to withdraw the flags (S7).
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Generic, NamedTuple

from assignment.errors import InvalidInput
from assignment.planner.values import GroupView, MemberView, P

_WHOLE = re.compile(r"-?[0-9]{1,18}")  # beyond is no count of members, nor a percentage


class Split(NamedTuple):
    """How many of the live members stay and leave."""

    stay: int
    leave: int


def split(members: int, percent: int) -> Split:
    """`percent` of the members remain, rounded up: 40 at 80 % is 32 and 8.

    InvalidInput names members below 1, and a percentage that is not within 1 and 100.
    """
    if members < 1:
        raise InvalidInput(f"members {members} is below 1")
    if not 1 <= percent <= 100:
        raise InvalidInput(f"percent {percent} is not within 1 and 100")
    stay = -(-members * percent // 100)
    return Split(stay, members - stay)


def whole_number(name: str, text: Any) -> int:
    """From what a person typed; InvalidInput names anything but an integer in decimal digits."""
    if text is None:
        raise InvalidInput(f"{name} is not given")
    if not _WHOLE.fullmatch(str(text)):
        raise InvalidInput(f"{name} {str(text)!r} is not a whole number")
    return int(text)


def leavers_by_percent(view: GroupView[P], percent: int) -> tuple[str, ...]:
    """The members of the view that would leave, in order of choice (S2).

    Those that leave already come first; then those that own least, most of it covered by standbys
    on members that stay; ties: the youngest, then the smallest id. One that is unable owns
    nothing that its departure could move.
    """
    leave = split(len(view.members), percent).leave
    chosen = sorted(member.member_id for member in view.members if member.is_leaving)[:leave]
    left = {member.member_id: member for member in view.members if not member.is_leaving}
    cover = _Cover(list(left.values()))
    while len(chosen) < leave:
        member = min(left.values(), key=cover.cost)
        del left[member.member_id]
        cover.without(member)
        chosen.append(member.member_id)
    return tuple(chosen)


class _Cover(Generic[P]):
    """Owned partitions without a standby on somebody who stays, while leavers are chosen."""

    def __init__(self, members: Collection[MemberView[P]]) -> None:
        self.owners: dict[P, list[str]] = {}
        self.bare = {member.member_id: 0 for member in members}
        for member in members:
            for partition in member.owned if member.able else ():
                self.owners.setdefault(partition, []).append(member.member_id)
        self.standbys = Counter(p for member in members for p in _kept(member))
        for partition in self.owners.keys() - self.standbys.keys():
            self._uncovered(partition)

    def _uncovered(self, partition: P) -> None:
        for owner in self.owners.get(partition, ()):
            self.bare[owner] += 1

    def without(self, member: MemberView[P]) -> None:
        for partition in _kept(member):
            self.standbys[partition] -= 1
            if not self.standbys[partition]:
                self._uncovered(partition)

    def cost(self, member: MemberView[P]) -> tuple[int, int, int, str]:
        owned = len(member.owned) if member.able else 0
        return owned, self.bare[member.member_id], -member.joined_at_ms, member.member_id


def _kept(member: MemberView[P]) -> list[P]:
    """Standbys that could take over."""
    return [p for p in member.standby if p not in member.owned] if member.able else []


def leavers_by_name(
    view: GroupView[P], names: Sequence[str], *, forced: bool = False
) -> tuple[str, ...]:
    """`names`, ascending. InvalidInput: unknown ones, all of them; none; everybody (S1, S3)."""
    known = {member.member_id for member in view.members}
    if unknown := sorted(set(names) - known):
        raise InvalidInput(f"no such member: {', '.join(unknown)}")
    if not names:
        raise InvalidInput("no member was named")
    stay = {m.member_id for m in view.members if not m.is_leaving} - set(names)
    if not stay and not forced:
        raise InvalidInput("all members would leave: that must be forced")
    return tuple(sorted(set(names)))


def time_is_up(told_at_ms: int, now_ms: int, timeout_ms: int | None) -> bool:
    """From then on a leaving member is forced (S5). None: never; 0: at once."""
    return timeout_ms is not None and now_ms - told_at_ms >= timeout_ms
