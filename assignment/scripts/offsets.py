"""Committed offsets that a person sets: what stands, and the step that changes it."""

from dataclasses import dataclass
from enum import StrEnum

from assignment.pauses import PauseState
from assignment.scripts.agent_side import SnapshotRecord, read_snapshots
from assignment.scripts.values import FENCE_MAX, Arguments, Call, Raw, flag, texts_of, within
from assignment.types import INCARNATION_STEP, Offset, Partition
from assignment.wire import pack_changes


class EffectsIn(StrEnum):
    """Where a pipeline's effects live, as its consumer says."""

    STATE = "state"
    SQL_SINK = "sql sink"  # exactly once, by the sink's own offset
    SINK = "sink"  # at least once


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFacts:
    """`fence`: the last granted, 0 without one. `state` None: not paused. State of the partition
    (`keeps_state`) can be built at `state_oldest` and at ends of commits above it; `state_at` is
    the last of those at or below what was wanted, with `state_total` events applied; None: none.
    `replayed`: (end of a replay, lowest entry of its letters), of those that state has.
    """

    committed: Offset
    total: int
    fence: int
    state: PauseState | None
    keeps_state: bool
    state_oldest: Offset | None
    state_at: Offset | None
    state_total: int
    snapshots: tuple[SnapshotRecord, ...]
    replayed: tuple[tuple[Offset, Offset], ...] = ()

    def would_lose(self, to: Offset) -> Offset | None:
        """Set back to there, the end of a replay whose effects would go though none of its entries
        is read again.
        """
        return next((end for end, entry in self.replayed if entry <= to < end), None)

    @property
    def is_safe(self) -> bool:
        """Whether it stands still."""
        return self.state in (PauseState.PAUSED, PauseState.UNOWNED)


def offset_facts(partition: Partition, wanted: Offset | None = None) -> Call[OffsetFacts]:
    arguments: Arguments = [str(partition), "" if wanted is None else str(wanted)]
    return Call("offset_facts", arguments, _facts)


def _facts(raw: Raw) -> OffsetFacts:
    committed, total, fence, state, keeps, oldest, found, found_total, *more = texts_of(raw)
    snapshots, replayed = more
    ends = list(map(Offset.parse, replayed.split()))
    return OffsetFacts(
        committed=Offset.parse(committed),
        total=int(total),
        fence=int(fence),
        state=PauseState(state) if state else None,
        keeps_state=keeps == "1",
        state_oldest=Offset.parse(oldest) if oldest else None,
        state_at=Offset.parse(found) if found else None,
        state_total=int(found_total),
        snapshots=read_snapshots(snapshots.encode() if snapshots else None),
        replayed=tuple(zip(ends[::2], ends[1::2], strict=True)),
    )


class OffsetSet(StrEnum):
    DONE = "done"
    RUNNING = "running"  # not paused, or a batch of it may be in hand
    MOVED = "moved"  # it is not as it was looked at
    NO_STATE = "no_state"  # none can be built at that offset
    REPLAYED = "replayed"  # state would lose effects of letters, whose entries are not read again


@dataclass(frozen=True, slots=True)
class OffsetAnswer:
    """`fence`: the new one, 0 when the partition never had one."""

    result: OffsetSet
    fence: int = 0


def set_offset(
    partition: Partition, seen: OffsetFacts, to: Offset, total: int, *, state: bool = False
) -> Call[OffsetAnswer]:
    """Only over what was `seen`. `total`: events applied up to `to`. Where state is kept, `to` is
    an end of a commit that it can be built at, or above the committed offset. `state`: effects are
    state, though nothing of it may be kept yet.
    """
    arguments: Arguments = [
        str(partition),
        str(seen.committed),
        str(seen.fence),
        str(to),
        within("total", total, 0, FENCE_MAX),
        flag(seen.keeps_state),
        pack_changes({}),
        flag(state or seen.keeps_state),
    ]
    return Call("set_offset", arguments, _answer)


def _answer(raw: Raw) -> OffsetAnswer:
    result, *more = texts_of(raw)
    found = OffsetSet(result)
    return OffsetAnswer(found, int(more[0]) if found is OffsetSet.DONE else 0)


def is_undone(record: SnapshotRecord, fence: int, to: Offset) -> bool:
    """Whether an offset that was set back under `fence` left this snapshot's history."""
    return record.fence < fence and record.offset > to


def is_undone_by(record: SnapshotRecord, newer: SnapshotRecord) -> bool:
    """As is_undone, by a snapshot that was recorded since. Within an incarnation a higher fence
    goes on where the one before ended, unless a person set the offset back.
    """
    same = record.fence // INCARNATION_STEP == newer.fence // INCARNATION_STEP
    return same and is_undone(record, newer.fence, newer.offset)
