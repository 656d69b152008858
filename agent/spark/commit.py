"""The fenced commit of one batch: merge what changed, commit each partition of the plan for itself.

Runs on the driver, in foreachBatch. Only the changed keys come here, as Arrow. A commit that is
answered fenced drops its partition, the others of the batch commit (pipeline.md section 3).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from agent.spark.pipeline import IDS_COLUMN, KEY_COLUMN, PARTITION_COLUMN
from agent.spark.reading import Counted
from agent.state.errors import StateError
from agent.store.door import Answer, StoreUnavailable, asked
from agent.store.group import GroupStore
from assignment.errors import EvenkeelError, InvalidInput
from assignment.scripts import replays
from assignment.scripts.agent_side import CommitAnswer, CommitRequest, CommitResult
from assignment.scripts.offsets import EffectsIn
from assignment.troubles import Halted, HaltReason
from assignment.types import Offset, Partition, Range
from assignment.wire import pack_ids

TRY_AGAIN_S = 0.1  # a lost reply is asked again so often, for as long as the lease lasts


class LeaseOver(EvenkeelError):
    """Redis did not answer within the lease: the batch is given up, whatever became of it."""


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """Changed keys of one partition with their changes, and the ids of events behind them."""

    changes: Sequence[tuple[str, Mapping[str, Any]]] = ()
    ids: bytes = b""


@dataclass(slots=True)
class Outcome:
    """What became of a batch, by partition."""

    applied: dict[Partition, int] = field(default_factory=dict)  # events
    moved: list[Partition] = field(default_factory=list)
    fenced: list[Range] = field(default_factory=list)
    halted: dict[Range, Halted] = field(default_factory=dict)
    failed: dict[Range, str] = field(default_factory=dict)  # whose replica of the state failed; why
    dead_letters: int = 0


class Effects(ABC):
    """Where the effects of a commit live: a partition's state, or a sink of its own."""

    kind: EffectsIn

    @abstractmethod
    def prepare(
        self, one: Range, count: Counted, committed: Offset, changes: PartitionChanges
    ) -> "Prepared | None":
        """What to commit; None when this range must not be committed from here (moved)."""

    def applied(self, prepared: "Prepared", answer: CommitAnswer) -> None:  # noqa: B027
        """Nothing, where nothing is kept here."""

    def close(self) -> None:  # noqa: B027
        """Nothing, where nothing is open."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A commit's part that depends on where effects live. `values`: merged, by key."""

    one: Range
    count: Counted
    base_total: int = 0
    changelog: bool = True
    packed: bytes = b""
    values: Mapping[str, Any] = field(default_factory=dict)


def check_columns(names: Sequence[str]) -> None:
    """Raises InvalidInput: rows with those columns are not keyed changes."""
    for name in (PARTITION_COLUMN, KEY_COLUMN):
        if name not in names:
            raise InvalidInput(f"the pipeline's changes have no column {name!r}")


def changes_by_partition(table: pa.Table) -> dict[int, PartitionChanges]:
    """Rows of the changes' table, by partition number. Raises InvalidInput: not keyed changes."""
    check_columns(table.column_names)
    for name in (PARTITION_COLUMN, KEY_COLUMN):
        if table.column(name).null_count:
            raise InvalidInput(f"the pipeline's changes have a null {name!r}")
    names = [n for n in table.column_names if n not in (PARTITION_COLUMN, KEY_COLUMN, IDS_COLUMN)]
    columns = [table.column(name).to_pylist() for name in names]
    changed: dict[int, list[tuple[str, Mapping[str, Any]]]] = {}
    numbers = table.column(PARTITION_COLUMN).to_pylist()
    keys = table.column(KEY_COLUMN).to_pylist()
    rows = zip(*columns, strict=True) if columns else ((),) * len(keys)
    for number, key, row in zip(numbers, keys, rows, strict=True):
        changed.setdefault(number, []).append((key, dict(zip(names, row, strict=True))))
    ids = _ids_by_partition(table, numbers)
    return {n: PartitionChanges(rows, pack_ids(ids.get(n, ()))) for n, rows in changed.items()}


def _ids_by_partition(table: pa.Table, numbers: Sequence[int]) -> dict[int, list[int]]:
    ids: dict[int, list[int]] = {}
    if IDS_COLUMN in table.column_names:
        for number, some in zip(numbers, table.column(IDS_COLUMN).to_pylist(), strict=True):
            ids.setdefault(number, []).extend(some or ())
    return ids


def counted_ranges(
    ranges: Sequence[Range], batch: str, packed: Mapping[str, bytes]
) -> list[tuple[Range, Counted]]:
    """Those ranges that were read to their end, or to where they stopped, with their counts."""
    return [
        (one, msgspec.msgpack.decode(packed[one.name(batch)], type=Counted))
        for one in ranges
        if one.name(batch) in packed
    ]


