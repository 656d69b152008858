"""Rows that the database takes in a second, each in a transaction of its own: samples, as they are
stored. SQLite in a file, as the dashboard configures it; one process that does nothing else.
"""

import time
from typing import Any

from tests.bench import apart
from tests.bench.one_agent import row

SECONDS = 3.0
PROGRAM = "from tests.bench import database_writes; database_writes.measure()"


def rows() -> list[dict[str, Any]]:
    (per_second,) = apart.values(PROGRAM)
    return [row("database_rows_per_second", round(per_second), "1/s", "SQLite, one at a time")]


def measure() -> None:
    """In a process of its own, which has Django."""
    from dashboard.actions import groups
    from dashboard.models import Sample
    from dashboard.records.audit import By

    by = By("bench", "command")
    group = groups.create_group("bench", stream="bench", partitions=1, by=by)
    began_s, stored = time.perf_counter(), 0
    while (took_s := time.perf_counter() - began_s) < SECONDS:
        Sample.objects.create(group=group, at_ms=stored, members=1, owned=1)
        stored += 1
    print(stored / took_s)
