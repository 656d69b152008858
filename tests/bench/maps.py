"""How long a map at a moment takes, from the query to the bytes a page's script reads.

In a process of its own, with SQLite in a file: every partition has an owner, then EPOCHS times a
tenth of them change hands, through the same ingestion as ever. The figure is the 95th of a hundred
of random moments.
"""

import random
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from tests.bench import apart
from tests.bench.apart import Figure

FIGURES = {
    20_000: Figure(name="map_at_20k_ms", aim=5.0),
    100_000: Figure(name="map_at_100k_ms", aim=20.0),
}
MEMBERS = 200
EPOCHS = 5
MOMENTS = 200
PROGRAM = "from tests.bench import maps; maps.measure({})"


def figures() -> list[dict[str, Any]]:
    found = (apart.rows([figure], partial(measured, size)) for size, figure in FIGURES.items())
    return [row for rows in found for row in rows]


def measured(size: int) -> list[tuple[float, str]]:
    value, middle = apart.values(PROGRAM.format(size))
    of = f"p95 of {MOMENTS} moments, median {middle:.1f} ms; SQLite"
    return [(round(value, 2), of)]


def measure(size: int) -> None:
    """Prints the 95th of a hundred and the median, in milliseconds."""
    from assignment import ownership
    from dashboard.records.queries import ownership as queries

    group, last_ms = filled(size)
    chance, taken = random.Random(0), []
    for _ in range(MOMENTS):
        at_ms = chance.randint(size, last_ms)
        began_s = time.perf_counter()
        ownership.encode(queries.at(group, at_ms), {"at_ms": at_ms})
        taken.append((time.perf_counter() - began_s) * 1_000)
    print(apart.share(taken, 95), apart.share(taken, 50))


def filled(size: int) -> tuple[Any, int]:
    """The group, and the time of its last event. Ten events a millisecond."""
    from dashboard.coordinator import history as storing
    from dashboard.live.groups import EVENTS_AT_ONCE
    from dashboard.models import Group

    settings = {"stream": "bench", "partitions": size}
    group = Group.objects.create(name="bench", stream="bench", partitions=size, settings=settings)
    events, last_ms = of(size), 0
    while some := list(islice(events, EVENTS_AT_ONCE)):
        assert storing.store(group, some)
        last_ms = some[-1].at_ms
    return group, last_ms


def of(size: int) -> Iterator[Any]:
    from assignment.scripts.lock_events import LockEvent
    from assignment.types import Partition

    chance, fences, seq = random.Random(1), dict.fromkeys(range(size), 0), 0

    def event(kind: str, number: int) -> LockEvent:
        nonlocal seq
        seq += 1
        fence = fences[number]
        return LockEvent(
            entry_id=f"{seq}-0", seq=seq, kind=kind, partition=Partition("bench", number),
            member_id=f"member-{(number + fence) % MEMBERS}", fence=2**32 + number + fence * size,
            at_ms=size + seq // 10,
        )  # fmt: skip

    for number in fences:
        yield event("acquired", number)
    for _ in range(EPOCHS):
        for number in chance.sample(range(size), size // 10):
            yield event("released", number)
            fences[number] += 1
            yield event("acquired", number)
