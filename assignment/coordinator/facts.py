"""The few records that count for a decision, as values; whoever keeps them makes them of its own.

Times are whole milliseconds of Redis' clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from assignment.coordinator.approved import Approved
from assignment.coordinator.incarnation import Known
from assignment.coordinator.record import Cause, Change
from assignment.pauses import Pauses
from assignment.scripts.agent_side import SnapshotRecord
from assignment.types import (
    NO_EPOCH,
    Coordination,
    Epoch,
    GroupSettings,
    Offset,
    Partition,
    Reason,
    TargetRow,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord(Known):
    """A group as it is configured. `settings` None: the database is away, Redis' own stand."""

    name: str
    settings: GroupSettings | None
    coordination: Coordination = Coordination.SERVER
    mode: Epoch = NO_EPOCH  # under which that was kept
    identity: str = ""  # by which Redis knows it as this database's
    pauses: Pauses = field(default_factory=Pauses)  # as people set them last


@dataclass(frozen=True, slots=True)
class Hint:
    """An entry of `control`: why the group_epoch became what it is."""

    reason: Reason
    epoch: int
    member_id: str
    at_ms: int


class Lifted(NamedTuple):
    """`early`: entries whose ids were used before, which nobody plans. `events`: that the stream
    ever had; None: not all came through the producer library.
    """

    early: int
    events: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """What a Redis that forgot the group is given back; the highest numbers that were recorded."""

    target_epoch: int
    event_seq: int
    snapshots: Mapping[Partition, SnapshotRecord]  # the newest
    offsets: Mapping[Partition, Offset]  # the highest that any group of the stream committed
    target: Mapping[str, TargetRow] = field(default_factory=dict)  # the last one, each member's row
    broken: frozenset[Partition] = frozenset()  # whose snapshot cannot be read any more


# --- members --------------------------------------------------------------------------------------


class StayEnd(StrEnum):
    LEFT = "left"
    LOST = "lost"
    FORCED = "forced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """From a member's join until it is gone; one that joins anew gets another."""

    member_id: str
    joined_at_ms: int
    left_at_ms: int | None = None
    end: StayEnd | None = None
    host: str = ""
    version: str = ""
    application: str = ""


# --- rebalances -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A plan's rebalance: by its target, and by no other."""

    pk: int
    approved: Approved


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRecord:
    """What is kept of a target: with it its record can be made at any later time."""

    at_ms: int
    detect_ms: int
    cause: Reason
    causes: tuple[Cause, ...]  # all that gathered
    requests: tuple[int, ...]  # that it answers
    stateful: bool
    partitions: int
    rows: Mapping[str, TargetRow]
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The newest target. `finished_at_ms` None: what is held is not its target yet. `learning`:
    partitions that are to change hands in a later round.
    """

    pk: int
    incarnation: int
    target_epoch: int
    at_ms: int
    detect_ms: int
    moved: int = 0
    learning: int = 0
    finished_at_ms: int | None = None


class Open(NamedTuple):
    """A rebalance that has not ended. `since_ms`: when its first cause came."""

    pk: int  # of its first round
    since_ms: int


class Ended(NamedTuple):
    """A rebalance of which nothing is left to move or to learn. `gap_ms` None: not known."""

    pk: int  # of its first round
    gap_ms: int | None


@dataclass(frozen=True, slots=True)
class Moments:
    """When the parts of a rebalance ended; each at least the one before."""

    stored: int
    delivered: int
    revoked: int
    acquired: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenures:
    """Since a moment: the last start and the last end, 0 without one. `begun`: of each that began,
    its start and the end of the partition's tenure before it, at the earliest that moment; None
    without one.
    """

    last_start_ms: int
    last_end_ms: int
    begun: tuple[tuple[int, int | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    pk: int
    finished_at_ms: int
    moved: frozenset[int]  # numbers of partitions


# --- scale-downs ----------------------------------------------------------------------------------


class Outcome(StrEnum):
    HERE = ""
    CLEAN = "clean"
    FORCED = "forced"
    DIED = "died"
    CANCELLED = "cancelled"


class State(StrEnum):
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaver:
    """`forced`: told to go at once."""

    outcome: Outcome = Outcome.HERE
    at_ms: int | None = None
    forced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDown:
    """Members that were told to leave, and what each did (learners.md S9)."""

    pk: int
    asked_at_ms: int
    told_at_ms: int | None = None  # None: Redis was not told yet
    timeout_ms: int | None = None  # from told_at_ms on; None: no limit
    aborts: bool = False  # when its time is up; else who is left is forced
    state: State = State.RUNNING
    ended_at_ms: int | None = None
    members: Mapping[str, Leaver]

    @property
    def remaining(self) -> list[str]:
        """Members that are still here, as far as the record knows; ascending."""
        return sorted(m for m, leaver in self.members.items() if not leaver.outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDowns:
    """All of a group have one version: every change of any of them makes another."""

    version: int
    records: tuple[ScaleDown, ...]

    @property
    def running(self) -> ScaleDown | None:
        return next((r for r in self.records if r.state is State.RUNNING), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """For the audit: what the rules did by themselves."""

    action: str
    reason: str
    after: Mapping[str, object]
