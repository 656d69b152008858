"""State of a partition on local disk, its snapshots, and how a copy is brought up to date.

Used by the agent (restoring, learners) and by the consumer's driver (merging). The changelog in
Redis is the truth; every copy here can be thrown away (pipeline.md section 4). Knows nothing of
Spark, Redis clients or the dashboard.
"""

from agent.state.errors import SnapshotBroken, StateError, StateLost
from agent.state.partition import Applied, PartitionState
from agent.state.restore import ChangelogReader, restore, tail
from agent.state.snapshots import read_snapshot, remove_snapshot, write_snapshot
from assignment.wire import ChangelogPage

__all__ = [
    "Applied",
    "ChangelogPage",
    "ChangelogReader",
    "PartitionState",
    "SnapshotBroken",
    "StateError",
    "StateLost",
    "read_snapshot",
    "remove_snapshot",
    "restore",
    "tail",
    "write_snapshot",
]
