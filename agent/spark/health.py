"""Which partitions of a consumer are in trouble, from the outcomes of its batches.

Kept by the driver between batches: what stands still until a person or an owner does something
(halted), and whose part fails batch after batch. Knows neither Spark nor Redis.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.spark.commit import Outcome
from assignment import troubles
from assignment.types import Partition


@dataclass(slots=True)
class PartitionHealth:
    # By partition and fence.
    halted: dict[tuple[Partition, int], troubles.Halted] = field(default_factory=dict)
    failing: dict[Partition, troubles.Failing] = field(default_factory=dict)

    def take(self, outcome: Outcome) -> None:
        for partition in outcome.applied:  # it went on behind where it stood still
            self.halted = {k: h for k, h in self.halted.items() if k[0] != partition}
        for one, halted in outcome.halted.items():
            self.halted[one.partition, one.fence] = halted
        for partition in outcome.applied:
            self.failing.pop(partition, None)
        for one, why in outcome.failed.items():
            before = self.failing.get(one.partition)
            again = before.failures if before is not None and before.fence == one.fence else 0
            self.failing[one.partition] = troubles.Failing(
                partition=one.partition, fence=one.fence, failures=again + 1, why=why
            )

    def forget_malformed(self) -> None:
        """The group keeps malformed entries now: nothing halts at them."""
        kept = (i for i in self.halted.items() if i[1].reason is not troubles.HaltReason.MALFORMED)
        self.halted = dict(kept)

    def facts(self, others: Sequence[troubles.Halted]) -> Mapping[str, Any]:
        """As ConsumerHealth has them. `others`: halted where they were planned."""
        halted = sorted([*self.halted.values(), *others], key=lambda one: one.partition)
        failing = [self.failing[p] for p in sorted(self.failing)]
        return {
            "halted": [troubles.trouble_values(one) for one in halted[: troubles.TROUBLES_MAX]],
            "failing": [troubles.trouble_values(one) for one in failing[: troubles.TROUBLES_MAX]],
        }
