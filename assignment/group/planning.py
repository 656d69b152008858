"""The next target of a group, as values: what set_target should store."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from assignment import planner, strategies
from assignment.group.learners import view_of
from assignment.group.reading import able_members, settings_of, unable, waiting_for
from assignment.group.record import Change, change_of
from assignment.scripts import GroupRead
from assignment.strategies import StrategyInput
from assignment.types import TargetRow

PLANNER = "planner"  # in the place of a strategy's name: a stateful group has none to choose


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What set_target should store: epochs that were read, and a row for every member."""

    coordinator_epoch: int
    mode_epoch: int
    group_epoch: int
    rows: Mapping[str, TargetRow]
    change: Change


@dataclass(frozen=True, slots=True)
class Nothing:
    """No target is due."""

    reason: str


def next_target(view: GroupRead) -> Target | Nothing:
    """The target for the view's group_epoch. To be asked of a plan's view.

    Without any able member the rows are empty and every partition is unowned: a result, no error.
    """
    meta = view.meta
    if meta.group_epoch <= meta.target_epoch:
        return Nothing(f"nothing changed since epoch {meta.target_epoch}")
    if awaited := waiting_for(view):
        return Nothing(f"waiting for complete reports of {', '.join(awaited)}")
    return target_of(view, settings_of(view).strategy)


def target_of(view: GroupRead, strategy: str) -> Target:
    """The target that a strategy would give now, due or not: also the preview of a rebalance.

    A stateful group has none to choose: its target is the planner's (learners.md).
    """
    stateful, barred = settings_of(view).stateful, unable(view)
    rows, waiting = _by_planner(view, barred) if stateful else _by_strategy(view, strategy, barred)
    change = change_of(view, PLANNER if stateful else strategy, rows, barred)
    return Target(
        coordinator_epoch=view.meta.coordinator_epoch,
        mode_epoch=view.meta.mode_epoch,
        group_epoch=view.meta.group_epoch,
        rows=rows,
        change=replace(change, waiting=waiting),
    )


def _by_strategy(
    view: GroupRead, strategy: str, barred: Mapping[str, str]
) -> tuple[dict[str, TargetRow], int]:
    settings, members = settings_of(view), able_members(view, barred)
    topics = {settings.stream: settings.partitions}
    assigned = strategies.get(strategy)(StrategyInput(members=members, topics=topics))
    rows = {
        member: TargetRow(
            target_epoch=view.meta.group_epoch, active=frozenset(assigned.get(member, ()))
        )
        for member in sorted(view.members)
    }
    return rows, 0


def _by_planner(view: GroupRead, barred: Mapping[str, str]) -> tuple[dict[str, TargetRow], int]:
    assignment = planner.plan(view_of(view, barred))
    return planner.target_rows(assignment, view.meta.group_epoch), assignment.waiting
