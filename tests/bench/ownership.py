"""How long the first picture of ownership over time takes, of a large group's whole history.

A process that has just begun answers the request as the web process does, from the session to the
last byte. SQLite; tenures lie in the table as they came, by time, and not by partition.
"""

import time
from typing import Any

from tests.bench import apart
from tests.bench.apart import Figure

FIGURES = (Figure(name="ownership_over_time_ms", aim=500),)
PARTITIONS, ROUNDS = 20_000, 100  # each partition changed hands so often
INTERVALS = PARTITIONS * ROUNDS
MEMBERS = 200
STEP_MS = 600_000  # between two tenures of a partition
PROGRAM = "from tests.bench import ownership; ownership.{}()"
# Each partition's tenures follow each other with a gap of 50 ms; the last goes on.
FILL = f"""
WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < %s)
INSERT INTO dashboard_tenure
  (group_id, number, partition, member_id, fence, started_ms, ended_ms, "end")
SELECT %s, i %% {PARTITIONS}, 'bench:' || (i %% {PARTITIONS}),
  'm' || ((i * 7 + i / {PARTITIONS}) %% {MEMBERS}), i / {PARTITIONS} + 1,
  %s + (i / {PARTITIONS}) * {STEP_MS} + i %% {PARTITIONS},
  CASE WHEN i / {PARTITIONS} + 1 < {ROUNDS}
    THEN %s + (i / {PARTITIONS} + 1) * {STEP_MS} + i %% {PARTITIONS} - 50 END,
  CASE WHEN i / {PARTITIONS} + 1 < {ROUNDS} THEN 'released' END
FROM n
"""


def figures() -> list[dict[str, Any]]:
    return apart.rows(FIGURES, measured)


def measured() -> list[tuple[float, str]]:
    [took_ms] = apart.values(PROGRAM.format("fill"), PROGRAM.format("measure"))
    of = f"first picture of {INTERVALS} intervals, {PARTITIONS} partitions, SQLite"
    return [(round(took_ms), of)]


def fill() -> None:
    from django.contrib.auth.models import User
    from django.db import connection

    from dashboard.models import Group, MemberRecord

    begun_ms = int(time.time() * 1000) - ROUNDS * STEP_MS
    settings = {"stream": "bench", "partitions": PARTITIONS}
    group = Group.objects.create(name="bench", settings=settings, **settings)
    MemberRecord.objects.bulk_create(
        MemberRecord(group=group, member_id=f"m{n}", joined_at_ms=begun_ms) for n in range(MEMBERS)
    )
    User.objects.create_superuser("bench")
    with connection.cursor() as cursor:
        cursor.execute(FILL, [INTERVALS, group.pk, begun_ms, begun_ms])


def measure() -> None:
    """In a process of its own: prints milliseconds."""
    from django.contrib.auth.models import User
    from django.test import Client

    from dashboard.pages.picture import BYTES_MAX

    client = Client(SERVER_NAME="localhost")
    client.force_login(
        User.objects.get(username="bench"), backend="django.contrib.auth.backends.ModelBackend"
    )
    client.get("/password/")  # what every process loads once
    began_s = time.perf_counter()
    answer = client.get("/groups/bench/ownership/picture?span=all&rows=480&width=1200")
    took_ms = (time.perf_counter() - began_s) * 1000
    assert answer.status_code == 200, answer.content
    assert len(answer.content) <= BYTES_MAX, len(answer.content)
    print(took_ms)
