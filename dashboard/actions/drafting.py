"""What a plan would say: computed on one reading of the group, changing nothing.

What is asked and where the group stands come from the same reading, so that a plan fits exactly
the group that its moves were computed for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from assignment.coordinator import switching
from assignment.coordinator.approved import base_of
from assignment.coordinator.planning import Target, target_of
from assignment.coordinator.reading import settings_of
from assignment.coordinator.record import Change, Move
from assignment.scripts.group_read import GroupRead
from assignment.types import Coordination, Drain, TargetRow
from assignment.wire import TARGET_ROLES
from dashboard.actions import coordination as switches
from dashboard.actions import groups, preview, scale_down
from dashboard.actions.sizes import state_bytes
from dashboard.models import Group, PlanKind
from dashboard.records.audit import By
from dashboard.records.planned import Content
from dashboard.records.queries import plans as queries

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A plan's content without who proposes it, and the change that it is shown by. `at_ms`: of
    Redis' clock, when the group was read.
    """

    kind: PlanKind
    inputs: Json
    base: Mapping[str, int]
    at_ms: int
    change: Change | None = None
    rows: Mapping[str, TargetRow] = field(default_factory=dict)
    metrics: Json = field(default_factory=dict)

    def content(
        self,
        group: Group,
        by: By,
        *,
        expires_at_ms: int,
        needs_approval: bool,
    ) -> Content:
        change = self.change
        return Content(
            group=group.identity,
            kind=self.kind.value,
            inputs=self.inputs,
            base=self.base,
            proposed_by=by.actor,
            reason=by.kept_reason,
            proposed_at_ms=queries.now_ms(),
            expires_at_ms=expires_at_ms,
            needs_approval=needs_approval,
            strategy=change.strategy if change else "",
            rows={member: _numbers(row) for member, row in sorted(self.rows.items())},
            unable=dict(change.unable) if change else {},
            moves=_moves(change.moves) if change else [],
            learning=_moves(change.learning) if change else [],
            metrics=self.metrics,
        )


def _numbers(row: TargetRow) -> dict[str, list[int]]:
    return {role: sorted(p.number for p in getattr(row, role)) for role in TARGET_ROLES}


def _moves(moves: Iterable[Move]) -> list[list[Any]]:
    return [[move.partition.number, move.giver, move.taker] for move in moves]


def epochs_of(view: GroupRead) -> dict[str, int]:
    return base_of(view)._asdict() | {"mode_epoch": view.meta.mode_epoch}


# --- the kinds ------------------------------------------------------------------------------------


def rebalance(group: Group, strategy: str, parameters: Mapping[str, Any] | None) -> Draft:
    """Raises InvalidInput, StoreUnavailable."""
    view = preview.read(group)
    target = target_of(view, strategy, parameters)
    inputs = {"strategy": strategy, "parameters": dict(parameters or {})}
    return _with_target(group, view, PlanKind.REBALANCE, inputs, target)


def strategy_change(group: Group, strategy: str, parameters: Mapping[str, Any]) -> Draft:
    """The group's own strategy from then on, with its first target. Raises InvalidInput, Refused
    (the group is stateful, or has it already), StoreUnavailable.
    """
    changes = {"strategy": strategy, "strategy_parameters": dict(parameters)}
    if group.values.stateful:
        raise groups.Refused(f"group {group.name} is stateful: it uses no strategy")
    if not changes_strategy(group, changes):
        raise groups.Refused(f"{strategy} with these parameters is the group's strategy already")
    return settings_change(group, changes)


def changes_strategy(group: Group, changes: Mapping[str, Any]) -> bool:
    """Whether other settings give another target because another strategy makes it. Raises
    InvalidInput.
    """
    before, after = group.values, groups.checked({**group.settings, **changes})
    if before.stateful or after.stateful:
        return False
    own, new = ((s.strategy, s.strategy_parameters) for s in (before, after))
    return own != new


def settings_change(group: Group, changes: Mapping[str, Any]) -> Draft:
    """A strategy, and what else is to be changed with it. Raises InvalidInput, Refused,
    StoreUnavailable.
    """
    view = preview.read(group)
    settings = groups.checked({**group.settings, **changes})
    if settings_of(view) != group.values:
        raise groups.Refused("Redis has not been told the group's settings yet: try again")
    changed = replace(view, meta=replace(view.meta, settings=settings))
    named = {"strategy": settings.strategy, "strategy_parameters": settings.strategy_parameters}
    others = {name: value for name, value in changes.items() if group.settings.get(name) != value}
    inputs = {**others, **named, "settings": settings.values()}
    return _with_target(group, view, PlanKind.STRATEGY, inputs, target_of(changed))


def drain(group: Group, asked: preview.Asked, how: scale_down.How, *, force_all: bool) -> Draft:
    """Its rows are none: what members learn and when is the rounds' own. The moves are those of the
    first round. Raises InvalidInput, Refused, StoreUnavailable.
    """
    view = preview.read(group)
    leave, refused = preview.leavers(view, asked, force_all=force_all)
    if refused := preview.refusal(group) or refused:
        raise groups.Refused(refused)
    told = {m: replace(view.members[m], drain=Drain.LEAVING) for m in leave}
    leaving = replace(view, members={**view.members, **told})
    inputs = {
        "members": list(leave),
        "percent": asked.percent,
        "timeout_ms": how.limit,
        "at_deadline": how.at_deadline.value,
        "eager": how.eager,
        "force_all": force_all,
    }
    found = _with_target(group, view, PlanKind.SCALE_DOWN, inputs, target_of(leaving))
    return replace(found, rows={})


def switch(group: Group, mode: Coordination, expected: int) -> Draft:
    """Nothing moves. `expected`: the mode epoch that was looked at, over which alone it switches.
    Raises Refused, StoreUnavailable.
    """
    view = preview.read(group)
    ticked = switches.is_ticked(group.name)
    if why := switching.why_not(view, mode, expected=expected, is_ticked=ticked):
        raise groups.Refused(f"group {group.name!r}: {why}")
    return Draft(
        kind=PlanKind.COORDINATION,
        inputs={"mode": mode.value},
        base=epochs_of(view) | {"mode_epoch": expected},
        at_ms=view.now_ms,
    )


def _with_target(
    group: Group, view: GroupRead, kind: PlanKind, inputs: Json, target: Target
) -> Draft:
    return Draft(
        kind=kind,
        inputs=inputs,
        base=epochs_of(view),
        at_ms=view.now_ms,
        change=target.change,
        rows=target.rows,
        metrics=metrics_of(group, view, target.change, queries.pause_ms_per_move(group)),
    )


def metrics_of(
    group: Group, view: GroupRead, change: Change, pause_ms_per_move: float | None
) -> Json:
    """None where nobody knows. `pause_ms` is of all moves together, as ownership_gap_ms is, those
    by learners too.
    """
    moves, all_moves = len(change.moves), len(change.moves) + len(change.learning)
    pause_ms = None if pause_ms_per_move is None else round(pause_ms_per_move * all_moves)
    return {
        "moves": moves,
        "learning": len(change.learning),
        "waiting": change.waiting,
        "kept": change.movement.kept,
        "avoidable": change.movement.avoidable_moves,
        "stickiness": change.movement.stickiness,
        "balance_before": change.balance_degree_before,
        "balance_after": change.balance_degree,
        "max_minus_min": change.max_minus_min,
        "score": change.score,
        "missing_standbys": change.missing_standbys,
        "pause_ms": pause_ms if all_moves else 0,
        "state_bytes": state_bytes(group.name, view, change) if group.values.stateful else 0,
    }
