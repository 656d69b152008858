"""What a coordinator among the agents remembers of a group, in a folder that every agent sees."""

from agent.coordination.memory import Memory
from assignment.coordinator.facts import Mirror
from assignment.scripts.agent_side import SnapshotRecord
from assignment.types import GroupSettings, Partition


class SimMemory(Memory):
    """Beside the snapshots, in a folder that every agent sees."""

    def __init__(self) -> None:
        self._known = 0
        self._manifests: dict[Partition, SnapshotRecord] = {}

    def written(self, partition: Partition, record: SnapshotRecord) -> None:
        before = self._manifests.get(partition)
        if before is None or record.rank > before.rank:
            self._manifests[partition] = record

    def mirror(self, settings: GroupSettings) -> Mirror:
        offsets = {partition: record.offset for partition, record in self._manifests.items()}
        return Mirror(target_epoch=0, event_seq=0, snapshots=dict(self._manifests), offsets=offsets)

    def _read(self) -> int:
        return self._known

    def keep(self, incarnation: int) -> bool:
        is_new = incarnation > self._known
        self._known = max(self._known, incarnation)
        return is_new
