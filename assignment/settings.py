"""What may be set of a group: each setting declared once, in the terms of setting.py."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, Self

from assignment.errors import InvalidInput
from assignment.names import PARTITIONS_MAX, Partition
from assignment.reasons import Reason
from assignment.setting import (
    AGENTS,
    CONSUMERS,
    COORDINATOR,
    DASHBOARD,
    EVERYBODY,
    Choice,
    Count,
    Duration,
    Flag,
    Name,
    Names,
    Parameters,
    Size,
    StrategyName,
    Timing,
    declared,
)

SCALE_DOWN_MAX_MS = 30 * 86_400_000  # a drain of a month was forgotten


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Per-group configuration; defaults of coordination.md section 2. What is added here with its
    declaration (setting.py) is in every form, body of the API, command, check and document of
    settings; to be gone by, it is read where it counts.
    """

    stream: Annotated[
        str,
        Name(
            "Stream",
            "The Redis stream it reads; made when it is not there yet.",
            AGENTS | CONSUMERS | DASHBOARD,
            once=True,
        ),
    ]
    partitions: Annotated[
        int,
        Count(
            "Partitions",
            "Fixed from then on: keys are hashed over it.",
            EVERYBODY,
            once=True,
            least=1,
            most=PARTITIONS_MAX,
            cause=Reason.PARTITIONS,
        ),
    ]
    strategy: Annotated[
        str,
        StrategyName(
            "Strategy",
            "Used by every rebalance from the next one on; sticky moves the fewest partitions."
            " Not used by a stateful group.",
            COORDINATOR,
            cause=Reason.STRATEGY,
        ),
    ] = "sticky"
    strategy_parameters: Annotated[
        Mapping[str, Any],
        Parameters(
            "Its parameters",
            "A JSON object of what the strategy takes. Empty: none.",
            COORDINATOR,
            cause=Reason.STRATEGY,
        ),
    ] = field(default_factory=dict)
    lease_ms: Annotated[
        int,
        Timing(
            "Lease",
            "How long a lock lives without a renew. The consumer stops at 80 % of it.",
            COORDINATOR | AGENTS | CONSUMERS,
        ),
    ] = 10_000
    renew_ms: Annotated[
        int, Timing("Renew", "How often locks are renewed: at most a third of the lease.", AGENTS)
    ] = 3_333
    heartbeat_ms: Annotated[
        int,
        Timing("Heartbeat", "How often an agent reports to this dashboard.", AGENTS | DASHBOARD),
    ] = 3_000
    session_timeout_ms: Annotated[
        int,
        Timing(
            "Session timeout",
            "Silence after which a member is lost: at most the lease.",
            COORDINATOR | DASHBOARD,
        ),
    ] = 10_000
    instance_timeout_ms: Annotated[
        int,
        Timing(
            "Instance timeout",
            "So long a member with an instance name may take to restart.",
            COORDINATOR | DASHBOARD,
        ),
    ] = 60_000  # a Spark consumer needs 10 to 20 s to start
    grace_ms: Annotated[
        int, Timing("Grace", "How long a revoked partition may finish its batch in hand.", AGENTS)
    ] = 8_000
    consumer_stall_ms: Annotated[
        int,
        Timing(
            "Consumer stall",
            "No batch for so long while there is lag: stalled, and restarted.",
            AGENTS,
        ),
    ] = 60_000
    latency_goal_ms: Annotated[
        int,
        Duration(
            "Latency goal",
            "Events are committed so long after their append at most, in batches as seldom as that"
            " allows; where more wait, at once. Half of the consumer stall at most. 0: always at"
            " once.",
            CONSUMERS,
            most=600_000,
        ),
    ] = 1_000
    dead_letters: Annotated[
        str,
        Choice(
            "Dead letters",
            "Keep: a malformed entry rides in the commit. Halt: the partition stops at it.",
            CONSUMERS,
            options=("keep", "halt"),
        ),
    ] = "keep"
    trimming: Annotated[
        bool,
        Flag(
            "Trimming", "Off: neither streams nor changelogs lose an entry.", CONSUMERS | DASHBOARD
        ),
    ] = True
    events_kept_seconds: Annotated[
        int,
        Duration(
            "Events kept",
            "So long after their append committed events stay. Of a stream's groups the longest"
            " counts.",
            DASHBOARD,
            unit_ms=1_000,
            most=30 * 86_400,
        ),
    ] = 600
    events_kept_bytes: Annotated[
        int,
        Size(
            "Events kept, at most",
            "Memory of the stream, each partition its share: committed events above it go, the"
            " oldest first. Of a stream's groups the largest counts.",
            DASHBOARD,
            most=2**40,
        ),
    ] = 64 * 2**20
    masked_fields: Annotated[
        tuple[str, ...],
        Names(
            "Masked fields",
            "Fields of events, nested ones too, that whoever looks at events is not shown.",
            DASHBOARD,
        ),
    ] = ()
    # What follows counts in a stateful group only (learners.md; the names of KIP-429's first form).
    stateful: Annotated[
        bool,
        Flag(
            "Stateful",
            "Partitions keep state: who is to take one over learns it first, from replicas.",
            COORDINATOR | AGENTS | DASHBOARD,
            of_state=True,
            cause=Reason.STATEFUL,
        ),
    ] = False
    standby_replicas: Annotated[
        int,
        Count(
            "Standby replicas",
            "Replicas of each partition's state, kept up to date on other members.",
            COORDINATOR,
            of_state=True,
            most=10,  # each is the whole state once more, on disk and over the wire
            cause=Reason.STANDBYS,
        ),
    ] = 0
    learners_max: Annotated[
        int,
        Count(
            "Learners max",
            "Learners at one time in the group. 0: no limit.",
            COORDINATOR,
            of_state=True,
            most=PARTITIONS_MAX,
            cause=Reason.LEARNERS,
        ),
    ] = 0
    acceptable_lag_records: Annotated[
        int,
        Count(
            "Acceptable lag records",
            "A learner that is no further behind is ready. 0: fully restored.",
            AGENTS,
            of_state=True,
            most=1_000_000_000,
        ),
    ] = 0
    learn_partial_rebalance: Annotated[
        bool,
        Flag(
            "Learn partial rebalance",
            "When learners take over: each alone, or a member's learners in one rebalance.",
            AGENTS,
            of_state=True,
            on="eager: each as soon as it is ready",
            off="stable: all together",
        ),
    ] = True
    scale_down_timeout_ms: Annotated[
        int | None,
        Duration(
            "Scale-down limit",
            "After so long the rest are forced out, as 10 min; a number alone is milliseconds."
            " Empty: no limit. 0: at once.",
            COORDINATOR,
            of_state=True,
            most=SCALE_DOWN_MAX_MS,
            may_be_none=True,
        ),
    ] = None

    def __post_init__(self) -> None:
        for name, setting in SETTINGS.items():
            setting.check(name, getattr(self, name))
        if self.lease_ms < 3 * self.renew_ms:
            raise InvalidInput(
                f"lease_ms {self.lease_ms} is below three times renew_ms {self.renew_ms}"
            )
        if self.session_timeout_ms > self.lease_ms:
            raise InvalidInput(
                f"session_timeout_ms {self.session_timeout_ms} is above lease_ms {self.lease_ms}"
            )

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From what `values` gave, also as it was read from JSON. Raises InvalidInput that names
        the setting.
        """
        if unknown := sorted(values.keys() - SETTINGS.keys()):
            raise InvalidInput(f"there is no setting {', '.join(unknown)}")
        read: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
        try:
            return cls(**read)
        except TypeError as error:
            raise InvalidInput(f"settings cannot be read: {error}") from error

    def values(self) -> dict[str, Any]:
        """By name, as JSON has them."""
        found = ((name, getattr(self, name)) for name in SETTINGS)
        return {name: list(v) if isinstance(v, tuple) else v for name, v in found}

    def all_partitions(self) -> tuple[Partition, ...]:
        return _all_partitions(self.stream, self.partitions)


@lru_cache(maxsize=4)  # a target asks four times, a preview does so for each strategy
def _all_partitions(stream: str, partitions: int) -> tuple[Partition, ...]:
    return tuple(Partition(stream, n) for n in range(partitions))


SETTINGS = declared(GroupSettings)
# Name -> default, as JSON has it, of those that have one.
DEFAULTS = {
    name: value
    for name, value in GroupSettings(stream="any", partitions=1).values().items()
    if not SETTINGS[name].once
}
