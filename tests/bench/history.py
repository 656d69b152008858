"""How fast the locks' events become history, with as many open tenures as a large group has.

history_events_per_second: one process that does nothing else. history_behind_s: a Celery worker and
beat as they are started, from the moment at which all events are in Redis until history has them.
Real Redis and SQLite; of every two events one ends a tenure and one begins the next, twenty of them
a millisecond.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.bench import apart
from tests.bench.apart import ROOT, Figure

FIGURES = (
    Figure(name="history_events_per_second", unit="1/s", aim=20_000),
    Figure(name="history_behind_s", unit="s", aim=15),
)
PARTITIONS = 100_000  # each with an open tenure
EVENTS = 2 * PARTITIONS
DEADLINE_S = 300
HAND_OVER = """
local stream, fence = ARGV[1], tonumber(ARGV[3])
local begins_ms = 1000000 * fence
local function note(kind, number, fence)
  local seq = redis.call('HINCRBY', KEYS[2], 'event_seq', 1)
  redis.call('XADD', KEYS[1], '*', 'seq', seq, 'type', kind, 'partition', stream .. ':' .. number,
    'member', 'm' .. fence, 'fence', fence, 'at_ms',
    begins_ms + math.floor(number / 10))
end
for number = 0, tonumber(ARGV[2]) - 1 do
  note('released', number, fence)
  note('acquired', number, fence + 1)
end
"""
PROGRAM = "from tests.bench import history; history.measure()"


def figures() -> list[dict[str, Any]]:
    return apart.rows(FIGURES, measured)


def measured() -> list[tuple[float, str]]:
    per_second, behind_s = apart.values(PROGRAM)
    of = f"{PARTITIONS} open tenures, SQLite"
    return [
        (round(per_second), f"{EVENTS} events, {of}"),
        (round(behind_s, 1), f"{EVENTS} events at once, {of}"),
    ]


def measure() -> None:
    """In a process of its own, which has Django: prints both values."""
    from dashboard import coordinator
    from dashboard.actions import groups
    from dashboard.records.audit import By

    by = By("bench", "command")
    group = groups.create_group("bench", stream="bench", partitions=PARTITIONS, by=by)
    coordinator.tick()
    group.refresh_from_db()
    give(group)
    write(group, fence=1)
    began_s, stored = time.perf_counter(), 0
    while more := coordinator.store_events(group):
        stored += more
    assert stored == EVENTS, stored
    per_second = stored / (time.perf_counter() - began_s)
    with started("worker", "--without-mingle", "--without-gossip"), started("beat"):
        wait_for_worker()
        print(per_second, caught_up_s(group))


def give(group: Any) -> None:
    """An open tenure of each partition."""
    from dashboard.models import Tenure

    rows = (
        Tenure(
            group=group, number=number, partition=f"{group.stream}:{number}",
            member_id="m1", fence=1, started_ms=1,
        )
        for number in range(PARTITIONS)
    )  # fmt: skip
    Tenure.objects.bulk_create(rows, batch_size=1_000)


def write(group: Any, fence: int) -> None:
    """All at once, as the locks' scripts do: each partition goes over to another member."""
    from assignment.wire import GroupKeys
    from dashboard.live.connection import sync_client

    keys = GroupKeys(group.name)
    sync_client().eval(HAND_OVER, 2, keys.events, keys.meta, group.stream, PARTITIONS, fence)


def wait_for_worker() -> None:
    from dashboard.live import health

    until_s = time.monotonic() + DEADLINE_S
    while health.look().ages_ms[health.Sign.WORKER] is None:
        if time.monotonic() > until_s:
            raise TimeoutError(f"no worker began a task within {DEADLINE_S} s")
        time.sleep(0.2)


def caught_up_s(group: Any) -> float:
    """Raises TimeoutError that says how much is missing."""
    last = group.last_event_seq + EVENTS
    write(group, fence=2)  # one script: nobody reads any of them before all are there
    began_s = time.perf_counter()
    while time.perf_counter() - began_s < DEADLINE_S:
        group.refresh_from_db(fields=["last_event_seq"])
        if group.last_event_seq == last:
            return time.perf_counter() - began_s
        time.sleep(0.2)
    missing = last - group.last_event_seq
    raise TimeoutError(f"after {DEADLINE_S} s history lacks {missing} of {EVENTS} events")


@contextmanager
def started(*arguments: str) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "dashboard.celery", *arguments],
        cwd=ROOT, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        process.terminate()
        process.wait()
