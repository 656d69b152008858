"""The text of a target's record: how it lies in the group's outbox until a database has it."""

import base64
import json
from collections.abc import Mapping
from typing import NamedTuple

from assignment import maps
from assignment.coordinator.facts import TargetRecord
from assignment.types import Partition

OF_RECORD = ("at_ms", "cause", "partitions", "detect_ms")
OF_CHANGE = ("strategy", "balance_degree", "max_minus_min", "score")
OF_MOVEMENT = ("kept", "stickiness", "stickiness_best")
MAPS = ("target", "previous", "replicas")  # packed


class Run(NamedTuple):
    """Who carried a rebalance out, and what it took."""

    worker: str  # a process of Celery, or the member that computed
    compute_ms: int
    task_id: str = ""


def text_of(record: TargetRecord, run: Run) -> str:
    """The columns of the Rebalance that it becomes, and `requests` that it answers."""
    change, movement = record.change, record.change.movement
    after = {p: member for member, row in record.rows.items() for p in row.active}
    packed = {
        "target": _packed(after, record.partitions),
        "previous": _packed(record.before, record.partitions),
        "replicas": maps.pack_replicas(record.rows) if record.stateful else None,
    }
    columns = {
        **{name: getattr(record, name) for name in OF_RECORD},
        **{name: getattr(change, name) for name in OF_CHANGE},
        **{name: getattr(movement, name) for name in OF_MOVEMENT},
        "causes": [
            {name: v for name, v in cause._asdict().items() if v is not None}
            for cause in record.causes
        ],
        "members": len(change.loads),
        "moved": movement.moves,
        "avoidable": movement.avoidable_moves,
        "compute_ms": run.compute_ms,
        "celery_task_id": run.task_id,
        "celery_worker": run.worker,
        "learning": len(change.learning),
    }
    texts = {n: None if m is None else base64.b64encode(m).decode() for n, m in packed.items()}
    return json.dumps({**columns, **texts, "requests": record.requests}, separators=(",", ":"))


def _packed(owners: Mapping[Partition, str], partitions: int) -> bytes:
    by_number = {p.number: member for p, member in owners.items()}
    return maps.pack_owners([by_number.get(number) for number in range(partitions)])
