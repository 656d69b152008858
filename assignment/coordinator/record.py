"""What a new target changes, and why: the record of one rebalance."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self, overload

import numpy as np

from assignment import metrics
from assignment.columns import NOBODY, Numbers, Owners, Places, counted
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


class Moves(Sequence[Move]):
    """As arrays; a Move is made when it is asked for. `number` [moves]: the partition's; `giver`
    and `taker` [moves]: indexes of names, the last of which is of nobody.
    """

    def __init__(
        self, stream: str, names: Sequence[str], number: Numbers, giver: Numbers, taker: Numbers
    ) -> None:
        self.stream, self.names = stream, names
        self.number, self.giver, self.taker = number, giver, taker

    @classmethod
    def between(cls, before: Owners, after: Owners) -> Self:
        """Of the same partitions and names."""
        number = np.flatnonzero(before.of != after.of)
        names = (*before.names, "")
        return cls(before.stream, names, number, before.of[number], after.of[number])

    @overload
    def __getitem__(self, place: int) -> Move: ...
    @overload
    def __getitem__(self, place: slice) -> "Moves": ...
    def __getitem__(self, place: int | slice) -> "Move | Moves":
        if isinstance(place, slice):
            parts = (self.number[place], self.giver[place], self.taker[place])
            return Moves(self.stream, self.names, *parts)
        giver, taker = (self.names[who[place]] for who in (self.giver, self.taker))
        return Move(Partition(self.stream, int(self.number[place])), giver, taker)

    def __len__(self) -> int:
        return len(self.number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The record of one rebalance. `before` and `after` name all members first, ascending.

    What follows `unable_members` is a stateful group's: `learning` has the partitions that change
    hands later (giver: who owns them until then), `waiting` those that learners_max holds back.
    """

    strategy: str
    causes: tuple[Cause, ...]
    before: Owners
    after: Owners
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

    @property
    def moves(self) -> Moves:
        """Every partition whose owner changes."""
        return Moves.between(self.before, self.after)


def change_of(
    view: GroupRead,
    strategy: str,
    rows: Mapping[str, TargetRow],
    unable: Mapping[str, str],
    *,
    even_is_best: bool = True,
) -> Change:
    """Of any target. `even_is_best` False: weights decided, so the least moves are not known."""
    settings, before = settings_of(view), owners_before(view)
    owners = np.full(settings.partitions, NOBODY, np.int64)
    for number, member in enumerate(sorted(view.members)):
        at = view.index.at(Places.of(rows[member].active))
        owners[at[at < settings.partitions]] = number
    change = Situation(view, unable, before).change(strategy, owners, even_is_best=even_is_best)
    standbys = Counter(p for row in rows.values() for p in row.standby)
    wanted = settings.standby_replicas if settings.stateful else 0
    return replace(
        change,
        learning=_learning(rows, change.after),
        standbys=standbys.total(),
        missing_standbys=sum(max(0, wanted - standbys[p]) for p in change.after) if wanted else 0,
    )


@dataclass(frozen=True)
class Situation:
    """What a group is in, whatever comes next. `before` names all members first, ascending."""

    view: GroupRead
    unable: Mapping[str, str]
    before: Owners

    @cached_property
    def causes(self) -> tuple[Cause, ...]:
        return _causes(self.view, self.unable)

    def change(self, strategy: str, owners: Numbers, *, even_is_best: bool) -> Change:
        """`owners` [partitions]: indexes of the members, ascending. Nobody keeps a replica."""
        before = self.before
        loads, loads_before = self._loads(owners), self._loads(before.of)
        return Change(
            strategy=strategy,
            causes=self.causes,
            before=before,
            after=Owners(before.stream, before.names, owners),
            movement=self._movement(owners, loads_before if even_is_best else None),
            loads=loads,
            balance_degree_before=metrics.balance_degree(loads_before.values()),
            balance_degree=metrics.balance_degree(loads.values()),
            max_minus_min=metrics.max_minus_min(loads.values()),
            max_over_mean=metrics.max_over_mean(loads.values()),
            score=metrics.score(loads.values()),
            unable=dict(self.unable),
        )

    def _loads(self, owners: Numbers) -> dict[str, int]:
        """Of those that may own."""
        members = sorted(self.view.members.items())
        counts = counted(owners, len(members))
        return {
            member: count
            for (member, row), count in zip(members, counts, strict=True)
            if member not in self.unable and not is_leaving(row)
        }

    def _movement(self, owners: Numbers, loads: Mapping[str, int] | None) -> metrics.Movement:
        """While others learn, more is kept than in any balanced assignment: then that is the best.
        `loads` before; None: equal counts were not the aim.
        """
        settings, owned = settings_of(self.view), self.before.of != NOBODY
        best = None if loads is None else metrics.most_kept(loads.values(), settings.partitions)
        kept = int((owned & (owners == self.before.of)).sum())
        if settings.stateful and best is not None:
            best = max(kept, best)
        return metrics.Movement(counted=int(owned.sum()), kept=kept, kept_best=best)


def _learning(rows: Mapping[str, TargetRow], owners: Owners) -> tuple[Move, ...]:
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
    index, grants = view.index, view.grants
    at = index.at(grants.places)
    open_to = grants.member[~index.mask(_given(view))[at]]
    holders = {grants.names[member] for member in np.unique(open_to).tolist()}
    return sorted(holders - view.members.keys())


def _partitions_changed(view: GroupRead) -> str:
    given, granted = _given(view), view.index.at(view.grants.places)
    size, known = settings_of(view).partitions, view.index.mask(given)
    removed = int(known[size:].sum())
    known[granted] = True
    added = size - int(known[:size].sum()) if len(given) else 0
    parts = [f"{added} added"] if added else []
    return ", ".join(parts + ([f"{removed} removed"] if removed else []))


def _given(view: GroupRead) -> Numbers:
    """By the stored target, to anybody."""
    return np.concatenate([np.zeros(0, np.int64), *view.given.values()])
