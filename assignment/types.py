"""Frozen values of the core: what a group is, what its members say, and who should own what.

Knows nothing of Redis, HTTP, Django or clocks. Times are whole milliseconds of the Redis server's
clock (`*_ms`).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, Self, TypeVar

import msgspec

from assignment.bounds import Rate, Whole, Words, shown
from assignment.errors import InvalidInput
from assignment.kept import KEPT_LIMITS, check_masked, check_number

INCARNATION_STEP = 2**32  # a fence is incarnation * 2^32 + counter (coordination.md section 2)
NAME_MAX = 100  # characters
NAME_PATTERN = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_.-]{{0,{NAME_MAX - 1}}}")
NUMBER_PATTERN = re.compile(r"0|[1-9][0-9]{0,15}")
OFFSET_PATTERN = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")
PARSED_KEPT = 4_096  # names of partitions, which are read again and again
PARTITIONS_MAX = 100_000  # one group in the dashboard's dense mode (dashboard.md section 7)
T = TypeVar("T")


def read_as(kind: type[T], values: Any, *, from_texts: bool = False) -> T:
    """What JSON gave, or a hash of Redis, whose numbers are texts. Unknown names are left out.

    Raises InvalidInput that names what is wrong.
    """
    try:
        return msgspec.convert(values, kind, strict=not from_texts)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{kind.__name__}: {error}") from error


def valid_name(kind: str, name: str) -> str:
    """The name itself; InvalidInput when it could not be part of a key, a URL and a log line."""
    if not NAME_PATTERN.fullmatch(name):
        raise InvalidInput(
            f"{kind} {shown(name)} is not a name: letters, digits, '_', '.', '-', at most"
            f" {NAME_MAX}, first a letter or digit"
        )
    return name


def speaker_of(member_id: str, process: str) -> str:
    """As a process names itself where only the last one that joined may speak for its member:
    "member", or "member@process" under an instance name.
    """
    return f"{member_id}@{process}" if process else member_id


class Partition(NamedTuple):
    """The unit of ownership: one partition of one stream, from 0. Text form: `stream:number`."""

    stream: str
    number: int

    def __str__(self) -> str:
        return f"{self.stream}:{self.number}"

    @classmethod
    @lru_cache(PARSED_KEPT)
    def parse(cls, text: str) -> Self:
        stream, _, number = text.rpartition(":")
        if not NUMBER_PATTERN.fullmatch(number) or not NAME_PATTERN.fullmatch(stream):
            raise InvalidInput(f"partition {shown(text)} is not of the form stream:number")
        return cls(stream, int(number))


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
        if max(found) >= 2**64:  # Redis refuses every other id
            raise InvalidInput(f"offset {shown(text)} has a number above 64 bits")
        return found


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


class Reason(StrEnum):
    """Why something changed: of hints, targets and evictions; the scripts write the same words."""

    MANUAL = "manual"  # a person asked
    SCALE_DOWN = "scale-down"
    FORCED = "forced"
    CANCELLED = "cancelled"
    STATEFUL = "stateful"
    STRATEGY = "strategy"
    STANDBYS = "standbys"
    LEARNERS = "learners"
    PARTITIONS = "partitions"
    LOST = "member lost"
    LEAVE = "leave"
    LEAVING = "leaving"
    UNABLE = "unable"
    UNSERVED = "unserved"  # a partition that a member cannot serve
    JOIN = "join"
    ABLE = "able"
    READY = "ready"
    NEXT_ROUND = "next round"
    INCARNATION = "incarnation"  # Redis may have lost a target
    # NOT_A_CAUSE:
    TARGET = "target"
    RELEASED = "released"
    EXPIRED = "expired"
    REVOKED = "revoked"
    SETTINGS = "settings"
    MODE = "mode"  # who coordinates
    WIPED = "redis wiped"


# They tell agents something and change nothing that a plan depends on.
NOT_A_CAUSE = frozenset(
    (
        Reason.TARGET,
        Reason.RELEASED,
        Reason.EXPIRED,
        Reason.REVOKED,
        Reason.SETTINGS,
        Reason.MODE,
        Reason.WIPED,
    )
)


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
class GroupSettings:
    """Per-group configuration; defaults of coordination.md section 2. All times in ms."""

    stream: str
    partitions: int
    strategy: str = "sticky"
    strategy_parameters: Mapping[str, Any] = field(default_factory=dict)  # of that strategy
    lease_ms: int = 10_000
    renew_ms: int = 3_333
    heartbeat_ms: int = 3_000
    session_timeout_ms: int = 10_000
    instance_timeout_ms: int = 60_000  # a Spark consumer needs 10 to 20 s to start
    grace_ms: int = 8_000
    consumer_stall_ms: int = 60_000
    dead_letters: str = "keep"  # in the commit; halt: the partition stops at the malformed entry
    trimming: bool = True  # False in check runs: neither streams nor changelogs lose an entry
    events_kept_ms: int = 600_000  # since they were appended, though all groups have committed them
    events_kept_bytes: int = 64 * 2**20  # of the stream in memory, each partition its share
    masked_fields: str = ""  # of events, by comma: nobody is shown them
    # What follows counts in a stateful group only (learners.md; the names of KIP-429's first form).
    stateful: bool = False  # partitions keep state that a new owner must have before it goes on
    standby_replicas: int = 0  # kept replicas of each partition's state, on other members
    learners_max: int = 0  # at one time in the group; 0 = no limit
    acceptable_lag_records: int = 0  # a learner that is no further behind is ready
    learn_partial_rebalance: bool = True  # eager: each ready learner at once; False: all together
    scale_down_timeout_ms: int | None = None  # None: leaving members are waited for; 0: at once

    def __post_init__(self) -> None:
        valid_name("stream", self.stream)
        if not 1 <= self.partitions <= PARTITIONS_MAX:
            raise InvalidInput(f"partitions {self.partitions} is not within 1 and {PARTITIONS_MAX}")
        for name in TIMINGS:
            value = getattr(self, name)
            if not TIMING_MIN_MS <= value <= TIMING_MAX_MS:
                raise InvalidInput(
                    f"{name} {value} is not within {TIMING_MIN_MS} and {TIMING_MAX_MS}"
                )
        if self.lease_ms < 3 * self.renew_ms:
            raise InvalidInput(
                f"lease_ms {self.lease_ms} is below three times renew_ms {self.renew_ms}"
            )
        if self.session_timeout_ms > self.lease_ms:
            raise InvalidInput(
                f"session_timeout_ms {self.session_timeout_ms} is above lease_ms {self.lease_ms}"
            )
        if (policy := self.dead_letters) not in DEAD_LETTER_POLICIES:
            raise InvalidInput(f"dead_letters {policy!r} is not one of {DEAD_LETTER_POLICIES}")
        self._check_replicas()
        check_masked(self.masked_fields)
        self._check_parameters()

    def _check_parameters(self) -> None:
        """Their form only; what they mean is the strategy's to say."""
        if not isinstance(self.strategy_parameters, Mapping):
            raise InvalidInput(f"strategy_parameters {self.strategy_parameters!r} is no object")
        try:
            size = len(json.dumps(self.strategy_parameters, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(f"strategy_parameters cannot be written: {error}") from error
        if size > PARAMETERS_MAX:
            raise InvalidInput(f"strategy_parameters has {size} characters, above {PARAMETERS_MAX}")

    def _check_replicas(self) -> None:
        for name in ("stateful", "learn_partial_rebalance"):
            if not isinstance(value := getattr(self, name), bool):
                raise InvalidInput(f"{name} {value!r} is neither true nor false")
        for name, high in (REPLICA_LIMITS | KEPT_LIMITS).items():
            if name != "scale_down_timeout_ms" or self.scale_down_timeout_ms is not None:
                check_number(name, getattr(self, name), high)

    def all_partitions(self) -> tuple[Partition, ...]:
        return _all_partitions(self.stream, self.partitions)


@lru_cache(maxsize=4)  # a target asks four times, a preview does so for each strategy
def _all_partitions(stream: str, partitions: int) -> tuple[Partition, ...]:
    return tuple(Partition(stream, n) for n in range(partitions))


PARAMETERS_MAX = 65_536  # characters: they ride in the settings that every agent is told
TIMING_MIN_MS = 50
TIMING_MAX_MS = 3_600_000
DEAD_LETTER_POLICIES = ("keep", "halt")
REPLICA_LIMITS = {
    "standby_replicas": 10,  # each is the whole state once more, on disk and over the wire
    "learners_max": PARTITIONS_MAX,
    "acceptable_lag_records": 1_000_000_000,
    "scale_down_timeout_ms": 30 * 86_400_000,  # a drain of a month was forgotten
}
NOT_TIMINGS = {**REPLICA_LIMITS, **KEPT_LIMITS}
SETTING_NAMES = tuple(f.name for f in fields(GroupSettings))
TIMINGS = tuple(n for n in SETTING_NAMES if n.endswith("_ms") and n not in NOT_TIMINGS)


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
