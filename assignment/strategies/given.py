"""What every strategy is given and what it gives back, by name.

Knows nothing of epochs, locks or reports: previous ownership comes as claims, partition -> fence.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from assignment.errors import InvalidInput
from assignment.strategies.parameters import NUMBER_MAX, whole
from assignment.types import Member, Partition

Assigned = dict[str, tuple[Partition, ...]]  # every member given, ascending; () for the idle ones


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyInput:
    """Members with their metadata and claims (`Member.owned`), and partitions per stream.

    Order carries no meaning: a strategy sorts for itself. InvalidInput names a duplicate or empty
    member id, and a partition count that is negative or no integer.
    """

    members: tuple[Member, ...]
    topics: Mapping[str, int]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for member in self.members:
            if not member.member_id:
                raise InvalidInput("a member id is empty: ''")
            if member.member_id in seen:
                raise InvalidInput(f"member id {member.member_id!r} is there twice")
            seen.add(member.member_id)
        for stream, partitions in self.topics.items():
            whole(f"partitions of {stream!r}", partitions, 0, NUMBER_MAX)
