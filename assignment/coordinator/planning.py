"""The next target of a group, as values: what set_target should store."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from assignment import planner, strategies
from assignment.coordinator.learners import view_of
from assignment.coordinator.reading import able_members, settings_of, unable_members, waiting_for
from assignment.coordinator.record import Change, change_of
from assignment.scripts.group_read import GroupRead
from assignment.strategies.given import StrategyInput
from assignment.strategies.unserved import exchanged
from assignment.strategies.weighted_sticky import with_measured
from assignment.types import Member, TargetRow

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
    if awaited := waiting_for(view):
        return f"waiting for reports of {', '.join(awaited)}"
    return ""


def target_of(
    view: GroupRead, strategy: str = "", parameters: Mapping[str, Any] | None = None
) -> Target:
    """The target that a strategy would give now, due or not: also the preview of a rebalance.

    Without parameters the group's own strategy has the group's own. Raises InvalidInput.
    A stateful group has none to choose: its target is the planner's (learners.md).
    """
    settings, unable = settings_of(view), unable_members(view)
    name, waiting, even = PLANNER, 0, True
    if settings.stateful:
        rows, waiting = _by_planner(view, unable)
    else:
        name = strategy or settings.strategy
        if parameters is None:
            parameters = settings.strategy_parameters if name == settings.strategy else {}
        members = able_members(view, unable)
        rows = _by_strategy(view, name, parameters, members)
        even = strategies.even_is_best(name, parameters, members)
    change = change_of(view, name, rows, unable, even_is_best=even)
    return Target(rows=rows, change=replace(change, waiting=waiting))


def _by_strategy(
    view: GroupRead, strategy: str, parameters: Mapping[str, Any], members: tuple[Member, ...]
) -> dict[str, TargetRow]:
    settings = settings_of(view)
    topics = {settings.stream: settings.partitions}
    run = strategies.get(strategy, with_measured(parameters, partial(_measured, view)))
    assigned = run(StrategyInput(members=members, topics=topics))
    if any(member.unserved for member in members):
        assigned = exchanged(assigned, members, zones_bind=strategies.KINDS[strategy].zones_bind)
    return {
        member: TargetRow(
            target_epoch=view.meta.group_epoch, active=frozenset(assigned.get(member, ()))
        )
        for member in sorted(view.members)
    }


def _measured(view: GroupRead) -> list[float]:
    """[partitions] events so far: what each partition weighs as far as the group has counted."""
    applied = (view.applied.get(p) for p in settings_of(view).all_partitions())
    return [float(a.total) if a else 0.0 for a in applied]


def _by_planner(view: GroupRead, unable: Mapping[str, str]) -> tuple[dict[str, TargetRow], int]:
    assignment = planner.plan(view_of(view, unable))
    return planner.target_rows(assignment, view.meta.group_epoch), assignment.waiting
