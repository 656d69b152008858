"""The text of a target's record: how it lies in the group's outbox until a database has it."""

import base64
import json
import zlib
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from assignment import maps
from assignment.bounds import Line, Moment, Name, Whole, closed
from assignment.coordinator.facts import TargetRecord
from assignment.errors import InvalidInput
from assignment.scripts.rows import UNREADABLE, why_unreadable
from assignment.types import PARTITIONS_MAX, Reason

OF_RECORD = ("at_ms", "cause", "partitions", "detect_ms")
OF_CHANGE = ("strategy", "balance_degree", "max_minus_min", "score")
OF_MOVEMENT = ("kept", "stickiness", "stickiness_best")
Count = Annotated[int, Meta(ge=0, lt=2**31)]


class Run(NamedTuple):
    """Who carried a rebalance out, and what it took."""

    worker: str  # a process of Celery, or the member that computed
    compute_ms: int
    task_id: str = ""


def text_of(record: TargetRecord, run: Run) -> str:
    """The columns of the Rebalance that it becomes, and `requests` that it answers."""
    change, movement = record.change, record.change.movement
    packed = {
        "target": maps.pack_owners(change.after.names, change.after.of),
        "previous": maps.pack_owners(change.before.names, change.before.of),
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


# --- read again -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cause:
    reason: Reason
    member: Name
    epoch: Whole | None = None
    at_ms: Moment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """All that text_of writes. Whoever may write to the group's keys may have written another."""

    at_ms: Moment
    cause: Reason
    causes: tuple[_Cause, ...]
    detect_ms: Whole
    strategy: Annotated[str, Meta(max_length=50)]
    partitions: Annotated[int, Meta(ge=0, le=PARTITIONS_MAX)]
    members: Count
    kept: Count
    moved: Count
    avoidable: Count | None
    learning: Count
    balance_degree: float | None
    max_minus_min: Count | None
    score: float | None
    stickiness: float | None
    stickiness_best: float | None
    compute_ms: Whole
    celery_task_id: Annotated[str, Meta(max_length=100)]
    celery_worker: Line
    target: bytes  # packed maps: Base64 in the text
    previous: bytes
    replicas: bytes | None
    requests: tuple[Whole, ...]


_read = msgspec.json.Decoder(closed(_Columns)).decode


def read(text: str) -> dict[str, Any]:
    """The columns as text_of was given them, and `requests`. InvalidInput for any other text."""
    try:
        columns = msgspec.structs.asdict(_read(text))
        sizes = [len(maps.unpack_cells(columns[name])[1]) for name in ("previous", "target")]
        if columns["replicas"]:
            maps.check_replicas(columns["replicas"])
    except (*UNREADABLE, zlib.error) as error:
        raise InvalidInput(f"no record of a target: {why_unreadable(error)}") from error
    if any(size != columns["partitions"] for size in sizes):
        raise InvalidInput(f"no record of a target of {columns['partitions']} partitions")
    causes = [msgspec.structs.asdict(cause) for cause in columns["causes"]]
    said = [{name: v for name, v in cause.items() if v is not None} for cause in causes]
    return columns | {"causes": said}
