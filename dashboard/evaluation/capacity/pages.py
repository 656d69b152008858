"""What people read of capacity: the command's text, the tables and pictures of docs/capacity.md."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dashboard.demo.parts import ROOT
from dashboard.evaluation.capacity import curves, measuring, stored
from dashboard.evaluation.capacity.curves import Chart, Curve
from dashboard.evaluation.capacity.formulas import DAY_S, FORMULAS, Constants, Load, predicted
from dashboard.evaluation.capacity.sizing import Asked, cores, web
from dashboard.evaluation.measured import grid, put

PAGE, IMAGES = ROOT / "docs/capacity.md", ROOT / "docs/img"
Found = Mapping[str, Any]
TIMES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)
# Counts of `simulate --growth` that are drawn, while members join.
DRAWN = ("commands", "scripts", "hints delivered", "looks")
TITLES = {
    "capacity_cpu.svg": "CPU by part",
    "capacity_memory.svg": "Memory by part, one process of each",
    "capacity_rates.svg": "Commands of Redis a second, MiB of database a day",
}
GROWTH_FILES = ("capacity_growth_groups.svg", "capacity_growth_group.svg")  # by way
# What the curves begin with, TIMES as much of all.
SMALLEST = Asked(
    agents=50, groups=2, partitions=1_000, beat_s=measuring.BEAT_S, rebalances_a_day=24.0,
    moved=0.1, cores=4, memory_gib=16, events=100.0,
)  # fmt: skip


# --- the command's text


def as_text(found: Found) -> str:
    return "\n".join(_lines(found))


def _lines(found: Found) -> Iterator[str]:
    needs, first, of_one = found["needs"], found["first_limit"], found["machine"]
    of = ", ".join(f"{found[name]:,} {name}" for name in ("agents", "groups", "partitions"))
    yield f"{of}, {found['empty_groups']:,} groups empty, {found['events']:,} events a second:"
    yield (
        f"  machines of {of_one['cores']} cores and {of_one['memory_gib']:g} GiB:"
        f" {needs['machines']} (web processes {needs['web_processes']},"
        f" workers {needs['workers']}, Redis nodes {needs['redis_nodes']})"
    )
    for part, value in needs["cores"].items():
        yield f"  {part}: {value:,.2f} cores, {needs['mib'][part]:,.0f} MiB"
    yield f"  connections to Redis: {needs['redis_connections']:,}"
    yield (
        f"  database: {needs['database_mib_a_day']:,.0f} MiB a day, of which samples are kept for"
        f" a week: {needs['samples_mib_kept']:,.0f} MiB"
    )
    yield f"  events in Redis: {needs['events_mib_an_hour']:,.0f} MiB for each hour they are kept"
    yield f"first limit: {_limit(first)}"
    yield from (f"  then: {_limit(one)}" for one in found["limits"][1:])
    yield "figures, and what they are made of:"
    for name, one in found["figures"].items():
        terms = " + ".join(
            f"{value:,.4g} ({term})" for term, value in one["terms"].items() if value
        )
        yield f"  {name} [{one['unit']}]: {one['value']:,.4g} = {terms or 0}"


def _limit(one: Found) -> str:
    more = "" if one["times"] is None else f", met at {one['times']:g} times this load"
    return (
        f"{one['name']}: {one['value']:,g} of {one['limit']:,g} {one['unit']}"
        f" ({one['used']:.0%}{more}); beyond: {one['beyond']}"
    )


# --- the page


NOT_MEASURED = f"Not measured yet: `{stored.COMMAND}`."


def write(content: Found | None) -> list[str]:
    """The files that were written, by name. None: nothing was measured yet."""
    PAGE.write_text(put(PAGE.read_text(), tables(content)))
    made = {**pictures(content), **growth_pictures(stored.read_growth())}
    for name, text in made.items():
        (IMAGES / name).write_text(text)
    return [PAGE.name, *made]


def tables(content: Found | None) -> dict[str, list[str]]:
    growth = [*_growth(stored.read_growth())]
    if content is None:
        places = ("constants", "pictures", "checked", "fits", "repeats")
        return {**{place: [NOT_MEASURED] for place in places}, "growth": growth}
    return {
        "constants": [*_constants(content), "", *_origin(content)],
        "pictures": [*_links(pictures(content))],
        "checked": [*_checked(content)],
        "fits": [*_rows(content["fits"])],
        "repeats": [*_repeats(content)],
        "growth": growth,
    }


def _links(names: Iterable[str]) -> Iterator[str]:
    for number, name in enumerate(names):
        yield from ([""] if number else [])
        yield f"![{TITLES[name]}](img/{name})"


def _constants(content: Found) -> Iterator[str]:
    rows = [
        [f"`{name}`", FORMULAS[name].of, FORMULAS[name].unit, _formula(terms)]
        for name, terms in content["constants"].items()
    ]
    return grid(("figure", "what it is", "unit", "formula"), rows)


def _formula(terms: Mapping[str, float]) -> str:
    of = [
        f"{value:.3g}" if term == "one" else f"{value:.3g} x {term}"
        for term, value in terms.items()
        if value
    ]
    return " + ".join(of) or "0"


def _origin(content: Found) -> Iterator[str]:
    found = content["benches"]
    yield (
        f"- `{content['command']}`, {content['day']}, commit {content['commit']}:"
        f" {', '.join(f'{name} {value}' for name, value in content['setting'].items())}."
    )
    others = [run["others_cores"] for run in content["runs"]]
    yield (
        f"- Other work on the machine took {min(others):.2f} to {max(others):.2f} cores meanwhile."
    )
    yield (
        f"- An agent opens {found['agent_redis_connections']:g} connections to Redis; one takes"
        f" {found['redis_connection_kib']:g} KiB there (`bench agent_connections`). What events"
        " take is of `bench event_cost`. The database takes"
        f" {found['database_rows_per_second']:,.0f} rows a second, each in a transaction of its own"
        " (`bench database_writes`)."
    )


COLUMNS = ("members / groups / partitions", "figure", "unit", "predicted", "measured", "ratio")


def _rows(rows: Sequence[Found]) -> Iterator[str]:
    return grid(
        COLUMNS,
        [
            [
                row["size"], f"`{row['figure']}`", row["unit"], f"{row['predicted']:,.4g}",
                f"{row['measured']:,.4g}", "—" if row["ratio"] is None else f"{row['ratio']:.2f}",
            ]
            for row in rows
        ],
    )  # fmt: skip


def _checked(content: Found) -> Iterator[str]:
    found = content.get("checked")
    if found is None:
        yield "Not run yet: `python3 manage.py capacity --check`."
        return
    yield from _rows(found["rows"])
    yield ""
    judged = len(stored.judged(found["rows"]))
    within = judged - len(stored.outside(found["rows"]))
    yield (
        f"- {found['day']}, commit {found['commit']}, pace {found['pace']:g}: {within} of {judged}"
        f" that are judged are within {stored.TOLERANCE:.0%}."
    )
    yield from (f"- Missed: {text}." for text in stored.missed(found))


def _repeats(content: Found) -> Iterator[str]:
    rows = [[f"`{name}`", f"{value:.2f}"] for name, value in content["repeats"].items()]
    if not rows:
        return iter(("No size was measured twice.",))
    return grid(("figure", "largest to smallest of one size"), rows)


def _growth(found: Found) -> Iterator[str]:
    """What `simulate --growth` wrote: each way, phase and count with its exponent."""
    columns = ("what grows", "phase", "count", "smallest", "largest", "exponent", "said")
    rows = [
        [
            way, row["phase"], row["count"].replace("_cpu_us", ", us of CPU"),
            *(f"{of['runs'][at][row['phase']][row['count']]:,}" for at in (0, -1)),
            f"{row['exponent']:.2f}", "—" if row["said"] is None else f"{row['said']:g}",
        ]
        for way, of in found.items()
        for row in of["rows"]
    ]  # fmt: skip
    yield from grid(columns, rows)
    yield ""
    for way, of in found.items():
        sizes = ", ".join(f"{run['members']:,} / {run['groups']:,}" for run in of["runs"])
        faster = "; ".join(of["faster"]) or "nothing"
        yield f"- {way}, members / groups: {sizes}. Faster than said: {faster}."


# --- pictures


def pictures(content: Found | None) -> dict[str, str]:
    if content is None:
        return {}
    constants: Constants = content["constants"]
    loads = [_times(n) for n in TIMES]
    agents = [one.agents for one in loads]
    seconds, days = ([one.load(constants, of_s) for one in loads] for of_s in (1.0, DAY_S))

    def values(name: str, at: Sequence[Load] = seconds) -> list[float]:
        return [predicted(constants, name, load) for load in at]

    parts = {"web": "web", "worker": "worker and beat", "redis": "Redis"}
    of_web = [web(constants, one)[1] for one in loads]
    of_others = {part: [cores(constants, part, load) for load in seconds] for part in parts}
    cpu = [Curve(text, {**of_others, "web": of_web}[part]) for part, text in parts.items()]
    memory = [Curve(text, values(f"{part}_mib")) for part, text in parts.items()]
    pairs = zip(values("redis_ops"), values("redis_event_ops"), strict=True)
    commands = [steady + of_events for steady, of_events in pairs]
    daily = [value / 2**20 for value in values("database_bytes", days)]
    both = [Curve("commands a second", commands), Curve("MiB a day", daily)]
    of = {
        "capacity_cpu.svg": ("cores", cpu),
        "capacity_memory.svg": ("MiB", memory),
        "capacity_rates.svg": ("1/s, MiB", both),
    }
    of_all = "agents (25, 500 partitions and 50 events a second a group)"
    return {
        name: curves.drawn(Chart(TITLES[name], of_all, unit, agents, drawn))
        for name, (unit, drawn) in of.items()
    }


def growth_pictures(found: Found) -> dict[str, str]:
    """Of each way to grow, what was counted while members joined."""
    return {
        file: curves.drawn(
            Chart(
                f"Counted while members join: {way}", "members", "",
                [run["members"] for run in of["runs"]],
                [Curve(name, [run["joining"][name] for run in of["runs"]]) for name in DRAWN],
            )
        )
        for file, (way, of) in zip(GROWTH_FILES, found.items(), strict=True)
    }  # fmt: skip


def _times(number: int) -> Asked:
    names = ("agents", "groups", "partitions", "events")
    return replace(SMALLEST, **{name: getattr(SMALLEST, name) * number for name in names})
