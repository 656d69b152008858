"""What became of bringing an acquired partition's state to the committed offset."""

from dataclasses import dataclass

from assignment.types import Claim

RETRY_MS = 1_000  # before a failed restore is tried again


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """`failure` "": the replica stands at the committed offset read after the acquire."""

    claim: Claim
    failure: str = ""
    is_of_here: bool = True  # False: Redis was away
