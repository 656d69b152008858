"""A partition that stands still though its member is able: typed, as it is told and shown.

`Failing` is what a consumer says of its last batches, `Unserved` what its agent makes of that and
tells the coordinator, `Halted` what only a person can resolve. Decides nothing.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from assignment.errors import InvalidInput
from assignment.types import Offset, Partition

UNSERVED_MAX = 100  # a member that cannot serve more partitions is unable as a whole
TROUBLES_MAX = 100  # of each kind that one consumer tells; the next ones follow when these are gone
WHY_MAX = 160  # characters of what is said of one partition


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
    left_ms: int
    why: str = ""  # for people


@dataclass(frozen=True, slots=True, kw_only=True)
class Halted:
    """A partition that stands still at `entry` ("": at none), which may be skipped."""

    partition: Partition
    reason: HaltReason
    entry: str = ""
    why: str = ""  # for people


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """A partition whose part of the last `failures` batches failed, while others' did not."""

    partition: Partition
    fence: int
    failures: int
    why: str = ""


def unserved_values(unserved: Unserved) -> dict[str, Any]:
    """As heartbeats and stored reports have it."""
    return asdict(unserved) | {"reason": unserved.reason.value, "why": unserved.why[:WHY_MAX]}


def parse_unserved(values: Mapping[str, Any]) -> Unserved:
    """Raises InvalidInput that names what is wrong."""
    left_ms, why = _whole(values, "left_ms"), values.get("why", "")
    if values.get("reason") not in UNSERVED_REASONS or not isinstance(why, str):
        raise InvalidInput(f"reason {values.get('reason')!r} of an unserved partition is unknown")
    return Unserved(reason=UnservedReason(values["reason"]), left_ms=left_ms, why=why[:WHY_MAX])


def halted_values(halted: Halted) -> dict[str, Any]:
    """As a consumer's progress and heartbeats have it."""
    return {
        "partition": str(halted.partition),
        "reason": halted.reason.value,
        "entry": halted.entry,
        "why": halted.why[:WHY_MAX],
    }


def parse_halted(values: Mapping[str, Any]) -> Halted:
    """Raises InvalidInput that names what is wrong."""
    if not isinstance(values, Mapping):
        raise InvalidInput(f"a halted partition is {values!r}, not an object")
    reason, entry = values.get("reason"), values.get("entry", "")
    if reason not in HALT_REASONS or not isinstance(entry, str):
        raise InvalidInput(f"reason {reason!r} or entry {entry!r} of a halted partition is wrong")
    return Halted(
        partition=Partition.parse(str(values.get("partition"))),
        reason=HaltReason(reason),
        entry=str(Offset.parse(entry)) if entry else "",
        why=str(values.get("why", ""))[:WHY_MAX],
    )


def failing_values(failing: Failing) -> dict[str, Any]:
    return asdict(failing) | {"partition": str(failing.partition), "why": failing.why[:WHY_MAX]}


def parse_failing(values: Mapping[str, Any]) -> Failing:
    """Raises InvalidInput that names what is wrong."""
    return Failing(
        partition=Partition.parse(str(values.get("partition"))),
        fence=_whole(values, "fence"),
        failures=_whole(values, "failures"),
        why=str(values.get("why", ""))[:WHY_MAX],
    )


def _whole(values: Mapping[str, Any], name: str) -> int:
    value = values.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise InvalidInput(f"{name} {value!r} of a partition's trouble is no whole number")
    return value


UNSERVED_REASONS = frozenset(UnservedReason)
HALT_REASONS = frozenset(HaltReason)
