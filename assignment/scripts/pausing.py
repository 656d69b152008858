"""What people paused, as Redis holds it: set, read, and how far a partition stands still."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TypeVar

from assignment.bounds import whole_of
from assignment.pauses import WHOLE_GROUP, Pause, Pauses, PauseState
from assignment.scripts.rows import each
from assignment.scripts.values import Arguments, Call, Raw, epoch_text, pairs_of, text_of, texts_of
from assignment.types import Partition, read_as

R = TypeVar("R")


class PausesSet(StrEnum):
    DONE = "done"
    ALREADY = "already"  # these stand under that version: the reply before was lost
    LATE = "late"  # others stand: nothing was changed, read them first


def set_pauses(pauses: Pauses, over: int | None) -> Call[PausesSet]:
    """All pauses of a group, under their version. `over`: the version that they were made of, as a
    person's change is; None: put back over any older one, as what the database has.

    The same again is harmless, and an older one changes nothing.
    """
    version = epoch_text("pause version", pauses.version)
    arguments: Arguments = ["" if over is None else epoch_text("pause version", over), version]
    for scope, row in rows_of(pauses).items():
        arguments += [scope, json.dumps(row, sort_keys=True, separators=(",", ":"))]
    return Call("set_pauses", arguments, lambda raw: PausesSet(text_of(raw)))


def rows_of(pauses: Pauses) -> dict[str, dict[str, str | int]]:
    """Scope -> its record, as they lie in the hash `pauses` and in the database."""
    whole = {WHOLE_GROUP: asdict(pauses.group)} if pauses.group else {}
    return whole | {str(p): asdict(one) for p, one in sorted(pauses.partitions.items())}


def pauses_of(version: int, rows: Mapping[str, object]) -> Pauses:
    """Of what rows_of made, as the database has it; see _pauses."""
    return _pauses(version, rows.items(), lambda row: read_as(Pause, row))


def read_pauses(version: int, raw: Raw) -> Pauses:
    """From HGETALL of the key `pauses`; see _pauses."""
    return _pauses(version, pairs_of(raw), lambda row: read_as(Pause, json.loads(row)))


def _pauses(version: int, rows: Iterable[tuple[str, R]], read: Callable[[R], Pause]) -> Pauses:
    """A row that cannot be read, which no script wrote, pauses all the same, by nobody known; a
    scope that is none pauses nothing.
    """
    found, bad = each(rows, lambda scope, row: read(row))
    known = found | {scope: Pause(actor="", reason="", at_ms=0) for scope in bad}
    group = known.pop(WHOLE_GROUP, None)
    scopes, _ = each(known.items(), lambda scope, pause: (Partition.parse(scope), pause))
    return Pauses(version=version, group=group, partitions=dict(scopes.values()))


def read_confirmed(raw: Raw) -> dict[Partition, int]:
    """From HGETALL of the key `paused`; what cannot be read confirms nothing."""
    rows, _ = each(pairs_of(raw), lambda p, fence: (Partition.parse(p), whole_of(fence)))
    return dict(rows.values())


@dataclass(frozen=True, slots=True)
class StandsStill:
    """`state` and `pause` None: it is not paused. `fence`: the last granted, 0 without one."""

    partition: Partition
    state: PauseState | None
    pause: Pause | None
    fence: int

    @property
    def is_safe(self) -> bool:
        """Whether nobody plans it: its owner confirmed, or it has none."""
        return self.state in (PauseState.PAUSED, PauseState.UNOWNED)


def pause_state(partitions: Iterable[Partition]) -> Call[tuple[StandsStill, ...]]:
    """How far each stands still, in their order, at one moment.

    For whoever sets committed offsets: ask first, and refuse unless each `is_safe`. Between this
    answer and a write a pause may end, so the script that writes asks `pause_state(partition)` of
    _common.lua itself ('paused' or 'unowned'), and grants a new fence in the same step: a consumer
    that lost its lock, or whose late call was taken for the end of a batch, may still have one in
    hand, and its commit is refused by the new fence alone. Where a SQL sink keeps the offset, the
    sink's is the truth, whatever Redis is set to (pipeline.md section 3).
    """
    asked = tuple(partitions)

    def read(raw: Raw) -> tuple[StandsStill, ...]:
        return tuple(map(_stands_still, asked, map(texts_of, raw)))

    return Call("pause_state", [str(p) for p in asked], read)


def _stands_still(partition: Partition, answer: Sequence[str]) -> StandsStill:
    scope, record, state, fence = answer
    pause = read_pauses(0, [scope, record]).of(partition) if scope else None
    return StandsStill(partition, PauseState(state) if state else None, pause, int(fence))