@dataclass(frozen=True, slots=True)
class Committer:
    """Commits batches of one member. `may_process` says whether its lease still lasts."""

    groups: GroupStore
    member_id: str
    effects: Effects
    may_process: Callable[[], bool]

    def commit(
        self,
        counted: Sequence[tuple[Range, Counted]],
        changed: Mapping[int, PartitionChanges],
        letters: Sequence[Offset] = (),
    ) -> Outcome:
        """One fenced commit for each range, also for those without a changed key. `letters`: that
        the only range replays.

        A partition whose replica fails is told in `failed`; the others commit. Raises LeaseOver.
        """
        outcome = Outcome()
        partitions = [one.partition for one, _ in counted]
        committed = self.asked(lambda: self.groups.committed(partitions))
        ready: list[Prepared] = []
        requests: list[CommitRequest] = []
        left: list[Range] = []
        for one, count in counted:
            if count.halted_at:
                outcome.halted[one] = Halted(
                    partition=one.partition,
                    reason=HaltReason.MALFORMED,
                    entry=count.halted_at,
                    why=count.halted_why,
                )
            if count.end == one.from_offset:
                continue  # halted at its first entry
            kept = self._bound(one, count, letters) if letters else count
            if kept is None:
                left.append(one)
                continue
            changes = changed.get(one.partition.number, PartitionChanges())
            try:
                prepared = self.effects.prepare(one, kept, committed[one.partition], changes)
            except StateError as error:
                outcome.failed[one] = str(error)
                continue
            if prepared is None:
                left.append(one)
            else:
                ready.append(prepared)
                requests.append(self._request(prepared, changes.ids))
        for prepared, answer in zip(ready, self._answers(requests), strict=True):
            self._take(outcome, prepared, answer)
        self._judge(outcome, left)
        return outcome

    def _bound(self, one: Range, count: Counted, letters: Sequence[Offset]) -> Counted | None:
        """Before any effect of theirs is stored. With them are those that cannot be read again,
        which the commit then has no more. None: they must not be applied from here.
        """
        call = replays.bind(one, letters, Offset.parse(count.lowest), count.dead)
        is_bound = self.asked(lambda: self.groups.run(call)) is replays.Bound.DONE
        return msgspec.structs.replace(count, dead=[]) if is_bound else None

    def _answers(self, requests: Sequence[CommitRequest]) -> Sequence[CommitAnswer]:
        return self.asked(lambda: self.groups.commit_many(requests)) if requests else ()

    def _judge(self, outcome: Outcome, left: Sequence[Range]) -> None:
        """Ranges that are not committed from here: those of a lost partition count as refused.

        Asked with a commit of nothing, which changes nothing even where the fence still holds.
        """
        nothing = (Prepared(one, Counted(0, str(one.from_offset)), changelog=False) for one in left)
        requests = [self._request(prepared, b"") for prepared in nothing]
        for one, answer in zip(left, self._answers(requests), strict=True):
            if answer.result is CommitResult.FENCED:
                outcome.fenced.append(one)
            else:
                outcome.moved.append(one.partition)

    def _request(self, prepared: Prepared, ids: bytes) -> CommitRequest:
        one, count = prepared.one, prepared.count
        return CommitRequest(
            partition=one.partition,
            member_id=self.member_id,
            fence=one.fence,
            from_offset=one.from_offset,
            to_offset=count.end,
            events=count.events,
            base_total=prepared.base_total,
            changelog=prepared.changelog,
            changes=prepared.packed,
            ids=ids,
            replication_id=one.replication_id,
            dead=count.dead,
        )

    def _take(self, outcome: Outcome, prepared: Prepared, answer: CommitAnswer) -> None:
        one, count = prepared.one, prepared.count
        match answer.result:
            case CommitResult.DONE | CommitResult.ALREADY:
                outcome.applied[one.partition] = count.events
                outcome.dead_letters += len(count.dead)
                try:
                    self.effects.applied(prepared, answer)
                except StateError as error:  # the replica is behind, and is brought forward later
                    outcome.failed[one] = str(error)
            case CommitResult.MOVED:
                outcome.moved.append(one.partition)
            case CommitResult.FENCED:
                outcome.fenced.append(one)

    def asked(self, call: Callable[[], Answer]) -> Answer:
        """The answer, asked for again with the same arguments while the lease lasts."""
        try:
            return asked(call, TRY_AGAIN_S, lambda _: self.may_process())
        except StoreUnavailable as error:
            raise LeaseOver(f"the lease ended before Redis answered: {error}") from error
