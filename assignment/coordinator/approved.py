"""The target of a plan: published exactly as it was approved, or refused as stale.

What it was computed from is its base. Every change that a target depends on raises the group's
epoch, so a plan fits while that, and the target before it, are those of its base; who is there and
who is able is compared besides. Its own target raises the epoch in the step that stores it, so it
is stored at most once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from assignment.coordinator.planning import Target
from assignment.coordinator.reading import unable_members
from assignment.coordinator.record import change_of
from assignment.scripts.group_read import GroupRead
from assignment.types import GroupSettings, TargetRow


class Base(NamedTuple):
    """Of the group when the plan was made."""

    incarnation: int
    group_epoch: int
    target_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """`rows`: one for each member; their epochs are those of nothing yet. `unable`: members that
    got none of it because they cannot own. `settings`: a change of the plan's own that Redis is
    told first, and that raises the epoch by one; None: it changes none.
    """

    base: Base
    mode_epoch: int  # of its base too: who computes is no matter of the group's epoch
    strategy: str
    rows: Mapping[str, TargetRow]
    unable: frozenset[str]
    even_is_best: bool = True
    settings: GroupSettings | None = None


def base_of(view: GroupRead) -> Base:
    meta = view.meta
    return Base(meta.incarnation, meta.group_epoch, meta.target_epoch)


def why_stale(base: Base, view: GroupRead, *, raised: int = 0) -> str:
    """One sentence; "" while the group is as it was. `raised`: by what the plan itself changed."""
    now = base_of(view)
    if now.incarnation != base.incarnation:
        return "Redis was restarted or replaced since the plan was made"
    if now.target_epoch != base.target_epoch:
        return f"a rebalance to epoch {now.target_epoch} came since the plan was made"
    if now.group_epoch != base.group_epoch + raised:
        return (
            f"the group changed since the plan was made: epoch {now.group_epoch}, not"
            f" {base.group_epoch + raised}"
        )
    return ""


def why_not_as_approved(plan: Approved, view: GroupRead) -> str:
    """One sentence; "" when its target can be published as it is."""
    if why := why_stale(plan.base, view, raised=int(plan.settings is not None)):
        return why
    if view.meta.mode_epoch != plan.mode_epoch:
        return f"coordination was switched since: it is {view.meta.coordination}"
    if view.members.keys() != plan.rows.keys():
        differing = sorted(view.members.keys() ^ plan.rows.keys())
        return f"other members are there than when the plan was made: {', '.join(differing)}"
    if changed := unable_members(view).keys() ^ plan.unable:
        return f"whether {min(changed)} can own anything changed since the plan was made"
    return ""


def is_told(plan: Approved, view: GroupRead) -> bool:
    """Whether Redis has the plan's own change of settings, if there is one."""
    return plan.settings is None or view.meta.settings == plan.settings


def target_by(plan: Approved, view: GroupRead) -> tuple[GroupRead, Target]:
    """The view at the epoch of the plan's own target, and that. To be asked of a plan that fits."""
    epoch = view.meta.group_epoch + int(plan.settings is None)
    ahead = replace(view, meta=replace(view.meta, group_epoch=epoch))
    rows = {
        member: replace(row, target_epoch=epoch, incarnation=0) for member, row in plan.rows.items()
    }
    unable = {m: why for m, why in unable_members(view).items() if m in plan.unable}
    change = change_of(ahead, plan.strategy, rows, unable, even_is_best=plan.even_is_best)
    return ahead, Target(rows=rows, change=change)
