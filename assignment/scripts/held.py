"""Who was granted each partition, who has it locked, and who says to hold it: rows in arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from assignment.bounds import MOMENT_MAX, WHOLE_MAX
from assignment.columns import Flags, Numbers, Places, Rows, numbered, whole_numbers, wholes
from assignment.scripts.values import Columns, fields_of, parts_of
from assignment.types import Grant, Held, HeldState, Partition
from assignment.wire import parse_held

STATES = tuple(HeldState)
_STATE_OF = {state.value: place for place, state in enumerate(STATES)}
LASTS = "-"  # how a grant that lasts has ended


@dataclass(frozen=True, slots=True)
class Lock:
    member_id: str
    fence: int
    left_ms: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Grants(Rows[Grant]):
    """`member` [n]: index of `names`; `fence`, `until_ms` and `ended` [n] as in Grant."""

    places: Places
    names: tuple[str, ...]
    member: Numbers
    fence: Numbers
    until_ms: Numbers
    ended: Sequence[str | None]

    @classmethod
    def parse(cls, rows: Columns) -> Self:
        """Raises what is in UNREADABLE."""
        fences, members, untils, ended = fields_of(rows.values, 4)
        names, member = numbered(members)
        return cls(
            places=Places.parse(rows.names),
            names=names,
            member=member,
            fence=wholes(list(map(int, fences))),
            until_ms=wholes(list(map(int, untils)), MOMENT_MAX + 1),
            ended=[None if how == LASTS else how for how in ended],
        )

    @classmethod
    def of(cls, grants: Mapping[Partition, Grant]) -> Self:
        if isinstance(grants, cls):
            return grants
        names, member = numbered([one.member_id for one in grants.values()])
        return cls(
            places=Places.of(grants),
            names=names,
            member=member,
            fence=np.array([one.fence for one in grants.values()], np.int64),
            until_ms=np.array([one.until_ms for one in grants.values()], np.int64),
            ended=[one.ended for one in grants.values()],
        )

    @cached_property
    def lasts(self) -> Flags:
        """[n] which have not ended."""
        return np.array([how is None for how in self.ended], np.bool_)

    def value(self, row: int) -> Grant:
        return Grant(
            fence=int(self.fence[row]),
            member_id=self.names[self.member[row]],
            until_ms=int(self.until_ms[row]),
            ended=self.ended[row],
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Locks(Rows[Lock]):
    """The live ones. `member` [n]: index of `names`; `fence` and `left_ms` [n] as in Lock."""

    places: Places
    names: tuple[str, ...]
    member: Numbers
    fence: Numbers
    left_ms: Numbers

    @classmethod
    def parse(cls, locks: Sequence[bytes | None], grants: Grants, now_ms: int) -> Self:
        """One for each grant, in their order. Raises what is in UNREADABLE."""
        rows = np.flatnonzero([lock is not None for lock in locks])
        members, fences = fields_of([lock for lock in locks if lock is not None], 2, "/")
        names, member = numbered(members)
        granted = grants.places
        return cls(
            places=Places(granted.stream, granted.number[rows], granted.others),
            names=names,
            member=member,
            fence=wholes(list(map(int, fences))),
            left_ms=np.maximum(0, grants.until_ms[rows] - now_ms),
        )

    @classmethod
    def of(cls, locks: Mapping[Partition, Lock]) -> Self:
        if isinstance(locks, cls):
            return locks
        names, member = numbered([one.member_id for one in locks.values()])
        return cls(
            places=Places.of(locks),
            names=names,
            member=member,
            fence=np.array([one.fence for one in locks.values()], np.int64),
            left_ms=np.array([one.left_ms for one in locks.values()], np.int64),
        )

    def value(self, row: int) -> Lock:
        member, fence = self.names[self.member[row]], int(self.fence[row])
        return Lock(member, fence, int(self.left_ms[row]))


@dataclass(frozen=True, eq=False, kw_only=True)
class Holdings(Rows[Held]):
    """What one member says to hold: `fence` [n], `state` [n] as index of STATES."""

    places: Places
    fence: Numbers
    state: Numbers

    @classmethod
    def parse(cls, owned: Mapping[str, str]) -> Self:
        """Partition -> "fence state". Raises InvalidInput that names what is wrong."""
        try:
            fences, states = parts_of("\n".join(owned.values()), len(owned), 2)
            state = np.array(list(map(_STATE_OF.__getitem__, states)), np.int64)
        except (ValueError, KeyError):
            return cls._one_by_one(owned)
        fence = whole_numbers(",".join(fences), len(fences))
        if fence is None or fence.max() >= WHOLE_MAX:
            return cls._one_by_one(owned)
        return cls(places=Places.parse(list(owned)), fence=fence, state=state)

    @classmethod
    def _one_by_one(cls, owned: Mapping[str, str]) -> Self:
        """Says which one is wrong, if one is."""
        return cls.of({Partition.parse(p): parse_held(text) for p, text in owned.items()})

    @classmethod
    def of(cls, owned: Mapping[Partition, Held]) -> Self:
        if isinstance(owned, cls):
            return owned
        return cls(
            places=Places.of(owned),
            fence=np.array([one.fence for one in owned.values()], np.int64),
            state=np.array([STATES.index(one.state) for one in owned.values()], np.int64),
        )

    @cached_property
    def highest(self) -> int:
        """Of the fences; 0: there are none."""
        return int(self.fence.max(initial=0))

    def value(self, row: int) -> Held:
        return Held(fence=int(self.fence[row]), state=STATES[self.state[row]])
