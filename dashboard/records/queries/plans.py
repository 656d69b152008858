"""Plans of a group, what they are to cost by its own history, and what became of their moves."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from django.db.models import Q, QuerySet
from django.utils import timezone

from assignment import maps
from dashboard.models import (
    Group,
    Plan,
    PlanKind,
    PlanState,
    Rebalance,
    RebalanceOutcome,
    RebalanceRequest,
    Tenure,
)
from dashboard.records.planned import WAITING, PlannedMove

PAGE = 50
PAUSES_OF = 20  # rebalances by which the next one's pause is predicted


def now_ms() -> int:
    """This machine's: of decisions and expiry. What runs is timed by Redis' clock."""
    return round(timezone.now().timestamp() * 1000)


def found(group: Group) -> QuerySet[Plan]:
    return group.plans.defer("packed").select_related("group")


def pause_ms_per_move(group: Group) -> float | None:
    """How long a partition that moved had no owner, on average over the group's newest rebalances
    that moved any; None before there were such.
    """
    rows = (
        group.rebalances.filter(outcome=RebalanceOutcome.DONE, moved__gt=0)
        .exclude(ownership_gap_ms=None)
        .values_list("ownership_gap_ms", "moved")[:PAUSES_OF]
    )
    known = [(gap_ms or 0, moved) for gap_ms, moved in rows]
    moved = sum(count for _, count in known)
    return sum(gap_ms for gap_ms, _ in known) / moved if moved else None


# --- actual against predicted ---------------------------------------------------------------------


class MoveOutcome(StrEnum):
    CONFIRMED = "confirmed"  # the lock was granted to whom the plan gave it
    UNCHANGED = "unchanged"  # who had it has it
    UNKNOWN = "unknown"  # somebody else got it, or the history does not tell
    NOT_ATTEMPTED = "not attempted"  # no target gave it to whom the plan would
    PENDING = "pending"  # the plan waits, or runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """`owner`: who had it last while the plan ran; "" nobody."""

    move: PlannedMove
    outcome: MoveOutcome
    owner: str = ""


def compared(plan: Plan, *, is_over: bool = False) -> list[Compared]:
    """Each move of a plan and what became of it. `is_over`: also while the row says it runs."""
    moves = plan.content.every_move
    if plan.started_at_ms is None:
        waits = plan.state in (PlanState.DRAFT, *WAITING)
        outcome = MoveOutcome.PENDING if waits else MoveOutcome.NOT_ATTEMPTED
        return [Compared(move=move, outcome=outcome) for move in moves]
    runs = plan.state == PlanState.RUNNING and not is_over
    tenures = _tenures(plan, {move.number for move in moves})
    given = set[tuple[int, str]]() if runs else _given(plan)
    is_dropped = plan.started_at_ms < plan.group.history_from_ms
    is_lost = is_dropped or plan.group.gaps.filter(at_ms__gte=plan.started_at_ms).exists()
    return [
        _compared(move, tenures.get(move.number, ()), plan, given, runs=runs, is_lost=is_lost)
        for move in moves
    ]


def counted(rows: Iterable[Compared]) -> dict[str, int]:
    return dict(Counter(row.outcome.value for row in rows))


def ended_as(counts: Mapping[str, int]) -> PlanState:
    confirmed = counts.get(MoveOutcome.CONFIRMED, 0)
    if confirmed == sum(counts.values()):
        return PlanState.DONE
    return PlanState.PARTLY_DONE if confirmed else PlanState.FAILED


def _compared(
    move: PlannedMove,
    tenures: Sequence[Tenure],
    plan: Plan,
    given: Collection[tuple[int, str]],
    *,
    runs: bool,
    is_lost: bool,
) -> Compared:
    since_ms = plan.started_at_ms or 0
    last = tenures[-1] if tenures else None
    owner = last.member_id if last and _lasts(last, plan.ended_at_ms) else ""
    is_done = not owner
    if move.taker:
        is_done = any(t.member_id == move.taker and t.started_ms >= since_ms for t in tenures)
    if is_done:
        outcome = MoveOutcome.CONFIRMED
    elif runs:
        outcome = MoveOutcome.PENDING
    elif is_lost:
        outcome = MoveOutcome.UNKNOWN
    elif (move.number, move.taker) not in given:
        outcome = MoveOutcome.NOT_ATTEMPTED
    else:
        outcome = MoveOutcome.UNCHANGED if owner == move.giver else MoveOutcome.UNKNOWN
    return Compared(move=move, outcome=outcome, owner=owner)


def _lasts(tenure: Tenure, until_ms: int | None) -> bool:
    """Beyond that moment; None: until now."""
    return tenure.ended_ms is None or (until_ms is not None and tenure.ended_ms > until_ms)


def _tenures(plan: Plan, numbers: Collection[int]) -> dict[int, list[Tenure]]:
    """While it ran, oldest first."""
    lasted = Q(ended_ms=None) | Q(ended_ms__gte=plan.started_at_ms)
    rows = plan.group.tenures.filter(lasted)
    if plan.ended_at_ms is not None:
        rows = rows.filter(started_ms__lte=plan.ended_at_ms)
    found: dict[int, list[Tenure]] = {}
    for row in rows.order_by("started_ms", "fence").iterator():
        if row.number in numbers:
            found.setdefault(row.number, []).append(row)
    return found


def rounds_of(plan: Plan) -> list[Rebalance]:
    """All that it began, oldest first."""
    if plan.started_at_ms is None:
        return []
    if plan.kind == PlanKind.SCALE_DOWN:
        rows = plan.group.rebalances.filter(at_ms__gte=plan.started_at_ms)
        if plan.ended_at_ms is not None:
            rows = rows.filter(at_ms__lte=plan.ended_at_ms)
        return list(rows.order_by("incarnation", "target_epoch"))
    request = RebalanceRequest.objects.filter(plan=plan).first()
    if request is None or request.rebalance is None:
        return []
    first = request.rebalance
    return [first, *first.later_rounds.order_by("incarnation", "target_epoch")]


def _given(plan: Plan) -> set[tuple[int, str]]:
    """(number, member) of every target that it began, and of who learned in it."""
    pairs: set[tuple[int, str]] = set()
    for row in rounds_of(plan):
        pairs |= {(number, owner or "") for number, owner in enumerate(row.owners())}
        if row.learning:
            roles: maps.Roles = row.roles
            pairs |= {(n, member) for member, of in roles.items() for n in of["learning"]}
    return pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Actual:
    """What all rounds of a plan came to; None: not known, or not over."""

    moves: int
    avoidable: int | None
    stickiness: float | None
    balance_after: float | None
    max_minus_min: int | None
    score: float | None
    pause_ms: int | None


def actual(plan: Plan) -> Actual | None:
    """None: nothing of it was published."""
    rounds = rounds_of(plan)
    if not rounds:
        return None
    first, last = rounds[0], rounds[-1]
    avoidable = [row.avoidable for row in rounds if row.avoidable is not None]
    gaps = [row.ownership_gap_ms for row in rounds if row.ownership_gap_ms is not None]
    gap_ms = sum(gaps) if len(gaps) == len(rounds) else first.whole.gap_in_all_ms
    return Actual(
        moves=sum(row.moved for row in rounds),
        avoidable=sum(avoidable) if len(avoidable) == len(rounds) else None,
        stickiness=first.stickiness,
        balance_after=last.balance_degree,
        max_minus_min=last.max_minus_min,
        score=last.score,
        pause_ms=gap_ms,
    )
