"""The producer library: events with keys in, entries of the right partitions out.

    with Producer("redis://localhost", "orders", partitions=12) as producer:
        producer.send("customer-7", {"customer": "customer-7", "amount": 12})

Events of one key stay in order in one partition. A batch asked for again after a lost reply is not
appended twice.
"""

import threading
import time
import uuid
import zlib
from collections.abc import Callable, Sequence
from typing import Self

from agent.producer.entries import Event, Item, check_form, item_of, pack
from agent.producer.sender import NO_ID, Batch, Gone, Sender
from agent.store.cluster import door_to
from agent.store.door import Door, Timeouts
from agent.store.events import EventStore
from assignment.errors import EvenkeelError, InvalidInput
from assignment.types import valid_name

BATCH_EVENTS = 500  # so many of one partition are sent at once
BATCH_EVENTS_MAX = 2_000  # of one partition in one call: Redis does nothing else meanwhile
LINGER_MS = 50  # fewer are sent after this time
BUFFER_EVENTS_MAX = 20_000  # `send` waits when so many are not stored yet
BUFFER_BYTES_MAX = 64 * 2**20
GIVE_UP_S = 300.0  # without an answer of Redis
TIMEOUTS = Timeouts(connect_s=2.0, answer_s=10.0)

Acknowledged = Callable[[Sequence[int]], None]


def partition_of(key: str, partitions: int) -> int:
    """CRC-32 of the key's UTF-8: the same in every process and language."""
    return zlib.crc32(key.encode()) % partitions


class Producer:
    """Appends to one stream from a thread of its own; `send` may be called by any thread.

    `partitions` makes the stream; None: it must be there. `acknowledged` gets the ids of events
    that are stored, in the producer's thread. With a `producer_id` that was used before, events
    whose id is not above the last stored one of their partition are left out: give the same events
    again, in the same order, and each is stored once. Raises InvalidInput, StoreUnavailable.

    A Redis that lost its last writes ends nothing: what was not acknowledged is sent again, and
    acknowledged events that are gone are told to `on_gone`, at the latest by `flush` and `close`;
    `gone` counts them.
    """

    def __init__(
        self,
        redis_url: str,
        stream: str,
        *,
        form: str = "arrow",
        partitions: int | None = None,
        producer_id: str | None = None,
        acknowledged: Acknowledged | None = None,
        on_gone: Callable[[Gone], None] | None = None,
        batch_events: int = BATCH_EVENTS,
        linger_ms: int = LINGER_MS,
        give_up_s: float = GIVE_UP_S,
        door: Door | None = None,
    ) -> None:
        if not 1 <= batch_events <= BATCH_EVENTS_MAX:
            raise InvalidInput(f"batch_events {batch_events} is not in 1 to {BATCH_EVENTS_MAX}")
        self.form = check_form(form)
        resume = producer_id is not None
        self.producer_id = valid_name("producer id", producer_id or f"p-{uuid.uuid4().hex}")
        self._door = door or door_to(redis_url, TIMEOUTS)
        events = EventStore(self._door)
        if partitions is not None:
            events.ensure(stream, partitions)
        self.partitions = events.partitions(stream)
        self.sender = Sender(events, stream, self.producer_id, resume=resume, give_up_s=give_up_s)
        self.sender.on_gone = self._lost
        self.gone = 0
        self._on_gone = on_gone or (lambda gone: None)
        self._sending = threading.Lock()
        self._last_ids = [self.sender.last_id(n) for n in range(self.partitions)] if resume else []
        self._acknowledged = acknowledged or (lambda ids: None)
        self._batch_events = batch_events
        self._linger_s = linger_ms / 1000
        self._changed = threading.Condition()
        self._waiting: dict[int, list[Item]] = {}
        self._oldest: float | None = None  # since when something waits
        self._held = 0
        self._held_bytes = 0
        self._urgent = False
        self._closing = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)
        self._thread.start()

    def resumes_after(self) -> int:
        """The highest event id that an earlier process stored; -1 when none did."""
        return max(self._last_ids, default=NO_ID)

    def send(self, key: str, event: Event, event_id: int | None = None) -> bool:
        """False when it was stored by an earlier process. Waits while the buffer is full.

        Raises InvalidInput for this event alone; anything else ends the producer.
        """
        number = partition_of(key, self.partitions)
        if self._last_ids and event_id is not None and event_id <= self._last_ids[number]:
            return False
        item = item_of(self.form, event, event_id)
        with self._changed:
            while self._is_full() and self._is_well():
                self._changed.wait()
            self._check()
            self._held += 1
            self._held_bytes += len(item.encoded)
            items = self._waiting.setdefault(number, [])
            items.append(item)
            if self._oldest is None:
                self._oldest = time.monotonic()
                self._changed.notify_all()
            elif len(items) == self._batch_events:
                self._changed.notify_all()
        return True

    def flush(self) -> None:
        """Returns when all that was sent is stored, or was told to be gone."""
        with self._changed:
            self._urgent = True
            self._changed.notify_all()
            while self._held and self._is_well():
                self._changed.wait()
            self._urgent = False
            self._check()
        with self._sending:
            self.sender.verify()

    def close(self) -> None:
        """Flushes. The second time it does nothing."""
        if self._closing:
            return
        try:
            self.flush()
        finally:
            with self._changed:
                self._closing = True
                self._changed.notify_all()
            self._thread.join()
            self._door.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what the thread does

    def _run(self) -> None:
        try:
            while taken := self._take():
                self._send(taken)
        except BaseException as error:  # told to whoever sends, flushes or closes
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _send(self, taken: dict[int, list[Item]]) -> None:
        batches = [
            Batch(
                number,
                pack(self.form, items),
                max((i.event_id for i in items if i.event_id is not None), default=NO_ID),
            )
            for number, items in taken.items()
        ]
        with self._sending:
            self.sender.send(batches)
        everything = [item for items in taken.values() for item in items]
        self._acknowledged([i.event_id for i in everything if i.event_id is not None])
        with self._changed:
            self._held -= len(everything)
            self._held_bytes -= sum(len(item.encoded) for item in everything)
            self._changed.notify_all()

    def _lost(self, gone: Gone) -> None:
        self.gone += gone.events
        self._on_gone(gone)

    def _take(self) -> dict[int, list[Item]]:
        """What is to be sent now, waiting for it; empty when closing."""
        with self._changed:
            while not (ready := self._ready()):
                if self._closing:
                    return {}
                self._changed.wait(self._patience_s())
            return {number: self._take_some(number) for number in ready}

    def _ready(self) -> list[int]:
        if self._oldest is None:
            return []
        patience = self._patience_s()
        if self._urgent or self._is_full() or (patience is not None and patience <= 0):
            return list(self._waiting)
        return [n for n, items in self._waiting.items() if len(items) >= self._batch_events]

    def _take_some(self, number: int) -> list[Item]:
        items = self._waiting.pop(number)
        taken, left = items[:BATCH_EVENTS_MAX], items[BATCH_EVENTS_MAX:]
        if left:
            self._waiting[number] = left
        elif not self._waiting:
            self._oldest = None
        return taken

    def _patience_s(self) -> float | None:
        if self._oldest is None:
            return None
        return self._oldest + self._linger_s - time.monotonic()

    def _is_full(self) -> bool:
        return self._held >= BUFFER_EVENTS_MAX or self._held_bytes >= BUFFER_BYTES_MAX

    def _is_well(self) -> bool:
        return self._failure is None and not self._closing

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closing:
            raise EvenkeelError("the producer is closed")
