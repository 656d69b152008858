"""What the loop hears of replicas, of those that are restored for what was acquired too."""

from dataclasses import dataclass

from assignment.types import Claim, Partition

RETRY_MS = 1_000  # before a failed restore is tried again


@dataclass(frozen=True, slots=True)
class ReplicaNews:
    """A replica caught up, or (`why`) cannot go on for now. The dashboard should hear of it."""

    partition: Partition
    role: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """`failure` "": the replica stands at the committed offset read after the acquire."""

    claim: Claim
    failure: str = ""
    is_of_here: bool = True  # False: Redis was away
