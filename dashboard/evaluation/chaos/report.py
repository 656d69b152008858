"""One page that stands alone: who owned what while it was struck, what paused, how even, how far
behind; and a page that compares many runs. Plotly is the copy that the dashboard serves.
"""

import html
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from assignment import metrics
from dashboard.evaluation.chaos.figures import (
    intervals_of,
    loads_of,
    stuck,
)
from dashboard.evaluation.chaos.history import History
from dashboard.evaluation.figures import commits_of, name_of

PLOTLY = Path(__file__).parents[2] / "static/dashboard/vendor/plotly-cartesian-4.1.1.min.js"
COLOURS = (
    *("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5"),
    *("#9c6b4e", "#9498a0"),
)
PAUSE_MS = 400  # a commit that comes later than this after the one before is drawn as a pause
Figure = dict[str, Any]


def report(history: History, found: Mapping[str, Any], figures: Mapping[str, Any]) -> str:
    parts = {
        "Ownership": timeline(history),
        "Longest pauses by partition": pauses(history),
        "Balance and stickiness": balance(history),
        "Time by phase": phase_times(figures),
        "Lag": lag(history),
    }
    verdict = "held" if found["held"] else "violated"
    wrong = "".join(f"<li>{html.escape(text)}</li>" for text in found["violations"])
    rows = {**found, **figures}
    rows.pop("violations")
    return page(
        f"chaos: {'+'.join(history.asked.faults)}: {verdict}",
        f"<p><code>{html.escape(history.asked.command())}</code></p>"
        f"<ul>{wrong or '<li>Every invariant held.</li>'}</ul>{table(rows)}",
        parts,
    )


