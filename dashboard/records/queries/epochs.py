"""Epochs as moments of a group's history: what the time machine stops at, and what each changed."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from assignment import maps
from assignment.ownership import OwnershipMap
from dashboard.models import Group, Rebalance
from dashboard.records.queries.pages import narrowed
from dashboard.records.queries.rebalances import LARGE

TICKS_EACH_WAY = 60  # drawn beside the moment shown
ROUNDS_MAX = 200  # between two epochs, looked through for why a partition moved


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrubber:
    """`ticks`: epochs around the moment, oldest first; `at`: the one that held then; `newest`: the
    group's newest incarnation.
    """

    ticks: Sequence[Rebalance]
    at: Rebalance | None
    earlier: Rebalance | None
    later: Rebalance | None
    newest: int


def name_of(row: Rebalance, newest_incarnation: int) -> str:
    """As an address has it: 41, or 2.41 where Redis has counted anew since."""
    plain = row.incarnation == newest_incarnation
    return str(row.target_epoch) if plain else f"{row.incarnation}.{row.target_epoch}"


def named(group: Group, incarnation: int | None, target_epoch: int) -> Rebalance | None:
    """Without an incarnation that of the newest which has such an epoch. Its maps are left out."""
    rows = group.rebalances.filter(target_epoch=target_epoch)
    return _light(narrowed(rows, incarnation=incarnation)).first()


def newest_incarnation(group: Group) -> int:
    return group.rebalances.values_list("incarnation", flat=True).first() or 0


def scrubber(group: Group, at_ms: int, shown: Rebalance | None) -> Scrubber:
    """`shown`: the epoch that was asked for. Beside it are the epochs before and after; beside a
    moment those that ended before and after.
    """
    rows, pivot_ms = _light(group.rebalances.all()), shown.at_ms if shown else at_ms
    before = rows.filter(at_ms__lte=pivot_ms).order_by("-at_ms", "-pk")[: TICKS_EACH_WAY + 1]
    after = list(rows.filter(at_ms__gt=pivot_ms).order_by("at_ms", "pk")[:TICKS_EACH_WAY])
    ticks = [*reversed(before), *after]
    newest = max((row.incarnation for row in ticks), default=0)
    if len(after) == TICKS_EACH_WAY:  # there are more
        newest = newest_incarnation(group)
    held = shown or next((row for row in ticks[::-1] if row.at_ms <= at_ms), None)
    if shown is None:
        ended = [(row, row.finished_at_ms) for row in ticks if row.finished_at_ms is not None]
        earlier = next((row for row, ended_ms in ended[::-1] if ended_ms < at_ms), None)
        later = next((row for row, ended_ms in ended if ended_ms > at_ms), None)
    else:
        place = next((i for i, row in enumerate(ticks) if row.pk == shown.pk), 0)
        earlier = ticks[place - 1] if place else None
        later = next(iter(ticks[place + 1 :]), None)
    return Scrubber(ticks=ticks, at=held, earlier=earlier, later=later, newest=newest)


def _light(rows: QuerySet[Rebalance]) -> QuerySet[Rebalance]:
    return rows.defer(*LARGE)


# --- two epochs -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """`why`: the last round between both that gave it to whom it went; None: no round did."""

    number: int
    before: str | None
    after: str | None
    why: Rebalance | None


def moved(before: OwnershipMap, after: OwnershipMap) -> list[maps.Move]:
    return maps.moves(before.owners(), after.owners())


def explained(
    group: Group, moves: Sequence[maps.Move], first: Rebalance, then: Rebalance
) -> list[Moved]:
    """Of a part of all moves: by the targets of the rounds after `first`, until `then`."""
    wanted = {(move.number, move.after) for move in moves}
    causes: dict[tuple[int, str | None], Rebalance] = {}
    rounds = group.rebalances.filter(_after(first)).exclude(_after(then))
    for row in rounds.defer("replicas", "causes")[:ROUNDS_MAX]:
        for number, _, owner in row.moves():
            if (number, owner) in wanted:
                causes.setdefault((number, owner), row)
    return [
        Moved(number=n, before=old, after=new, why=causes.get((n, new))) for n, old, new in moves
    ]


def _after(row: Rebalance) -> Q:
    later = Q(incarnation=row.incarnation, target_epoch__gt=row.target_epoch)
    return later | Q(incarnation__gt=row.incarnation)
