"""Batches of one producer into Redis, each exactly once and in order, however often asked.

Keeps the sequence of each partition; knows no buffer and no form.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.store import StoreUnavailable
from agent.store.events import Append, EventStore, Packed
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


@dataclass(slots=True)
class _Point:
    sequence: int
    last_id: int


class Sender:
    """`resume`: the id was used before, so what is stored under it counts. One thread at a time."""

    def __init__(
        self, store: EventStore, stream: str, producer_id: str, *, resume: bool, give_up_s: float
    ) -> None:
        self.give_up_s = give_up_s  # may be lowered at any moment, from a signal too
        self.waiting_since: float | None = None
        self.on_trouble: Callable[[str], None] = lambda why: None
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
        """Returns when all are stored. At most one batch per partition.

        Raises StoreUnavailable after `give_up_s`, AppendRefused, ProducerIdInUse.
        """
        appends = [
            Append(
                Partition(self._stream, batch.number),
                self._point(batch.number).sequence + 1,
                batch.entries,
                self._note(batch),
            )
            for batch in batches
        ]
        stored, repeated = self._append(appends)
        for batch, append, fresh in zip(batches, appends, stored, strict=True):
            if not fresh and not (repeated and self._is_ours(append)):
                raise ProducerIdInUse(
                    f"another process appends to {append.partition} as producer"
                    f" {self._producer_id!r}: end one of the two"
                )
            self._points[batch.number] = _Point(append.sequence, batch.last_id)

    def _append(self, appends: Sequence[Append]) -> tuple[list[bool], bool]:
        """The answers, and whether a lost reply may have made them `already`."""
        began = time.monotonic()
        while True:
            try:
                stored = self._store.append(self._producer_id, appends)
            except StoreUnavailable as error:
                if time.monotonic() - began > self.give_up_s:
                    raise
                if self.waiting_since is None:
                    self.waiting_since = began
                    self.on_trouble(str(error))
                time.sleep(TRY_AGAIN_S)
            else:
                repeated, self.waiting_since = self.waiting_since is not None, None
                return stored, repeated

    def _note(self, batch: Batch) -> str:
        last = max(batch.last_id, self._point(batch.number).last_id)
        return f"{self._run} {last}"

    def _is_ours(self, append: Append) -> bool:
        there = self._store.produced(self._producer_id, append.partition)
        return (there.sequence, there.note) == (append.sequence, append.note)

    def _point(self, number: int) -> _Point:
        if number not in self._points:
            self._points[number] = self._stored(number) if self._resume else _Point(0, NO_ID)
        return self._points[number]

    def _stored(self, number: int) -> _Point:
        there = self._store.produced(self._producer_id, Partition(self._stream, number))
        last = there.note.rpartition(" ")[2]
        return _Point(there.sequence, int(last) if there.sequence else NO_ID)
