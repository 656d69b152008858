"""What the answers to one acquire say, by kind."""

from collections.abc import Iterable, Iterator

from assignment.scripts.agent_side import Granted, HeldBy, NotTarget, PartitionAnswer
from assignment.types import Claim, HeldState, Partition


def granted(answers: Iterable[PartitionAnswer]) -> dict[Claim, HeldState]:
    return {Claim(a.partition, a.fence): a.state for a in answers if isinstance(a, Granted)}


def refused(answers: Iterable[PartitionAnswer]) -> Iterator[tuple[Partition, str, str]]:
    """Each with why, and with its owner or ""."""
    for answer in answers:
        match answer:
            case HeldBy(partition, owner, _):
                yield partition, f"waiting for {owner}", owner
            case NotTarget(partition):
                yield partition, "the target in Redis does not give it", ""
