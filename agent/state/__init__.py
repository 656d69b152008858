"""State of a partition on local disk, its snapshots, and how a replica is brought up to date.

Used by the agent (restoring, learners) and by the consumer's driver (merging). The changelog in
Redis is the truth; every replica here can be thrown away (pipeline.md section 4). Knows nothing of
Spark, Redis clients or the dashboard.
"""

from agent.state.errors import SnapshotBroken, StateError, StateLost, WriterReplaced
from agent.state.files import remove_replica, replicas_in
from agent.state.partition import Applied, PartitionState
from agent.state.restore import ChangelogReader, Progress, restore, restore_steps, tail
from agent.state.snapshots import read_snapshot, remove_snapshot, write_snapshot
from assignment.wire import ChangelogPage

__all__ = [
    "Applied",
    "ChangelogPage",
    "ChangelogReader",
    "PartitionState",
    "Progress",
    "SnapshotBroken",
    "StateError",
    "StateLost",
    "WriterReplaced",
    "read_snapshot",
    "remove_replica",
    "remove_snapshot",
    "replicas_in",
    "restore",
    "restore_steps",
    "tail",
    "write_snapshot",
]
