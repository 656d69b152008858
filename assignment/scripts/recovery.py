"""What gives a Redis that forgot a group, or lost its last writes, back what is known of it."""

import json
from collections.abc import Mapping
from dataclasses import replace

from assignment import wire
from assignment.scripts.agent_side import SnapshotRecord, record_values
from assignment.scripts.values import (
    INCARNATION_MAX,
    Arguments,
    Call,
    Raw,
    epoch_text,
    number_of,
    text_of,
    within,
)
from assignment.types import Partition, TargetRow, valid_name


def resume(target_epoch: int, event_seq: int, rows: Mapping[str, TargetRow]) -> Call[int]:
    """A group that Redis forgot counts on above these, and has its target again. Answers the
    group_epoch. `rows`: the last target, of one incarnation.
    """
    incarnation = max((row.incarnation for row in rows.values()), default=0)
    arguments: Arguments = [
        epoch_text("target_epoch", target_epoch),
        epoch_text("event_seq", event_seq),
        within("incarnation", incarnation, 0, INCARNATION_MAX),
    ]
    for member_id, row in rows.items():
        row_text = wire.target_text(replace(row, target_epoch=target_epoch))
        arguments += [valid_name("member", member_id), row_text]
    return Call("resume", arguments, number_of)


def hold(lease_ms: int | None = None) -> Call[bool]:
    """Whether nothing is to be granted; with `lease_ms`: from now on, for so long."""
    return Call("hold", ["" if lease_ms is None else str(lease_ms)], lambda raw: raw == 1)


def restore(incarnation: int, records: Mapping[Partition, SnapshotRecord]) -> Call[int | None]:
    """Before that incarnation is set: partitions go on from snapshots that are newer than what
    Redis has. How many were moved (forward only); None: too late, grants are possible.
    """
    arguments: Arguments = [within("incarnation", incarnation, 1, INCARNATION_MAX)]
    for partition, record in records.items():
        values = json.dumps(record_values(record), separators=(",", ":"))
        arguments += [str(partition), values]
    return Call("restore", arguments, _moved)


def _moved(raw: Raw) -> int | None:
    return int(raw[1]) if text_of(raw[0]) == "done" else None
