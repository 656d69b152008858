"""Who would be told to leave, as things stand: by percentage or by name (learners.md S1 to S3)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from assignment.coordinator import scale_down as rules
from assignment.coordinator.learners import view_of
from assignment.coordinator.reading import settings_of, unable_members
from assignment.errors import InvalidInput
from assignment.planner.values import GroupView
from assignment.scripts.group_read import GroupRead
from assignment.types import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How many or who: `members` None means by percentage."""

    percent: int | None
    members: tuple[str, ...] | None


def asked_of(percent: int | str | None, members: Sequence[str] | None) -> Asked:
    """Raises InvalidInput."""
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


def why_stateless(name: str) -> str:
    return f"group {name} is not stateful: members end without anything to wait for"
