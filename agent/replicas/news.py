"""What the loop hears of replicas."""

from dataclasses import dataclass

from assignment.types import Partition


@dataclass(frozen=True, slots=True)
class ReplicaNews:
    """A replica caught up, or (`why`) cannot go on for now. The dashboard should hear of it."""

    partition: Partition
    role: str
    why: str = ""
