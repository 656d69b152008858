"""The same load on SQLite and on PostgreSQL, with one web process and with two: a row each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dashboard.evaluation.load.aims import Sizes
from dashboard.evaluation.load.check import check
from dashboard.management.arguments import say

WEBS = (1, 2)
# Column -> the path of its value in what a run found.
COLUMNS = {
    "Database": "database",
    "Web processes": "webs",
    "Timeouts": "timeouts",
    "Errors": "errors",
    "Web, us a beat": "web_us_per_beat",
    "p50, ms": "p50_ms",
    "p99, ms": "p99_ms",
    "Web, cores": "cpu_cores.web",
    "Worker": "cpu_cores.worker",
    "Redis": "cpu_cores.redis",
    "Database, cores": "cpu_cores.database",
    "Longest time between ticks, ms": "tick_gap_max_ms",
    "Joining steady after, s": "join_steady_s",
    "Moves": "moves",
    "All else on the machine, cores": "others_cores",
}
NOTHING = "—"


def rows(asked: Sizes, seed: int) -> Iterator[dict[str, Any]]:
    """What each run found, with its `database` and what it `missed`. Raises TreeFailed, Stopped."""
    for postgres in (False, True):
        for webs in WEBS:
            database = "PostgreSQL" if postgres else "SQLite"
            say(f"{database}, web processes: {webs}")
            found, missed = check(replace(asked, postgres=postgres, webs=webs), seed)
            yield {"database": database, **found, "missed": missed}


def as_markdown(found: Sequence[Mapping[str, Any]]) -> str:
    lines = [tuple(COLUMNS), ("---",) * len(COLUMNS)]
    lines += [tuple(_value(row, path) for path in COLUMNS.values()) for row in found]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _value(row: Mapping[str, Any], path: str) -> str:
    found: Any = row
    for part in path.split("."):
        found = found[part]
    if found is None:
        return NOTHING
    return f"{found:,}" if isinstance(found, int) else str(found)
