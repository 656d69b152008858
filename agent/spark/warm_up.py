"""Batches that a consumer does before it says ready, and commits nothing of.

The first batches of a fresh Spark take many times as long as the later ones: classes are loaded,
code is generated, workers import what they need. Whoever takes a partition over must not wait for
that. So the newest events of a few partitions, whoever owns them, are read and aggregated again and
again, until that gets no quicker. Nothing is written: neither counts nor dead letters nor state.
"""

from dataclasses import dataclass, field

from agent.store.events import EventStore
from assignment.types import Partition, Range

BATCHES_MAX = 12
ENTRIES, PARTITIONS_MAX = 16, 4  # of one batch
GAIN = 0.8  # of the time of the quickest one before: more than that is no gain
TRIES = 3  # "Python worker failed to connect back" happens on a loaded machine
NO_FENCE = 0  # no lock ever has it


def latest_ranges(events: EventStore, stream: str) -> list[Range]:
    """The newest entries of the first partitions. StoreUnavailable; InvalidInput: no stream."""
    found = []
    for number in range(min(events.partitions(stream), PARTITIONS_MAX)):
        partition = Partition(stream, number)
        after, last = events.latest(partition, ENTRIES)
        if last > after:
            found.append(Range(partition, after, last, NO_FENCE))
    return found


def tasks_of(left: int, tasks_max: int) -> int:
    """In turns: several tasks with a shuffle between them, and one (`ONE_TASK_EVENTS`)."""
    return tasks_max if left % 2 == 0 else 1


@dataclass(slots=True)
class WarmUp:
    """How many batches there are still to do, from how long the ones before them took."""

    left: int = BATCHES_MAX
    failures: int = 0
    _quickest: dict[int, float] = field(default_factory=dict)  # by the number of tasks
    _steady: set[int] = field(default_factory=set)

    def done(self, tasks: int, took_s: float) -> int:
        """What is left after this batch: nothing once neither kind gets quicker."""
        before = self._quickest.get(tasks)
        if before is not None and took_s >= GAIN * before:
            self._steady.add(tasks)
        self._quickest[tasks] = took_s if before is None else min(before, took_s)
        is_over = self._steady >= self._quickest.keys() and self.left % 2 == 1
        self.left = 0 if is_over else self.left - 1
        return self.left

    def failed(self) -> int:
        """What is left after a batch that failed: nothing after TRIES of them."""
        self.failures += 1
        self.left = 0 if self.failures >= TRIES else self.left - 1
        return self.left
