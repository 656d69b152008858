"""What a scale-down would do now, who would leave, and why it would be refused (S1 to S3)."""

from collections.abc import Sequence
from dataclasses import dataclass

from assignment.coordinator.leaving import Asked, asked_of, leavers, live_view, why_stateless
from assignment.scripts.group_read import GroupRead, Purpose
from dashboard.live import groups as live_groups
from dashboard.live.following import GroupNotThere
from dashboard.models import Group

__all__ = ["Asked", "Preview", "asked_of", "leavers", "live_view", "preview"]


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


def read(group: Group) -> GroupRead:
    view = live_groups.read(group.name, Purpose.LOOK)
    if view.meta.settings is None:
        raise GroupNotThere(f"group {group.name!r} is not set up in Redis yet")
    return view


def refusal(group: Group) -> str:
    if not group.values.stateful:
        return why_stateless(group.name)
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
