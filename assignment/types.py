"""Frozen values of the core: what a group is, what its members say, and who should own what.

Knows nothing of Redis, HTTP, Django or clocks. Times are whole milliseconds of the Redis server's
clock (`*_ms`).
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Annotated, Any, NamedTuple, Self, TypeVar

import msgspec

from assignment.bounds import Rate, Whole, Words, shown
from assignment.errors import InvalidInput
from assignment.names import NAME_MAX as NAME_MAX  # noqa: PLC0414
from assignment.names import NAME_PATTERN as NAME_PATTERN  # noqa: PLC0414
from assignment.names import PARTITIONS_MAX as PARTITIONS_MAX  # noqa: PLC0414
from assignment.names import Partition as Partition  # noqa: PLC0414
from assignment.names import valid_name as valid_name  # noqa: PLC0414
from assignment.reasons import NOT_A_CAUSE as NOT_A_CAUSE  # noqa: PLC0414
from assignment.reasons import Reason as Reason  # noqa: PLC0414
from assignment.settings import GroupSettings as GroupSettings  # noqa: PLC0414

INCARNATION_STEP = 2**32  # a fence is incarnation * 2^32 + counter (coordination.md section 2)
OFFSET_PATTERN = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")
T = TypeVar("T")


def read_as(kind: type[T], values: Any, *, from_texts: bool = False) -> T:
    """What JSON gave, or a hash of Redis, whose numbers are texts. Unknown names are left out.

    Raises InvalidInput that names what is wrong.
    """
    try:
        return msgspec.convert(values, kind, strict=not from_texts)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{kind.__name__}: {error}") from error


def speaker_of(member_id: str, process: str) -> str:
    """As a process names itself where only the last one that joined may speak for its member:
    "member", or "member@process" under an instance name.
    """
    return f"{member_id}@{process}" if process else member_id


ID_PART_MAX = 2**64  # below it is each of the two numbers of an id


class Offset(NamedTuple):
    """Id of a stream entry, `ms-seq`, ordered as two integers.

    The committed offset is the last entry whose effects are stored.
    """

    ms: int
    seq: int

    def __str__(self) -> str:
        return f"{self.ms}-{self.seq}"

    @classmethod
    def parse(cls, text: str) -> Self:
        ms, _, seq = text.partition("-")
        if not OFFSET_PATTERN.fullmatch(text):
            raise InvalidInput(f"offset {shown(text)} is not of the form ms-seq")
        found = cls(int(ms), int(seq))
        if max(found) >= ID_PART_MAX:  # Redis refuses every other id
            raise InvalidInput(f"offset {shown(text)} has a number above 64 bits")
        return found

    @property
    def next(self) -> "Offset":
        """No id lies between them."""
        fits = self.seq + 1 < ID_PART_MAX
        return Offset(self.ms, self.seq + 1) if fits else Offset(self.ms + 1, 0)


START = Offset(0, 0)


class Epoch(NamedTuple):
    """A number with the incarnation under which it was counted; ordered as that pair.

    A Redis that lost writes counts the same numbers again, but never under an incarnation that
    stands already: whatever is compared anywhere is compared so (coordination.md section 8).
    """

    incarnation: int
    number: int


NO_EPOCH = Epoch(0, 0)


class HeldState(StrEnum):
    """What a member is doing with a partition whose lock it holds."""

    RESTORING = "restoring"  # state is being brought to the committed offset; not processed yet
    RUNNING = "running"
    REVOKING = "revoking"  # left out of the next batch; the batch in hand may still commit
    REVOKED = "revoked"  # no batch holds it any more: may be released


class Role(StrEnum):
    OWNER = "owner"
    STANDBY = "standby"
    LEARNER = "learner"


class Claim(NamedTuple):
    """A partition under the fence with which it was granted."""

    partition: Partition
    fence: int


class Range(NamedTuple):
    """What one batch has of one partition: the entries in (from, to], owned under the fence.

    `replication_id`: of the server that they were planned from.
    """

    partition: Partition
    from_offset: Offset
    to_offset: Offset
    fence: int
    replication_id: str = ""

    def name(self, batch: str) -> str:
        """Under which its counts are stored: no other batch ever has it."""
        return f"{batch} {self.partition} {self.fence} {self.from_offset} {self.to_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One participant as the coordinator sees it: its row in `members`, its beat and its report."""

    member_id: str
    joined_at_ms: int = 0
    instance_id: str | None = None
    zone: str = ""
    capacity: float = 1.0
    subscription: frozenset[str] | None = None  # streams; None = every stream of the group
    owned: Mapping[Partition, int] = field(default_factory=dict)  # partition -> fence, as reported
    unserved: frozenset[Partition] = frozenset()  # it cannot serve these now


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRow:
    """What one member should hold, and the epoch that it was made for.

    `incarnation`: the one under which it was stored; 0 until it is.
    """

    target_epoch: int
    incarnation: int = 0
    active: frozenset[Partition] = frozenset()
    standby: frozenset[Partition] = frozenset()
    learning: frozenset[Partition] = frozenset()

    @property
    def epoch(self) -> Epoch:
        return Epoch(self.incarnation, self.target_epoch)

    @property
    def twice(self) -> frozenset[Partition]:
        """Those with two roles, which none may have."""
        return (self.active & self.standby) | ((self.active | self.standby) & self.learning)


