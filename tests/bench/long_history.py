"""How long a partition's timeline and the map at a moment take when history has 50,000,000 rows.

A group whose partitions change hands one after the other, evenly, until now. The rows lie in the
table as they came, by time; its indexes are made when it is full. Those by which these views look
nothing up are left out, since they take longer than all the rest (a test says that the views need
no other). SQLite in a temporary folder, which goes afterwards: some 8 GB, and minutes to fill. Each
figure is from the view's call to its last byte, middleware apart; each moment and each partition is
asked for once.
"""

import random
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.bench import apart
from tests.bench.apart import Figure, NotMeasured

FIGURES = (Figure(name="history_50m_rows_ms", aim=20),)
ROWS = 50_000_000
PARTITIONS, MEMBERS = 20_000, 200
STEP_MS = 50  # between two tenures that begin: 29 days in all
GAP_MS = 50  # nobody has a partition for so long
NEXT = 7_919  # from a partition to the one that changes hands next; prime to PARTITIONS
MAP_BEHIND = 250  # tenures that began since the stored map: as the coordinator stores them
ASKED = 100  # of each
BYTES_A_ROW = 200  # table and indexes, and what the largest of these needs to be sorted
CHUNK = 2_000_000
PROGRAM = "from tests.bench import long_history; long_history.{}"
TABLE = "dashboard_tenure"
UNIQUE = 'CONSTRAINT "one_tenure_per_fence" UNIQUE ("group_id", "partition", "fence"), '
INDEXES = ("tenure_started", "tenure_ended", "tenure_of_partition", "tenure_open")
FILL = f"""
WITH RECURSIVE n (i) AS (SELECT :first UNION ALL SELECT i + 1 FROM n WHERE i + 1 < :past),
  tenure (i, number, started_ms, ended_ms) AS (
    SELECT i, (i * {NEXT}) % {PARTITIONS}, :begun_ms + i * {STEP_MS},
      :begun_ms + (i + {PARTITIONS}) * {STEP_MS} - {GAP_MS} FROM n)
INSERT INTO {TABLE}
  (group_id, number, partition, member_id, fence, started_ms, ended_ms, "end")
SELECT :group_id, number, 'bench:' || number, 'm' || ((i * 7 + i / {PARTITIONS}) % {MEMBERS}),
  i / {PARTITIONS} + 1, started_ms, IIF(i + {PARTITIONS} < :rows, ended_ms, NULL),
  IIF(i + {PARTITIONS} < :rows, 'released', NULL)
FROM tenure
"""


def figures() -> list[dict[str, Any]]:
    return apart.rows(FIGURES, measured)


def measured() -> list[tuple[float, str]]:
    found = apart.values(PROGRAM.format("fill()"), PROGRAM.format("measure()"))
    names = ("picture of a day", "its table", "map")
    each = ", ".join(f"{name} {ms:.1f}" for name, ms in zip(names, found, strict=True))
    of = f"the slowest of these, p95 of {ASKED}: {each} ms; {ROWS} rows, SQLite"
    return [(round(max(found), 1), of)]


# --- fill -----------------------------------------------------------------------------------------


def fill() -> None:
    from django.db import connection

    path = Path(connection.settings_dict["NAME"])
    check_room(path.parent, ROWS)
    begun_ms = int(time.time() * 1000) - ROWS * STEP_MS
    group_id = make_group(begun_ms)
    connection.close()
    with_tenures(path, group_id, begun_ms)
    store_maps(group_id, begun_ms)


def check_room(folder: Path, rows: int) -> None:
    """Raises NotMeasured."""
    free, needed = shutil.disk_usage(folder).free, rows * BYTES_A_ROW
    if free < needed:
        raise NotMeasured(
            f"{folder} has {free / 1e9:.1f} GB free, {rows} rows need {needed / 1e9:.1f} GB"
        )


def make_group(begun_ms: int) -> int:
    from dashboard.models import Group, MemberRecord

    settings = {"stream": "bench", "partitions": PARTITIONS}
    group = Group.objects.create(name="bench", settings=settings, **settings)
    MemberRecord.objects.bulk_create(
        MemberRecord(group=group, member_id=f"m{n}", joined_at_ms=begun_ms) for n in range(MEMBERS)
    )
    return group.pk


