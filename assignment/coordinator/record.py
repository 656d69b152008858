"""What a new target changes, and why: the record of one rebalance."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from assignment import metrics
from assignment.coordinator.reading import is_leaving, owners_before, settings_of
from assignment.scripts.group_read import GroupRead
from assignment.types import Partition, Reason, TargetRow


class Cause(NamedTuple):
    """Why there is a new target. One that was guessed from the view has no epoch and time."""

    reason: Reason
    member: str  # "": none; of PARTITIONS what changed
    epoch: int | None = None
    at_ms: int | None = None


class Move(NamedTuple):
    """`giver` is "" when nobody owned it, `taker` is "" when nobody gets it."""

    partition: Partition
    giver: str
    taker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The record of one rebalance. `moves` has every partition whose owner changes.

    What follows `unable_members` is a stateful group's: `learning` has the partitions that change
    hands later (giver: who owns them until then), `waiting` those that learners_max holds back.
    """

    strategy: str
    causes: tuple[Cause, ...]
    moves: tuple[Move, ...]
    movement: metrics.Movement
    loads: Mapping[str, int]  # of the members that stay and may own
    balance_degree_before: float | None
    balance_degree: float | None
    max_minus_min: int | None
    max_over_mean: float | None
    score: float | None
    unable: Mapping[str, str]
    learning: tuple[Move, ...] = ()
    waiting: int = 0
    standbys: int = 0
    missing_standbys: int = 0


def change_of(
    view: GroupRead,
    strategy: str,
    rows: Mapping[str, TargetRow],
    unable: Mapping[str, str],
    *,
    even_is_best: bool = True,
) -> Change:
    """`even_is_best` False: weights decided, so the least moves are not known."""
    settings, before = settings_of(view), owners_before(view)
    after = {p: member for member, row in rows.items() for p in row.active}
    may_own = [m for m, row in view.members.items() if m not in unable and not is_leaving(row)]
    loads = {m: len(rows[m].active) for m in sorted(may_own)}
    loads_before = Counter(before.values())
    standbys = Counter(p for row in rows.values() for p in row.standby)
    wanted = settings.standby_replicas if settings.stateful else 0
    return Change(
        strategy=strategy,
        causes=_causes(view, unable),
        moves=tuple(
            Move(p, before.get(p, ""), after.get(p, ""))
            for p in settings.all_partitions()
            if before.get(p) != after.get(p)
        ),
        movement=_movement(view, before, after, may_own if even_is_best else None),
        loads=loads,
        balance_degree_before=metrics.balance_degree([loads_before[m] for m in loads]),
        balance_degree=metrics.balance_degree(loads.values()),
        max_minus_min=metrics.max_minus_min(loads.values()),
        max_over_mean=metrics.max_over_mean(loads.values()),
        score=metrics.score(loads.values()),
        unable=dict(unable),
        learning=_learning(rows, after),
        standbys=standbys.total(),
        missing_standbys=sum(max(0, wanted - standbys[p]) for p in after),
    )


def _movement(
    view: GroupRead,
    before: Mapping[Partition, str],
    after: Mapping[Partition, str],
    may_own: Collection[str] | None,
) -> metrics.Movement:
    """While others learn, more is kept than in any balanced assignment: then that is the best."""
    settings = settings_of(view)
    found = metrics.movement(before, after, may_own, settings.partitions)
    if settings.stateful and found.kept_best is not None:
        return replace(found, kept_best=max(found.kept, found.kept_best))
    return found


def _learning(rows: Mapping[str, TargetRow], owners: Mapping[Partition, str]) -> tuple[Move, ...]:
    pairs = sorted((p, member) for member, row in rows.items() for p in row.learning)
    return tuple(Move(p, owners.get(p, ""), member) for p, member in pairs)


def _causes(view: GroupRead, unable: Mapping[str, str]) -> tuple[Cause, ...]:
    """Guessed from what differs from the stored target; a person's asking leaves no other trace."""
    found: list[Cause] = []
    for member, row in sorted(view.members.items()):
        given = view.target.get(member)
        if given is None:
            found.append(Cause(Reason.JOIN, member))
        elif member in unable and given.active:
            found.append(Cause(Reason.UNABLE, member))
        elif row.unserved & given.active:
            found.append(Cause(Reason.UNSERVED, member))
        elif is_leaving(row) and given.active:
            found.append(Cause(Reason.LEAVING if row.leaving else Reason.SCALE_DOWN, member))
        elif any(p in row.ready for p in given.learning):
            found.append(Cause(Reason.READY, member))
        elif member not in unable and row.able_at_ms > view.meta.target_at_ms > 0:
            found.append(Cause(Reason.ABLE, member))
    found += [Cause(Reason.LEAVE, member) for member in _gone(view)]
    if changed := _partitions_changed(view):
        found.append(Cause(Reason.PARTITIONS, changed))
    return tuple(found) or (Cause(Reason.MANUAL, ""),)


def _gone(view: GroupRead) -> list[str]:
    """Last holders of partitions that no row covers any more, and that are no members."""
    covered = {p for row in view.target.values() for p in row.active}
    holders = {g.member_id for p, g in view.grants.items() if p not in covered}
    return sorted(holders - view.members.keys())


def _partitions_changed(view: GroupRead) -> str:
    given = {p for row in view.target.values() for p in row.active}
    existing = settings_of(view).all_partitions()
    added = sum(p not in given and p not in view.grants for p in existing) if given else 0
    removed = len(given.difference(existing))
    parts = [f"{added} added"] if added else []
    return ", ".join(parts + ([f"{removed} removed"] if removed else []))