def page(title: str, body: str, parts: Mapping[str, Figure]) -> str:
    places = "".join(
        f'<h2>{html.escape(name)}</h2><div id="p{n}"></div>' for n, name in enumerate(parts)
    )
    # What ends a script may not stand in it.
    figures = json.dumps(list(parts.values())).replace("</", "<\\/")
    title = html.escape(title)
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body{{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}}
table{{border-collapse:collapse}}td,th{{padding:.2rem .8rem;text-align:left;
border-bottom:1px solid #8884;vertical-align:top}}</style>
<h1>{title}</h1>{body}{places}
<script>{PLOTLY.read_text()}</script>
<script>{figures}.forEach((f, n) => Plotly.newPlot("p" + n, f.data, f.layout, {{responsive: true}}))
</script></html>
"""


def table(rows: Mapping[str, Any]) -> str:
    cells = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(shown(value))}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table>{cells}</table>"


def shown(value: Any) -> str:
    if value is None:
        return "—"
    return value if isinstance(value, str) else json.dumps(value)


def layout(history: History, **more: Any) -> dict[str, Any]:
    """Seconds since the first fault; the faults lie behind."""
    shapes = [
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "layer": "below",
            "x0": seconds(history, f.at_ms),
            "fillcolor": "#ff725c",
            "opacity": 0.15,
            "x1": seconds(history, f.healed_ms or history.ended_ms),
            "line": {"width": 0},
        }
        for f in history.faults
    ]
    notes = [
        {
            "x": seconds(history, f.at_ms),
            "y": 1,
            "yref": "paper",
            "showarrow": False,
            "text": f"{f.name} {f.how}".strip(),
            "xanchor": "left",
            "yanchor": "bottom",
        }
        for f in history.faults
    ]
    x = {"title": {"text": "seconds since the first fault"}}
    return {"shapes": shapes, "annotations": notes, "xaxis": x, "height": 420, **more}


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
            start = seconds(history, begin)
            bars[one.member].append((one.partition, start, (end - begin) / 1_000, text))
    names = sorted({name_of(member) for member in bars})
    data = []
    for member, rows in sorted(bars.items()):
        partitions, starts, lengths, texts = zip(*rows, strict=True)
        colour = COLOURS[names.index(name_of(member)) % len(COLOURS)]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": member,
                "base": starts,
                "x": lengths,
                "y": partitions,
                "hovertext": texts,
                "hoverinfo": "text",
                "marker": {"color": colour, "line": {"width": 0.5, "color": "#fff"}},
            }
        )
    height = 160 + 24 * history.asked.partitions
    return {"data": data, "layout": layout(history, barmode="overlay", height=height)}


def pauses(history: History) -> Figure:
    """Per partition the times between two commits that were long."""
    found: dict[str, list[tuple[float, int]]] = defaultdict(list)
    last: dict[str, int] = {}
    for commit in commits_of(history.eras):
        before = last.get(commit.partition, commit.at_ms)
        if commit.at_ms - before > PAUSE_MS and commit.at_ms >= history.struck_ms:
            took_ms = commit.at_ms - before
            found[commit.partition].append((seconds(history, before), took_ms))
        last[commit.partition] = commit.at_ms
    data = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": partition,
            "x": [at for at, _ in rows],
            "y": [ms for _, ms in rows],
        }
        for partition, rows in sorted(found.items())
    ]
    y = {"title": {"text": "ms without a commit"}, "rangemode": "tozero"}
    return {"data": data, "layout": layout(history, yaxis=y)}


def balance(history: History) -> Figure:
    first = next((s for s in history.samples if s.at_ms >= history.struck_ms), None)
    samples = [s for s in history.samples if s.at_ms >= history.began_ms]
    at = [seconds(history, s.at_ms) for s in samples]
    lines: dict[str, list[float | None]] = {
        "balance degree": [metrics.balance_degree(loads_of(s)) for s in samples],
        "max minus min": [metrics.max_minus_min(loads_of(s)) for s in samples],
        "stickiness": [stuck(first, s) for s in samples],
        "partitions without an owner": [history.asked.partitions - len(s.locks) for s in samples],
    }
    return {"data": steps(at, lines), "layout": layout(history)}


def steps(at: Sequence[float], lines: Mapping[str, Sequence[float | None]]) -> list[Figure]:
    shape = {"type": "scatter", "mode": "lines", "line": {"shape": "hv"}}
    return [{**shape, "name": name, "x": at, "y": values} for name, values in lines.items()]


def phase_times(figures: Mapping[str, Any]) -> Figure:
    phases = figures["phases_ms"] or {}
    names = list(phases)
    data = [
        {"type": "bar", "name": kind, "x": names, "y": [phases[name][kind] for name in names]}
        for kind in ("median", "p95", "max")
    ]
    return {"data": data, "layout": {"yaxis": {"title": {"text": "ms"}}, "height": 360}}


def lag(history: History) -> Figure:
    known = [s for s in history.samples if s.lag is not None and s.at_ms >= history.began_ms]
    at = [seconds(history, s.at_ms) for s in known]
    y = {"title": {"text": "events behind"}, "rangemode": "tozero"}
    return {"data": steps(at, {"lag": [s.lag for s in known]}), "layout": layout(history, yaxis=y)}


# --- many runs

COMPARED = (
    *("exit", "recovered_ms", "bound_ms", "moves", "avoidable_moves", "unaffected_paused"),
    *("refused_commits", "lost", "doubled", "destroyed", "balance_degree", "stickiness"),
)


def comparison(rows: Sequence[Mapping[str, Any]]) -> str:
    """Every run a row, with a link to its report; recovery side by side."""
    head = "".join(f"<th>{name}</th>" for name in ("run", *COMPARED, "violations"))
    lines = "".join(_row(row) for row in rows)
    body = f"<table><tr>{head}</tr>{lines}</table>"
    by_mode: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        mode = f"{row.get('coordination', '?')}, {row.get('strategy', '?')}"
        by_mode[mode].append(row)
    return page(
        "chaos: comparison",
        body,
        {
            "Time to recover": _compared(by_mode, "recovered_ms", "ms from the heal"),
            "Moves": _compared(by_mode, "moves", "partitions"),
            "Share of unaffected partitions that paused": _compared(
                by_mode, "unaffected_paused", "share"
            ),
        },
    )


def _row(row: Mapping[str, Any]) -> str:
    name = html.escape(str(row["options"]))
    cells = "".join(f"<td>{html.escape(shown(row.get(name)))}</td>" for name in COMPARED)
    wrong = html.escape("; ".join(_wrong(row)))
    link = f'<a href="{row["folder"]}/report.html">{name}</a>'
    return f"<tr><td>{link}</td>{cells}<td>{wrong}</td></tr>"


def _wrong(row: Mapping[str, Any]) -> Iterable[str]:
    return [row["error"]] if "error" in row else row.get("violations", ())


def _compared(by_mode: Mapping[str, Sequence[Mapping[str, Any]]], name: str, unit: str) -> Figure:
    data = [
        {
            "type": "box",
            "boxpoints": "all",
            "jitter": 0.3,
            "pointpos": 0,
            "name": mode,
            "x": ["+".join(f["name"] for f in row.get("faults", ())) for row in rows],
            "y": [row.get(name) for row in rows],
        }
        for mode, rows in by_mode.items()
    ]
    y = {"title": {"text": unit}, "rangemode": "tozero"}
    return {"data": data, "layout": {"yaxis": y, "boxmode": "group", "height": 480}}