def refuse_two_owners(rows: Mapping[str, TargetRow]) -> None:
    """InvalidInput names a partition that is active in several rows, and their members."""
    counts = Counter(chain.from_iterable(row.active for row in rows.values()))
    if len(counts) < counts.total():
        partition = min(p for p, count in counts.items() if count > 1)
        owners = sorted(member for member, row in rows.items() if partition in row.active)
        raise InvalidInput(f"{partition} has two owners: {', '.join(owners)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaReport:
    """What a member says of a replica of state that it keeps and does not own, also on the wire.

    `ready`: a standby that has caught up; a learner for which its member calls for a rebalance
    (learners.md L11, L12: under "stable" not before all of the member's learners are).
    """

    role: Role  # standby or learner
    # Events behind the committed offset; -1: not known yet.
    lag: Annotated[int, msgspec.Meta(ge=-1, lt=2**53)] = -1
    percent: Annotated[float, msgspec.Meta(ge=0, le=100)] = 0.0  # restored
    rate: Rate = 0.0  # events a second
    eta_ms: Whole | None = None  # until it has caught up, as far as can be told
    ready: bool = False
    why: Words = ""  # a trouble in one sentence, "" = none

    def __post_init__(self) -> None:
        if self.role is Role.OWNER:
            raise InvalidInput("role 'owner' of a replica is neither standby nor learner")


class UnableReason(StrEnum):
    """Why a member can own nothing now, as its agent says."""

    NOT_JOINED = "not joined"
    CONSUMER = "consumer"  # starting, stalled or dead
    WRONG_REDIS = "wrong redis"  # what it reads is not the Redis of its dashboard
    NO_RENEW = "no renew"
    UNSERVED = "unserved"  # too many partitions that cannot be served here
    NOT_ACQUIRED = "not acquired"  # assigned, free, and not granted all the same


class Coordination(StrEnum):
    """Who computes the target (coordination.md sections 3 and 4)."""

    SERVER = "server"
    CLIENT = "client"


class Drain(StrEnum):
    """What the dashboard asks of a member in a scale-down (learners.md S4, S5)."""

    NONE = ""
    LEAVING = "leaving"  # goes as soon as it owns nothing; gets nothing new
    FORCED = "forced"  # its time limit ran out: goes at once, within the grace


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The last granting of a partition.

    `ended` is None while it lasts, else how it ended; `until_ms` is its end so far.
    """

    fence: int
    member_id: str
    until_ms: int
    ended: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One partition in a member's hands."""

    fence: int
    state: HeldState
