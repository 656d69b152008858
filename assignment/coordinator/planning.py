"""The next target of a group, as values: what set_target should store."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from assignment import planner, strategies
from assignment.columns import NOBODY, Numbers, Owners, Places, renumbered
from assignment.coordinator.learners import view_of
from assignment.coordinator.reading import (
    able_members,
    owners_before,
    settings_of,
    unable_members,
    why_waiting,
)
from assignment.coordinator.record import Change, Situation, change_of
from assignment.scripts.group_read import GroupRead
from assignment.strategies.given import StrategyInput
from assignment.strategies.unserved import exchanged
from assignment.strategies.weighted_sticky import with_measured
from assignment.types import TargetRow

PLANNER = "planner"  # in the place of a strategy's name: a stateful group has none to choose


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What set_target should store: a row for every member, made for the view's group_epoch."""

    rows: Mapping[str, TargetRow]
    change: Change


@dataclass(frozen=True, slots=True)
class Nothing:
    """No target is due."""

    reason: str


def next_target(view: GroupRead) -> Target | Nothing:
    """The target for the view's group_epoch, by the group's own strategy.

    Without any able member the rows are empty and every partition is unowned: a result, no error.
    InvalidInput when the strategy does not fit the group as it is.
    """
    meta = view.meta
    if meta.group_epoch <= meta.target_epoch:
        return Nothing(f"nothing changed since epoch {meta.target_epoch}")
    if why := why_not_yet(view):
        return Nothing(why)
    return target_of(view)


def why_not_yet(view: GroupRead) -> str:
    """Why no target can be given at this moment, whatever it is; "" when one can."""
    meta = view.meta
    if (meta.incarnation or view.target) and not view.grants_are_possible:
        # After a wipe the last target is put back: whoever is first waits for who else had a part.
        return "Redis may have lost writes: its incarnation is not raised yet"
    return why_waiting(view)


def target_of(
    view: GroupRead, strategy: str = "", parameters: Mapping[str, Any] | None = None
) -> Target:
    """The target that a strategy would give now, due or not.

    Without parameters the group's own strategy has the group's own. Raises InvalidInput.
    A stateful group has none to choose: its target is the planner's (learners.md).
    """
    settings = settings_of(view)
    if settings.stateful:
        return _by_planner(view, unable_members(view))
    planning = Planning(view)
    change = planning.change(strategy or settings.strategy, parameters)
    return Target(rows=planning.rows(change.after), change=change)


class Planning:
    """Of a stateless group: what is the same whatever strategy is asked."""

    def __init__(self, view: GroupRead) -> None:
        settings, unable = settings_of(view), unable_members(view)
        self.view, self.names = view, sorted(view.members)
        self.situation = Situation(view, unable, owners_before(view))
        topics = {settings.stream: settings.partitions}
        self.given = StrategyInput(members=able_members(view, unable), topics=topics)

    def change(self, strategy: str, parameters: Mapping[str, Any] | None = None) -> Change:
        """What a strategy would change now. Parameters and errors as of target_of."""
        settings = settings_of(self.view)
        if parameters is None:
            parameters = settings.strategy_parameters if strategy == settings.strategy else {}
        owners = self._owners(strategy, with_measured(parameters, partial(_measured, self.view)))
        even = strategies.even_is_best(strategy, parameters, self.given.members)
        return self.situation.change(strategy, owners, even_is_best=even)

    def _owners(self, strategy: str, parameters: Mapping[str, Any]) -> Numbers:
        """[partitions] index of the member, or NOBODY."""
        members = self.given.members
        dealt = strategies.dealing(strategy, parameters)(self.given)
        if not any(member.unserved for member in members):
            own = renumbered(dealt.dense.member_ids, self.names)
            return np.append(own, NOBODY)[dealt.owners]  # the last one is of NOBODY
        zones_bind = strategies.KINDS[strategy].zones_bind
        assigned = exchanged(dealt.named, members, zones_bind=zones_bind)
        owners = np.full(settings_of(self.view).partitions, NOBODY, np.int64)
        for number, member in enumerate(self.names):
            owners[Places.of(assigned.get(member, ())).number] = number
        return owners

    def rows(self, after: Owners) -> dict[str, TargetRow]:
        """One for each member."""
        owned = after.sets(settings_of(self.view).all_partitions())
        epoch = self.view.meta.group_epoch
        return {m: TargetRow(target_epoch=epoch, active=owned[m]) for m in self.names}


def _measured(view: GroupRead) -> list[float]:
    """[partitions] events so far: what each partition weighs as far as the group has counted."""
    applied = (view.applied.get(p) for p in settings_of(view).all_partitions())
    return [float(a.total) if a else 0.0 for a in applied]


def _by_planner(view: GroupRead, unable: Mapping[str, str]) -> Target:
    assignment = planner.plan(view_of(view, unable))
    rows = planner.target_rows(assignment, view.meta.group_epoch)
    change = change_of(view, PLANNER, rows, unable)
    return Target(rows=rows, change=replace(change, waiting=assignment.waiting))
