"""A partition that stands still though its member is able: typed, as it is told and shown.

`Failing` is what a consumer says of its last batches, `Unserved` what its agent makes of that and
tells the coordinator, `Halted` what only a person can resolve. Decides nothing.
"""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import msgspec

from assignment.bounds import Whole
from assignment.types import Offset, Partition, read_as

UNSERVED_MAX = 100  # a member that cannot serve more partitions is unable as a whole
TROUBLES_MAX = 100  # of each kind that one consumer tells; the next ones follow when these are gone
WHY_MAX = 160  # characters of what is said of one partition
Why = Annotated[str, msgspec.Meta(max_length=WHY_MAX)]  # for people
T = TypeVar("T")


class UnservedReason(StrEnum):
    """Why a member cannot serve one partition for now, though it serves others."""

    RESTORE = "restore"  # its state cannot be brought here: disk full, map full, snapshot broken
    BATCH = "batch"  # its part of the batches fails here, one after the other
    STALL = "stall"  # it has lag and nothing of it is committed, although others' batches are


class HaltReason(StrEnum):
    """Why a partition stands still until a person does something."""

    MALFORMED = "malformed"  # by the group's policy, at an entry that cannot be read
    CRASH = "crash"  # an entry that ends the consumer even when it is processed alone
    SINK = "sink"  # Redis is ahead of the sink that keeps the offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Unserved:
    """A partition that this member cannot serve; it is tried again after `left_ms`."""

    reason: UnservedReason
    left_ms: Whole
    why: Why = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Halted:
    """A partition that stands still at `entry` ("": at none), which may be skipped."""

    partition: Partition
    reason: HaltReason
    entry: str = ""
    why: Why = ""

    def __post_init__(self) -> None:
        if self.entry:
            Offset.parse(self.entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """A partition whose part of the last `failures` batches failed, while others' did not."""

    partition: Partition
    fence: Whole
    failures: Whole
    why: Why = ""


def trouble_values(trouble: Halted | Failing) -> dict[str, Any]:
    """As a consumer's progress and heartbeats have it."""
    told = {"partition": str(trouble.partition), "why": trouble.why[:WHY_MAX]}
    return asdict(trouble) | told


def read_trouble(kind: type[T], values: Any) -> T:
    """A Halted or a Failing. Raises InvalidInput that names what is wrong."""
    named = read_as(dict[str, Any], values)
    return read_as(kind, named | {"partition": Partition.parse(str(named.get("partition")))})
