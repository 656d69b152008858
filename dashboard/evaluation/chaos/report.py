"""The page of a run: who owned what while it was struck, what paused, how even, how far behind."""

import html
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from assignment import metrics
from dashboard.evaluation.chaos.figures import intervals_of, loads_of, stuck
from dashboard.evaluation.chaos.history import History
from dashboard.evaluation.figures import commits_of, name_of
from dashboard.evaluation.html_report import (
    ALARM,
    FAINT,
    INK,
    MUTED,
    OWNERS,
    Figure,
    facts,
    page,
)
from dashboard.pages.amounts import span
from dashboard.pages.texts import DASH, grouped, percent

PAUSE_MS = 400  # a commit that comes later than this after the one before is drawn as a pause
LABEL = 14  # pixels, of a line above a chart


def report(history: History, found: Mapping[str, Any], figures: Mapping[str, Any]) -> str:
    parts = {
        "Ownership": timeline(history),
        f"Pauses: more than {PAUSE_MS} ms without a commit, by who ended them": pauses(history),
        "Balance": balance(history),
        "Stickiness: partitions with the owner that they had before": stickiness(history),
        "Time by phase of a rebalance": phase_times(figures),
        "Lag": lag(history),
    }
    wrong = "".join(f"<p>{html.escape(text)}</p>" for text in found["violations"])
    told = f'<div class="note bad">{wrong}</div>' if wrong else ""
    return page(
        f"{'+'.join(history.asked.faults)}: {verdict(found)}",
        f'<pre class="wrap">{html.escape(history.asked.command())}</pre>{told}'
        f"{facts(rows(history, {**figures, **found}))}",
        parts,
    )


def verdict(found: Mapping[str, Any]) -> str:
    if not found["held"]:
        return "violated"
    if found["vacuous"]:
        return "vacuous"
    return "held" if found["healed"] else "not healed"


VERDICTS = {
    "held": "every invariant held",
    "violated": "an invariant was broken",
    "vacuous": "the fault did nothing, or there were no events: this run shows nothing",
    "not healed": "nobody saw the group after the heal",
}


