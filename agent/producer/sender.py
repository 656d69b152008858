"""Batches of one producer into Redis, each exactly once and in order, however often asked.

Keeps the sequence of each partition; knows no buffer and no form.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.store.door import Answer, StoreUnavailable, asked
from agent.store.events import Append, AppendResult, EventStore, Packed, Produced
from assignment.errors import EvenkeelError
from assignment.types import Partition

TRY_AGAIN_S = 0.2
NO_ID = -1


class ProducerIdInUse(EvenkeelError):
    """Another process appends under the same producer id: one of the two must end."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Entries of one partition. `last_id`: the id of its last event, NO_ID when it has none."""

    number: int
    entries: Sequence[Packed]
    last_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """Acknowledged events that Redis has lost: their ids are above one and up to the other."""

    partition: Partition
    events: int
    above_id: int  # NO_ID when none is left, or events have none
    up_to_id: int

    def __str__(self) -> str:
        ids = f", ids above {self.above_id} up to {self.up_to_id}" if self.up_to_id >= 0 else ""
        return f"{self.events} acknowledged events of {self.partition} are gone{ids}"


@dataclass(frozen=True, slots=True)
class _Point:
    """How far a partition has got. `events`: of this producer id, in all batches up to here."""

    sequence: int = 0
    last_id: int = NO_ID
    events: int = 0


class Sender:
    """`resume`: the id was used before, so what is stored under it counts. One thread at a time."""

    def __init__(
        self, store: EventStore, stream: str, producer_id: str, *, resume: bool, give_up_s: float
    ) -> None:
        self.give_up_s = give_up_s  # may be lowered at any moment, from a signal too
        self.waiting_since: float | None = None
        self.on_trouble: Callable[[str], None] = lambda why: None
        self.on_gone: Callable[[Gone], None] = lambda gone: None
        self._store = store
        self._stream = stream
        self._producer_id = producer_id
        self._resume = resume
        self._run = secrets.token_hex(4)  # tells our own batch from that of a second process
        self._points: dict[int, _Point] = {}

    def last_id(self, number: int) -> int:
        """Of the last stored event; raises StoreUnavailable at the first question."""
        return self._point(number).last_id

    def send(self, batches: Sequence[Batch]) -> None:
        """Returns when all are stored, whatever Redis lost before them. At most one batch per
        partition.

        Raises StoreUnavailable after `give_up_s`, ProducerIdInUse.
        """
        while batches:
            appends = [self._following(batch) for batch in batches]
            results, repeated = self._append(appends)
            missing = []
            for batch, append, result in zip(batches, appends, results, strict=True):
                if result is AppendResult.GAP:
                    self._go_back(batch.number)
                    missing.append(batch)
                    continue
                if result is AppendResult.ALREADY and not (repeated and self._is_ours(append)):
                    raise ProducerIdInUse(
                        f"another process appends to {append.partition} as producer"
                        f" {self._producer_id!r}: end one of the two"
                    )
                self._points[batch.number] = self._after(batch)
            batches = missing

    def verify(self) -> None:
        """Whether all that was acknowledged is there; tells what is gone. Raises as `send`."""
        for number in sorted(self._points):
            self._go_back(number)

    def _go_back(self, number: int) -> None:
        """To where Redis says this producer is, if that is behind; telling what lay between."""
        ours, there = self._point(number), self._asked(lambda: self._stored(number))
        if there.sequence >= ours.sequence:
            return
        self._points[number] = there
        self.on_gone(
            Gone(
                partition=Partition(self._stream, number),
                events=ours.events - there.events,
                above_id=there.last_id,
                up_to_id=ours.last_id,
            )
        )

    def _following(self, batch: Batch) -> Append:
        after = self._after(batch)
        note = f"{self._run} {after.last_id} {after.events}"
        return Append(Partition(self._stream, batch.number), after.sequence, batch.entries, note)

    def _after(self, batch: Batch) -> _Point:
        point = self._point(batch.number)
        return _Point(
            point.sequence + 1,
            max(batch.last_id, point.last_id),
            point.events + sum(entry.events for entry in batch.entries),
        )

    def _append(self, appends: Sequence[Append]) -> tuple[list[AppendResult], bool]:
        """The answers, and whether a lost reply may have made them `already`."""
        asked = 0

        def append() -> list[AppendResult]:
            nonlocal asked
            asked += 1
            return self._store.append(self._producer_id, appends)

        return self._asked(append), asked > 1

    def _asked(self, question: Callable[[], Answer]) -> Answer:
        """Again and again until Redis answers. Raises StoreUnavailable after `give_up_s`."""
        began = time.monotonic()

        def may_wait(error: StoreUnavailable) -> bool:
            if time.monotonic() - began > self.give_up_s:
                return False
            if self.waiting_since is None:
                self.waiting_since = began
                self.on_trouble(str(error))
            return True

        answer = asked(question, TRY_AGAIN_S, may_wait)
        self.waiting_since = None
        return answer

    def _is_ours(self, append: Append) -> bool:
        there = self._asked(lambda: self._produced(append.partition.number))
        return (there.sequence, there.note) == (append.sequence, append.note)

    def _point(self, number: int) -> _Point:
        if number not in self._points:
            self._points[number] = self._stored(number) if self._resume else _Point()
        return self._points[number]

    def _produced(self, number: int) -> Produced:
        return self._store.produced(self._producer_id, Partition(self._stream, number))

    def _stored(self, number: int) -> _Point:
        there = self._produced(number)
        if not there.sequence:
            return _Point()
        last_id, _, events = there.note.partition(" ")[2].partition(" ")
        return _Point(there.sequence, int(last_id), int(events or 0))
