"""Small values to Plotly figures. Colours are names of CSS variables: the page's script fills in.

Pure: asks neither SQL nor Redis. Times are ISO texts in UTC, so that charts share an axis.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from dashboard.live.snapshot import LiveMember
from dashboard.models import Rebalance, Sample
from dashboard.pages import texts
from dashboard.records.queries.rebalances import PHASES

Figure = dict[str, Any]
PHASE_COLOURS = ("owner-9", "owner-6", "owner-3", "owner-0", "owner-8", "owner-7")
BAR_MS_MIN = 1_000
BAR_SHARE = 0.012
UIREVISION = "keep"  # constant: a zoom survives every update


def _layout(**more: Any) -> dict[str, Any]:
    return {"uirevision": UIREVISION, "showlegend": False, **more}


def _trace(
    rows: Sequence[Rebalance] | Sequence[Sample], field: str, hover: str, **form: Any
) -> Figure:
    """A field over time, milliseconds as seconds; None is a hole in the line."""
    values = [getattr(row, field) for row in rows]
    if field.endswith("_ms"):
        values = [None if value is None else value / 1000 for value in values]
    return {
        "x": [texts.exact(row.at_ms) for row in rows],
        "y": values,
        "hovertemplate": f"{hover}<extra>{form['name']}</extra>",
        **form,
    }


def rebalances(rows: Sequence[Rebalance]) -> Figure:
    """Balance degree, stickiness, time by phase and gap: one point per rebalance, one time axis."""
    trace = partial(_trace, rows, text=[f"epoch {r.target_epoch} · {r.cause}" for r in rows])
    line = partial(trace, type="scatter", mode="lines+markers", showlegend=False)
    bar = partial(trace, type="bar", width=_bar_ms(rows), textposition="none", showlegend=True)
    best = partial(line, mode="markers", symbol="diamond-open", colour="muted")
    degree, share, seconds = "%{y:.2f}<br>%{text}", "%{y:.1%}<br>%{text}", "%{y:.2f} s<br>%{text}"
    gap = "%{y:.2f} partition-seconds<br>%{text}"
    data = [
        line("balance_degree", degree, name="balance degree", yaxis="y", colour="owner-0"),
        line("stickiness", share, name="stickiness", yaxis="y2", colour="owner-1"),
        best("stickiness_best", "%{y:.1%}", name="best possible", yaxis="y2"),
        *(
            bar(f"{phase}_ms", seconds, name=phase.replace("_", " "), yaxis="y3", colour=colour)
            for phase, colour in zip(PHASES, PHASE_COLOURS, strict=True)
        ),
        line("ownership_gap_ms", gap, name="ownership gap", yaxis="y4", colour="owner-2"),
    ]
    return {"data": data, "layout": _layout(**_REBALANCE_AXES)}


_REBALANCE_AXES: dict[str, Any] = {
    "barmode": "stack",
    "showlegend": True,
    "xaxis": {"type": "date", "anchor": "y4"},
    "yaxis": {"title": {"text": "balance degree"}, "domain": [0.79, 1], "rangemode": "tozero"},
    "yaxis2": {
        "title": {"text": "stickiness"},
        "domain": [0.55, 0.75],
        "range": [0, 1.08],
        "tickformat": ".0%",
    },
    "yaxis3": {"title": {"text": "time, s"}, "domain": [0.26, 0.48], "rangemode": "tozero"},
    "yaxis4": {"title": {"text": "gap, partition-s"}, "domain": [0, 0.21], "rangemode": "tozero"},
}


def _bar_ms(rows: Sequence[Rebalance]) -> float:
    """Bars of one width, thin enough for a busy hour: a share of the time shown."""
    times = [row.at_ms for row in rows]
    return max(BAR_MS_MIN, (max(times) - min(times)) * BAR_SHARE) if times else BAR_MS_MIN


def loads(members: Sequence[LiveMember], hues: dict[str, int]) -> Figure:
    """Partitions per member, now, with the mean of those that stay as a line."""
    able = [m for m in members if m.state not in ("lost", "joining")]
    staying = sum(not m.leaving for m in able)
    mean = sum(m.owned for m in able) / staying if staying else None
    data = [
        {
            "type": "bar",
            "x": [texts.short_member(m.id) for m in members],
            "y": [m.owned for m in members],
            "text": [m.id for m in members],
            "textposition": "none",
            "colours": [f"owner-{hues.get(m.id, 6)}" for m in members],
            "hovertemplate": "%{y} partitions<br>%{text}<extra></extra>",
        }
    ]
    shape = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": mean, "y1": mean}
    shape |= {"colour": "ink", "line": {"width": 1, "dash": "dot"}}
    axes = {
        "xaxis": {"type": "category"},
        "yaxis": {"title": {"text": "partitions"}, "rangemode": "tozero"},
    }
    return {"data": data, "layout": _layout(shapes=[] if mean is None else [shape], **axes)}


def flow(points: Sequence[Sample]) -> Figure:
    """Lag and throughput over time."""
    line = partial(_trace, points, type="scatter", mode="lines")
    lag = line("lag_records", "%{y:,} records", name="lag", yaxis="y", colour="owner-2")
    rate = line("events_per_second", "%{y:,.0f} events/s", name="throughput", yaxis="y2")
    axes = {
        "xaxis": {"type": "date", "anchor": "y2"},
        "yaxis": {"title": {"text": "lag, records"}, "domain": [0.55, 1], "rangemode": "tozero"},
        "yaxis2": {"title": {"text": "events/s"}, "domain": [0, 0.45], "rangemode": "tozero"},
    }
    data = [lag | {"fill": "tozeroy"}, rate | {"colour": "owner-1"}]
    return {"data": data, "layout": _layout(**axes)}
