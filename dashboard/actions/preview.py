"""What a scale-down would do now, who would leave, and why it would be refused (S1 to S3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from assignment.coordinator import scale_down as rules
from assignment.coordinator.learners import view_of
from assignment.coordinator.reading import settings_of, unable_members
from assignment.errors import InvalidInput
from assignment.planner.values import GroupView
from assignment.scripts.group_read import GroupRead, Purpose
from assignment.types import Partition
from dashboard.live import groups as live_groups
from dashboard.live.watching import GroupNotThere
from dashboard.models import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """`covered`: how many of its partitions have a replica on a member that stays."""

    member_id: str
    owned: int
    covered: int
    joined_at_ms: int
    host: str
    zone: str
    leaves: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """`refused` is one sentence when `start` would refuse it now, else "". Leavers first."""

    members: int
    stay: int
    percent: int | None
    candidates: tuple[Candidate, ...]
    refused: str

    @property
    def leave(self) -> tuple[Candidate, ...]:
        return tuple(c for c in self.candidates if c.leaves)


def preview(
    group: Group,
    *,
    percent: int | str | None = None,
    members: Sequence[str] | None = None,
    force_all: bool = False,
) -> Preview:
    """What a scale-down would do now; changes nothing. Names go before the percentage.

    Raises InvalidInput for what cannot be right in any group, StoreUnavailable.
    """
    asked = asked_of(percent, members)
    view = read(group)
    leave, refused = leavers(view, asked, force_all=force_all)
    return preview_of(view, asked, leave, refused or refusal(group))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How many or who: `members` None means by percentage."""

    percent: int | None
    members: tuple[str, ...] | None


def asked_of(percent: int | str | None, members: Sequence[str] | None) -> Asked:
    number = None if percent is None else rules.whole_number("percent", percent)
    if number is not None:
        rules.split(1, number)
    if members is None:
        if number is None:
            raise InvalidInput("neither a percentage nor members were given")
        return Asked(percent=number, members=None)
    names = tuple(sorted({name.strip() for name in members if name.strip()}))
    if not names:
        raise InvalidInput("no member was named")
    return Asked(percent=number, members=names)


def read(group: Group) -> GroupRead:
    view = live_groups.read(group.name, Purpose.LOOK)
    if view.meta.settings is None:
        raise GroupNotThere(f"group {group.name!r} is not set up in Redis yet")
    return view


def live_view(view: GroupRead) -> GroupView[Partition]:
    """Without those whose session is over and that nobody has taken out yet."""
    timeout, whole = settings_of(view).session_timeout_ms, view_of(view, unable_members(view))
    live = [m for m in whole.members if view.now_ms - view.beats.get(m.member_id, 0) <= timeout]
    return replace(whole, members=live)


def leavers(view: GroupRead, asked: Asked, *, force_all: bool) -> tuple[tuple[str, ...], str]:
    """Who would be told, and why they cannot be now, else ""."""
    live = live_view(view)
    if not live.members:
        return (), "the group has no live member"
    if asked.members is None:
        assert asked.percent is not None
        return rules.leavers_by_percent(live, asked.percent), ""
    leave = rules.leavers_by_name(live, asked.members, forced=True)
    try:
        return rules.leavers_by_name(live, asked.members, forced=force_all), ""
    except InvalidInput as error:
        return leave, str(error)


def refusal(group: Group) -> str:
    if not group.values.stateful:
        return f"group {group.name} is not stateful: members end without anything to wait for"
    if running := group.running_scale_down:
        return f"a scale-down of {', '.join(sorted(running.members))} runs: cancel it first"
    return ""


def preview_of(view: GroupRead, asked: Asked, leave: Sequence[str], refused: str) -> Preview:
    members = {m.member_id: m for m in live_view(view).members}
    staying = [m for name, m in members.items() if name not in leave and m.able]
    replicated = {p for m in staying for p in (*m.standby, *m.learning)}
    ordered = [*leave, *sorted(members.keys() - set(leave))]
    return Preview(
        members=len(members),
        stay=len(members) - len(leave),
        percent=asked.percent,
        candidates=tuple(
            Candidate(
                member_id=name,
                owned=len(members[name].owned),
                covered=sum(p in replicated for p in members[name].owned),
                joined_at_ms=view.members[name].joined_at_ms,
                host=view.members[name].host,
                zone=view.members[name].zone,
                leaves=name in leave,
            )
            for name in ordered
        ),
        refused=refused,
    )
