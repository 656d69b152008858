"""What a Spark task does when Redis does not answer while it reads."""

from collections.abc import Iterator, Sequence

import pytest

from agent.spark import reading
from agent.store.door import StoreUnavailable
from assignment.types import Offset, Partition, Range

ENTRIES = [[f"{n}-0".encode(), []] for n in range(1, 5)]
OUTAGE_S = 50.0  # of a Redis that reads a large file: no task may end its query by then


class Away:
    """Entries that come one by one, and a Redis that is away for OUTAGE_S after the second."""

    def __init__(self) -> None:
        self.waited_s = 0.0

    def read(
        self, partition: Partition, start: Offset, end: Offset, replication_id: str
    ) -> Iterator[Sequence[object]]:
        for entry in ENTRIES[start.ms : end.ms]:
            if entry is ENTRIES[2] and self.waited_s < OUTAGE_S:
                raise StoreUnavailable("connection refused")
            yield [entry]

    def sleep(self, seconds: float) -> None:
        self.waited_s += seconds


def test_a_task_goes_on_where_it_was_once_redis_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    events = Away()
    monkeypatch.setattr(reading.time, "sleep", events.sleep)
    one = Range(Partition("flights", 0), Offset(0, 0), Offset(4, 0), 1)
    assert list(reading._read_again(events, one)) == [[e] for e in ENTRIES]
    assert events.waited_s >= OUTAGE_S