def with_tenures(path: Path, group_id: int, begun_ms: int) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    pragmas = ("journal_mode = DELETE", "journal_mode = OFF", "synchronous = OFF")
    for pragma in (*pragmas, "cache_size = -500000", "threads = 2"):
        database.execute(f"PRAGMA {pragma}")
    database.execute(f"PRAGMA temp_store_directory = '{path.parent}'")
    indexes = without_indexes(database)
    values = {"group_id": group_id, "begun_ms": begun_ms, "rows": ROWS}
    for first in range(0, ROWS, CHUNK):
        past = min(first + CHUNK, ROWS)
        database.execute(FILL, {**values, "first": first, "past": past})
        said(path, f"{past} of {ROWS} rows")
    for number, sql in enumerate(indexes, 1):
        database.execute(sql)
        said(path, f"{number} of {len(indexes)} indexes")
    database.execute("PRAGMA journal_mode = WAL")
    database.close()


def without_indexes(database: sqlite3.Connection) -> list[str]:
    """Makes the table, which is empty, anew without what its rows are looked up by. Returns what
    makes INDEXES.
    """
    sql = "SELECT sql FROM sqlite_master WHERE name = ?"
    [table], *found = (database.execute(sql, (name,)).fetchone() for name in (TABLE, *INDEXES))
    assert UNIQUE in table, table
    database.execute(f"DROP TABLE {TABLE}")
    database.execute(table.replace(UNIQUE, ""))
    return [index for [index] in found]


def said(path: Path, done: str) -> None:
    apart.progress(f"{done}, {path.stat().st_size / 1e9:.1f} GB")


# --- moments --------------------------------------------------------------------------------------


def moments() -> list[int]:
    """Tenures that begin at the moments which are asked for; the same in every process."""
    return sorted(random.Random(0).sample(range(2 * PARTITIONS, ROWS), ASKED + 1))


def store_maps(group_id: int, begun_ms: int) -> None:
    """Before each moment the one that would be there: of tenure `latest` and those before it."""
    import numpy as np

    from assignment.ownership import OwnershipMap, pack
    from dashboard.models import StoredMap

    names, chance = tuple(f"m{n}" for n in range(MEMBERS)), random.Random(1)
    for asked in moments():
        latest = asked - chance.randrange(MAP_BEHIND)
        i = np.arange(latest - PARTITIONS + 1, latest + 1)
        number = i * NEXT % PARTITIONS
        owner, fence, since_ms = (np.zeros(PARTITIONS, np.int64) for _ in range(3))
        owner[number] = (i * 7 + i // PARTITIONS) % MEMBERS
        fence[number], since_ms[number] = i // PARTITIONS + 1, begun_ms + i * STEP_MS
        found = OwnershipMap(names=names, owner=owner, fence=fence, since_ms=since_ms)
        at_ms = begun_ms + latest * STEP_MS
        StoredMap.objects.create(group_id=group_id, at_ms=at_ms, seq=2 * latest, map=pack(found))


# --- measure --------------------------------------------------------------------------------------


def measure() -> None:
    """In a process of its own: prints milliseconds, each the 95th of a hundred: of the picture of a
    partition's last day, of the table below it, and of the map at a moment.
    """
    from dashboard.models import Group

    group = Group.objects.get()
    first = group.tenures.order_by("started_ms").values_list("started_ms", flat=True).first()
    assert first is not None
    numbers = random.Random(2).sample(range(PARTITIONS), 2 * (ASKED + 1))
    times = [first + tenure * STEP_MS for tenure in moments()]
    print(
        slowest(group, picture, numbers[ASKED + 1 :]), slowest(group, table, numbers[: ASKED + 1]),
        slowest(group, map_at, times),
    )  # fmt: skip


def picture(group: Any, number: int) -> None:
    from django.test import RequestFactory

    from dashboard.pages.views import ownership

    request = RequestFactory().get("/", {"first": number, "last": number, "rows": 1})
    assert ownership.ownership_picture(request, group.name).status_code == 200


def table(group: Any, number: int) -> None:
    from django.http import QueryDict

    from dashboard.pages.views import base, ownership

    seen = base.Seen(group=group, snapshot=None, problem="", hues={})
    drawn = ownership.timeline(seen.group, base.Asked(QueryDict()), seen.now_ms, number=number)
    assert drawn["page"].rows, number


def map_at(group: Any, at_ms: int) -> None:
    from django.test import RequestFactory

    from dashboard.pages.views import epochs

    answer = epochs.map_bytes(RequestFactory().get("/", {"at": at_ms}), group.name)
    assert answer.status_code == 200


def slowest(group: Any, ask: Callable[[Any, int], None], each: Iterable[int]) -> float:
    """But one of twenty. The first one is not counted: it loads what every process loads once."""
    first, *rest = each
    ask(group, first)
    taken: list[float] = []
    for one in rest:
        began_s = time.perf_counter()
        ask(group, one)
        taken.append((time.perf_counter() - began_s) * 1000)
    return apart.share(taken, 95)
