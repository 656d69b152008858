"""Pauses of a group: what people told to stand still, and how far each partition does.

Owners of what is paused keep their locks and plan nothing. Redis holds the pauses (set_pauses.lua);
next_batch leaves out what is paused, and its owner confirms by asking. Pure: no clock, no store.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from assignment.bounds import Line, Moment, Words
from assignment.errors import InvalidInput
from assignment.types import Partition

WHOLE_GROUP = "*"  # the scope of a pause that covers every partition, also one that comes later
PARTITIONS_MAX = 1_000  # paused individually: all are read with the group; more are a whole group


class PauseState(StrEnum):
    """How far a paused partition is (`pause_state` in _common.lua)."""

    PAUSED = "paused"  # its owner asked for a batch since, and was given none of it
    PAUSING = "pausing"  # a batch of it may be in hand, or its owner is too old to know pauses
    UNOWNED = "unowned"  # nobody has its lock; whoever gets it is told


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Who paused, when (by the dashboard's clock) and why."""

    actor: Line
    reason: Words
    at_ms: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """All of a group, which have one version: every change makes another. `group`: of the whole
    group, also of partitions that appear later; `partitions`: of single ones, besides.
    """

    version: int = 0
    group: Pause | None = None
    partitions: Mapping[Partition, Pause] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.group is not None or bool(self.partitions)

    def of(self, partition: Partition) -> Pause | None:
        """What keeps it from being planned: its own pause before that of the group."""
        return self.partitions.get(partition) or self.group

    def with_group(self, pause: Pause) -> "Pauses":
        """The same when the group is paused already: who was first stands."""
        return self if self.group else replace(self, version=self.version + 1, group=pause)

    def without_group(self) -> "Pauses":
        """Partitions that were paused individually stay so."""
        return replace(self, version=self.version + 1, group=None) if self.group else self

    def with_partitions(self, partitions: Collection[Partition], pause: Pause) -> "Pauses":
        """Raises InvalidInput: that would be too many."""
        new = {p: pause for p in partitions if p not in self.partitions}
        count = len(self.partitions) + len(new)
        if count > PARTITIONS_MAX:
            raise InvalidInput(
                f"{count} partitions paused individually are above {PARTITIONS_MAX}:"
                " pause the group"
            )
        together = {**self.partitions, **new}
        return replace(self, version=self.version + 1, partitions=together) if new else self

    def without_partitions(self, partitions: Collection[Partition]) -> "Pauses":
        """Raises InvalidInput: one is paused with the whole group."""
        if self.group and (held := sorted(p for p in partitions if p not in self.partitions)):
            raise InvalidInput(f"{held[0]} is paused with the whole group: resume the group")
        left = {p: one for p, one in self.partitions.items() if p not in partitions}
        if len(left) == len(self.partitions):
            return self
        return replace(self, version=self.version + 1, partitions=left)


def states_of(
    pauses: Pauses,
    partitions: Iterable[Partition],
    fences: Mapping[Partition, int],
    confirmed: Mapping[Partition, int],
) -> dict[Partition, PauseState]:
    """Of those that are paused. `fences`: of the live locks; `confirmed`: the hash `paused`."""
    states = {}
    for partition in partitions:
        if pauses.of(partition) is None:
            continue
        fence = fences.get(partition)
        if fence is None:
            states[partition] = PauseState.UNOWNED
        else:
            is_told = confirmed.get(partition) == fence
            states[partition] = PauseState.PAUSED if is_told else PauseState.PAUSING
    return states


def progress_of(states: Mapping[Partition, PauseState]) -> str:
    """For people: "paused", or "pausing (2 of 6)" until every owner confirmed; "" of none."""
    if not states:
        return ""
    counts = Counter(states.values())
    if not counts[PauseState.PAUSING]:
        return PauseState.PAUSED.value
    return f"{PauseState.PAUSING} ({len(states) - counts[PauseState.PAUSING]} of {len(states)})"
