"""The flights pipeline's result as rows: what the changelogs came to, merged over partitions.

Keys and values are those that the pipeline documents: `route|CARRIER|ORIGIN|DEST` -> an object with
integer counts, names, and `delays`, the exact histogram of minutes. Shares no code with it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from assignment.wire import ChangelogEntry, unpack_changes
from dashboard.evaluation.flights_check import COLUMNS, COUNTS, JOINED_COUNTS, KEYS, NAMES
from dashboard.evaluation.judge import Commits

ROUTE = "route"
P95 = "delay_p95"
SUMMED = [name for name in COUNTS + JOINED_COUNTS if name != P95]


def merged(commits: Commits) -> pd.DataFrame:
    """COLUMNS, one row per carrier and route, sorted by them."""
    values: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for entries in commits.values():
        for key, value in state_of(entries).items():
            kind, *route = key.split("|")
            if kind == ROUTE:
                values.setdefault(tuple(route), []).append(value)
    rows = [row_of(route, parts) for route, parts in sorted(values.items())]
    numbers = dict.fromkeys(COUNTS + JOINED_COUNTS, "Int64")
    return pd.DataFrame(rows, columns=COLUMNS).astype(numbers)


def state_of(entries: Iterable[ChangelogEntry]) -> dict[str, Any]:
    """Key -> value of a partition: every entry holds whole new values, None for a deletion."""
    state: dict[str, Any] = {}
    for entry in entries:
        state.update(unpack_changes(entry.changes))
    return {key: value for key, value in state.items() if value is not None}


def keys_of(entries: Iterable[ChangelogEntry]) -> int:
    """How many keys the state of a partition has."""
    return len(state_of(entries))


def row_of(route: tuple[str, ...], parts: list[Mapping[str, Any]]) -> dict[str, Any]:
    delays: Counter[int] = Counter()
    for part in parts:
        delays.update({int(minutes): flights for minutes, flights in part["delays"].items()})
    return {
        **dict(zip(KEYS, route, strict=True)),
        **{name: parts[0][name] for name in NAMES},
        **{name: sum(part[name] for part in parts) for name in SUMMED},
        P95: nearest_rank_95(delays),
    }


def nearest_rank_95(delays: Mapping[int, int]) -> int | None:
    """The smallest value whose cumulative count is at least ceil(0.95 * count), in integers."""
    wanted = -(-95 * sum(delays.values()) // 100)
    reached = 0
    for minutes, flights in sorted(delays.items()):
        reached += flights
        if reached >= wanted:
            return minutes
    return None
