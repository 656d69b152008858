"""What tests read of a partition's state."""

from collections.abc import Iterable
from typing import Any

from agent.state.partition import PartitionState
from agent.state.restore import ChangelogReader, restore
from assignment.types import Offset, Partition


def values_of(state: PartitionState, keys: Iterable[str]) -> dict[str, Any]:
    with state.reading() as reading:
        return reading.get_many(keys)


def restored(store: ChangelogReader, state: PartitionState, partition: Partition) -> Offset:
    """Where it stands then."""
    restore(store, state, partition)
    return state.offset