def rows(history: History, found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is known, with its unit."""

    def number(name: str, unit: str = "") -> str:
        return DASH if found[name] is None else f"{grouped(found[name])} {unit}".strip()

    def share(name: str) -> str:
        return DASH if found[name] is None else percent(found[name])

    def time(name: str) -> str:
        return DASH if found[name] is None else span(found[name])

    pause = found["pause_ms"]
    paused = [f"{n} {grouped(pause[n])} ms" for n in ("median", "p95", "max") if pause["count"]]
    degree = found["balance_degree"]
    return [
        ("Verdict", VERDICTS[verdict(found)]),
        ("Faults", "; ".join(map(fault_text, history.faults)) or DASH),
        ("Coordination", history.asked.coordination),
        ("Strategy", history.asked.strategy),
        ("Agents", f"{history.asked.agents} {history.asked.consumer}"),
        ("Partitions", grouped(history.asked.partitions)),
        ("Seed", str(history.asked.seed)),
        ("Recovered", f"{time('recovered_ms')} after the heal; bound {time('bound_ms')}"),
        ("Rounds of rebalances", number("rebalances")),
        ("Moves", f"{number('moves')}, of them avoidable: {number('avoidable_moves')}"),
        ("Stickiness", f"{share('stickiness')}; best possible {share('stickiness_best')}"),
        ("Balance degree", DASH if degree is None else grouped(degree, decimals=2)),
        ("Unaffected that paused", share("unaffected_paused")),
        ("Pause at a handover", f"{', '.join(paused)}, of {pause['count']}" if paused else DASH),
        ("Without an owner", number("unowned_ms", "partition-ms")),
        ("Lag at most", number("lag_max", "events")),
        ("Refused commits", number("refused_commits")),
        ("Processed again", number("processed_again", "events, not committed")),
        *((name.capitalize(), number(name, "events")) for name in ("lost", "doubled")),
        ("Destroyed", number("destroyed", "events that Redis had acknowledged and forgot")),
    ]


def fault_text(fault: Any) -> str:
    return " ".join(filter(None, (fault.name, ", ".join(fault.victims), fault.how)))


def hues(history: History) -> dict[str, str]:
    """The colour of an agent, whatever its member id: the same in every chart of the page."""
    seen = sorted({name_of(one.member) for one in intervals_of(history)})
    names = dict.fromkeys((*history.asked.names, *seen))
    return {name: OWNERS[n % len(OWNERS)] for n, name in enumerate(names)}


def layout(history: History, unit: str, **more: Any) -> dict[str, Any]:
    """One time axis for all charts: seconds since the first fault; the faults lie behind."""
    begin, end = seconds(history, history.began_ms), seconds(history, history.ended_ms)
    shapes, notes = [], []
    for n, f in enumerate(history.faults):
        start, until = seconds(history, f.at_ms), seconds(history, f.healed_ms or history.ended_ms)
        left = start < (begin + end) / 2
        shapes.append(
            {
                "type": "rect",
                "xref": "x",
                "yref": "paper",
                "x0": start,
                "x1": until,
                "y0": 0,
                "y1": 1,
                "layer": "below",
                "opacity": 0.14,
                "line": {"width": 0},
                "fillcolor": ALARM,
            }
        )
        notes.append(
            {
                "x": start,
                "y": 1,
                "yref": "paper",
                "showarrow": False,
                "yshift": n * LABEL,
                "xanchor": "left" if left else "right",
                "yanchor": "bottom",
                "text": fault_text(f),
                "font": {"color": ALARM, "size": 12},
            }
        )
    return {
        "shapes": shapes,
        "annotations": notes,
        "xaxis": {"title": {"text": "seconds since the first fault"}, "range": [begin, end]},
        "yaxis": {"title": {"text": unit}, "rangemode": "tozero", **more.pop("yaxis", {})},
        "height": 360,
        **more,
        "margin": {"t": 12 + LABEL * max(1, len(history.faults)), **more.get("margin", {})},
    }


def seconds(history: History, at_ms: float) -> float:
    return round((at_ms - history.struck_ms) / 1_000, 3)


def timeline(history: History) -> Figure:
    """A bar for each time that somebody had a partition."""
    bars: dict[str, list[tuple[str, float, float, str]]] = defaultdict(list)
    for one in intervals_of(history):
        begin = max(one.started_ms, history.began_ms)
        end = one.ended_ms or history.ended_ms
        if end > begin:
            text = f"{one.member}, fence {one.fence}, {one.end or 'goes on'}"
            start, length = seconds(history, begin), (end - begin) / 1_000
            bars[name_of(one.member)].append((one.partition, start, length, text))
    of = hues(history)
    data = []
    for name in (name for name in of if name in bars):
        partitions, starts, lengths, texts = zip(*bars[name], strict=True)
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "showlegend": True,
                "base": starts,
                "x": lengths,
                "y": partitions,
                "hovertext": texts,
                "hoverinfo": "text",
                "marker": {"color": of[name], "line": {"width": 0.5, "color": "--surface"}},
            }
        )
    every = [str(p) for p in history.asked.timings.all_partitions()]
    y = {"categoryorder": "array", "categoryarray": every, "autorange": "reversed"}
    height = 160 + 24 * history.asked.partitions
    return {
        "data": data,
        "layout": layout(history, "partition", barmode="overlay", height=height, yaxis=y),
    }


def pauses(history: History) -> Figure | str:
    """The times between two commits of a partition that were long."""
    owners = {(one.partition, one.fence): name_of(one.member) for one in intervals_of(history)}
    found: dict[str, list[tuple[float, int, str]]] = defaultdict(list)
    last: dict[str, int] = {}
    for commit in commits_of(history.eras):
        took_ms = commit.at_ms - last.get(commit.partition, commit.at_ms)
        if took_ms > PAUSE_MS and commit.at_ms >= history.struck_ms:
            name = owners.get((commit.partition, commit.fence), "nobody known")
            began = seconds(history, commit.at_ms - took_ms)
            text = f"{commit.partition}: {took_ms} ms until a commit of {name}"
            found[name].append((began, took_ms, text))
        last[commit.partition] = commit.at_ms
    of = hues(history)
    data = []
    for name, points in sorted(found.items()):
        at, took, texts = zip(*points, strict=True)
        marker = {"color": of.get(name, MUTED), "size": 8}
        shown = {"type": "scatter", "mode": "markers", "name": name, "showlegend": True}
        data.append({**shown, "x": at, "y": took, "text": texts, "hoverinfo": "text"})
        data[-1]["marker"] = marker
    if not data:
        return f"No partition was without a commit for more than {PAUSE_MS} ms."
    return {"data": data, "layout": layout(history, "ms without a commit")}


def samples_of(history: History) -> tuple[list[Any], list[float]]:
    samples = [s for s in history.samples if s.at_ms >= history.began_ms]
    return samples, [seconds(history, s.at_ms) for s in samples]


def balance(history: History) -> Figure:
    samples, at = samples_of(history)
    lines: dict[str, Sequence[float | None]] = {
        "balance degree": [metrics.balance_degree(loads_of(s)) for s in samples],
        "max minus min": [metrics.max_minus_min(loads_of(s)) for s in samples],
        "without an owner": [history.asked.partitions - len(s.locks) for s in samples],
    }
    return {"data": steps(at, lines), "layout": layout(history, "partitions")}


ALONE = {"height": 260, "margin": {"b": 48}}  # one line, without a legend


def stickiness(history: History) -> Figure:
    samples, at = samples_of(history)
    first = next((s for s in samples if s.at_ms >= history.struck_ms), None)
    lines = {"stickiness": [stuck(first, s) for s in samples]}
    y = {"tickformat": ".0%", "range": [0, 1.05]}
    return {"data": steps(at, lines), "layout": layout(history, "share", yaxis=y, **ALONE)}


def lag(history: History) -> Figure:
    known = [s for s in history.samples if s.lag is not None and s.at_ms >= history.began_ms]
    at, lines = [seconds(history, s.at_ms) for s in known], {"lag": [s.lag for s in known]}
    return {"data": steps(at, lines), "layout": layout(history, "events behind", **ALONE)}


STYLES = ((INK, "solid"), (MUTED, "dash"), (ALARM, "solid"))  # no agent has these


def steps(at: Sequence[float], lines: Mapping[str, Sequence[float | None]]) -> list[Figure]:
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": at,
            "y": values,
            "line": {"shape": "hv", "width": 1.5, "color": colour, "dash": dash},
            "showlegend": len(lines) > 1,
        }
        for (name, values), (colour, dash) in zip(lines.items(), STYLES, strict=False)
    ]


def phase_times(figures: Mapping[str, Any]) -> Figure | str:
    phases = {n: p for n, p in (figures["phases_ms"] or {}).items() if p["count"]}
    if not phases:
        return "No rebalance since the first fault has recorded its phases."
    names = [name.replace("_", " ") for name in phases]
    data = [
        {
            "type": "bar",
            "name": kind,
            "x": names,
            "y": [p[kind] for p in phases.values()],
            "marker": {"color": colour},
        }
        for kind, colour in (("median", INK), ("p95", MUTED), ("max", FAINT))
    ]
    axes = {"xaxis": {"title": {"text": "phase"}}, "yaxis": {"title": {"text": "ms"}}}
    return {"data": data, "layout": {**axes, "height": 340}}
