"""The tables of docs/measured.md, made of what runs have left, and the lines that keep those runs
beside it. Pure.

A table stands between two comments that name it; what is there is replaced, the prose is people's.
What has not been run says so.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from statistics import median
from typing import Any

from assignment.errors import InvalidInput
from dashboard.evaluation.chaos.asked import Asked
from dashboard.evaluation.judge import FAILED, HELD, VACUOUS, VIOLATED
from dashboard.evaluation.table import ROWS, THEIRS, Row

NOT_RUN, UNKNOWN = "not run yet", "—"
PATHS = re.compile(r"(/[\w.-]+){2,}")  # of the machine that it ran on
VERDICTS = {VIOLATED: "violated", VACUOUS: "vacuous or not healed", FAILED: "failed"}
Found = Mapping[str, Any]
Cell = Callable[[Sequence[Found]], str]


def put(page: str, tables: Mapping[str, Iterable[str]]) -> str:
    """Raises InvalidInput: the page has no such place."""
    for name, lines in tables.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        head, found, rest = page.partition(begin)
        _, closed, tail = rest.partition(end)
        if not (found and closed):
            raise InvalidInput(f"the page has no place for {name}: {begin.strip()} and {end}")
        page = "".join((head, begin, *(f"{line}\n" for line in lines), end, tail))
    return page


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for cells in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(cells)} |"


# --- faults


def column(name: str, figure: Callable[[Sequence[float]], float], form: str = ",g") -> Cell:
    def cell(rows: Sequence[Found]) -> str:
        found = [row[name] for row in rows if row.get(name) is not None]
        return format(figure(found), form) if found else UNKNOWN

    return cell


def recovered(rows: Sequence[Found]) -> str:
    figures = (column("recovered_ms", figure, ",.0f")(rows) for figure in (median, max))
    return " / ".join(figures)


def count(is_one: Callable[[Found], bool]) -> Cell:
    return lambda rows: str(sum(map(is_one, rows)))


# What a fault costs is known from runs in which it did something and was healed.
COSTS: dict[str, Cell] = {
    "recovered, median / max ms": recovered,
    "bound ms": column("bound_ms", max, ",.0f"),
    "moves, median": column("moves", median),
    "avoidable, median": column("avoidable_moves", median),
    "unaffected paused, max share": column("unaffected_paused", max),
    "refused commits, sum": column("refused_commits", sum, ","),
}
COUNTS: dict[str, Cell] = {
    "runs": count(lambda row: True),
    "held": count(lambda row: row["exit"] == HELD),
    "vacuous": count(lambda row: bool(row.get("vacuous"))),
}
EFFECTS: dict[str, Cell] = {n: column(n, sum, ",") for n in ("lost", "doubled", "destroyed")}
FAULT_COLUMNS = ("fault", "coordination", *COUNTS, *COSTS, *EFFECTS)


def fault_tables(wanted: Iterable[Asked], stored: Mapping[Asked, Found]) -> dict[str, list[str]]:
    """A row for each fault and coordination that is wanted, whatever its seeds."""
    sections: dict[str, dict[Asked, list[Found]]] = defaultdict(dict)
    for asked in wanted:
        sections[section(asked)].setdefault(asked.any_seed, [])
    for asked, row in stored.items():
        runs = sections.get(section(asked), {}).get(asked.any_seed)
        if runs is not None:
            runs.append(row)
    return {name: list(_fault_table(rows)) for name, rows in sections.items()}


def section(asked: Asked) -> str:
    """The name of the table that it stands in."""
    if asked.consumer == "spark":
        return "faults-spark"
    return "faults-fast" if asked.fast else "faults-default"


def _fault_table(rows: Mapping[Asked, Sequence[Found]]) -> Iterator[str]:
    yield from grid(FAULT_COLUMNS, (fault_row(asked, runs) for asked, runs in rows.items()))
    runs = [run for found in rows.values() for run in found]
    yield ""
    yield from settings(runs)
    yield from (exception(run) for run in runs if run["exit"] != HELD)


TOLD_BY_ASKED = ("options", "folder", "coordination", "strategy", "seed")


def kept(lines: Iterable[str]) -> dict[Asked, Found]:
    """Of what `to_keep` made. Raises InvalidInput, ValueError, KeyError, TypeError."""
    found: dict[Asked, Found] = {}
    for line in lines:
        run: dict[str, Any] = json.loads(line)
        asked = Asked.of(run["asked"])
        found[asked] = {**run, "options": " ".join(asked.options())}
    return found


def to_keep(wanted: Iterable[Asked], stored: Mapping[Asked, Found]) -> Iterator[str]:
    """A line for each run whose row is wanted, in the order of what was asked for; of that, what
    is not as usual.
    """
    rows = {asked.any_seed for asked in wanted}
    usual = {f.name: f.default for f in fields(Asked)}
    chosen = [asked for asked in stored if asked.any_seed in rows]
    for asked in sorted(chosen, key=lambda asked: asked.options()):
        values = {name: v for name, v in asked.values().items() if v != usual[name]}
        run = {name: v for name, v in stored[asked].items() if name not in TOLD_BY_ASKED}
        yield PATHS.sub("…", json.dumps({**run, "asked": values}, ensure_ascii=False))


def fault_row(asked: Asked, runs: Sequence[Found]) -> list[str]:
    costing = [run for run in runs if run["exit"] in (HELD, VIOLATED)]
    cells = [
        *(cell(runs) for cell in COUNTS.values()),
        *(cell(costing) for cell in COSTS.values()),
        *(cell(runs) for cell in EFFECTS.values()),
    ]
    if not runs:
        cells = [NOT_RUN, *[UNKNOWN] * (len(cells) - 1)]
    return ["+".join(asked.faults), asked.coordination, *cells]


def exception(run: Found) -> str:
    said = run.get("error") or "; ".join(run.get("violations") or ())
    told = f": `{PATHS.sub('…', said)}`" if said else ""
    return f"- {VERDICTS[run['exit']]}: `chaos {run['options']}`{told}"


def settings(runs: Iterable[Found]) -> Iterator[str]:
    """A line for each setting under which some were made."""
    days: dict[tuple[tuple[str, Any], ...], list[str]] = defaultdict(list)
    for run in runs:
        days[tuple(run["setting"].items())].append(run["ended_on"])
    for values, ended in days.items():
        when = " to ".join(dict.fromkeys((min(ended), max(ended))))
        under = ", ".join(f"{name} {value}" for name, value in values)
        yield f"- {len(ended)} run{'s' if len(ended) > 1 else ''}, {when}: {under}."


# --- the report's table

TABLE_COLUMNS = (
    *("coordination", "strategy", "learners", "rebalances", "runs", "median ms", "min ms"),
    *("max ms", "partitions moved", "paused partition-ms", "RocketMQ report ms"),
    "slowest run is faster",
)


def rebalance_table(found: Found | None) -> list[str]:
    """Of what `rebalance_table --out` left; None: nothing yet."""
    stored = {key_of(row): row for row in found["rows"]} if found else {}
    rows = (table_row(row, stored.get(key_of(asdict(row)))) for row in ROWS)
    return [*grid(TABLE_COLUMNS, rows), "", *(told(found) if found else ())]


def key_of(row: Found) -> tuple[Any, ...]:
    return row["coordination"], row["strategy"], row["learners"], row["rebalances"]


def table_row(row: Row, found: Found | None) -> list[str]:
    theirs = THEIRS.get((row.coordination, row.strategy)) if not row.learners else None
    their_ms = theirs[row.rebalances - 1] if theirs else None
    cells = [row.coordination, row.strategy, "yes" if row.learners else "no", str(row.rebalances)]
    if found is None:
        return [*cells, NOT_RUN, *[UNKNOWN] * 5, shown(their_ms), UNKNOWN]
    times = [found["median_ms"], found["min_ms"], found["max_ms"]]
    return [
        *(*cells, str(len(found["runs_ms"])), *(f"{ms:,.0f}" for ms in times)),
        *(f"{found['partitions_moved']:g}", f"{found['paused_partition_ms']:,.0f}"),
        *(shown(their_ms), f"{their_ms / found['max_ms']:.1f} x" if their_ms else UNKNOWN),
    ]


def shown(ms: int | None) -> str:
    return UNKNOWN if ms is None else f"{ms:,}"


def told(found: Found) -> Iterator[str]:
    """What was run, and what the test says."""
    consumers = " and ".join(sorted({row["consumer"] for row in found["rows"]}))
    yield f"- {found['messages']:,} messages, {consumers} consumers."
    yield from settings([found] * sum(len(row["runs_ms"]) for row in found["rows"]))
    test = found["test"]
    what = f"- {test['of']}"
    yield f"{what}, one rebalance: {difference(test['once_ms'], ',.0f')} (ms)."
    yield f"{what}, two rebalances: {difference(test['twice_ms'], ',.0f')} (ms)."
    yield f"{what}, as a share of the latter: {difference(test['all_as_share'], '.2%')}."
    yield f"- Test: {test['name']}."


def difference(compared: Found, form: str) -> str:
    if compared["interval"] is None:
        return f"unknown, of {compared['pairs']} pairs"
    middle, low, high = (
        format(value, form) for value in (compared["median_difference"], *compared["interval"])
    )
    return (
        f"median {middle}, 95 %: {low} to {high}, p = {compared['p']:g}, of {compared['pairs']}"
        " pairs"
    )
