"""Small values to Plotly figures. Colours are names of CSS variables: the page's script fills in.

Pure: asks neither SQL nor Redis. Times are ISO texts in UTC, so that charts share an axis.
"""

from collections.abc import Sequence
from typing import Any

from dashboard.live import LiveMember
from dashboard.models import Rebalance
from dashboard.pages import texts
from dashboard.records.queries.rebalances import PHASES
from dashboard.records.queries.samples import Point

Figure = dict[str, Any]
PHASE_COLOURS = ("owner-9", "owner-6", "owner-3", "owner-0", "owner-8", "owner-7")
BAR_MS_MIN = 1_000
BAR_SHARE = 0.012
UIREVISION = "keep"  # constant: a zoom survives every update


def _layout(**more: Any) -> dict[str, Any]:
    return {"uirevision": UIREVISION, "showlegend": False, **more}


def _rebalance_texts(rows: Sequence[Rebalance]) -> list[str]:
    return [f"epoch {row.target_epoch} · {row.cause}" for row in rows]


def rebalances(rows: Sequence[Rebalance]) -> Figure:
    """Balance degree, stickiness, time by phase and gap: one point per rebalance, one time axis."""
    x = [texts.exact(row.at_ms) for row in rows]
    label = _rebalance_texts(rows)
    line = {
        "x": x,
        "text": label,
        "mode": "lines+markers",
        "type": "scatter",
        "showlegend": False,
    }
    data: list[dict[str, Any]] = [
        line
        | {
            "name": "balance degree",
            "y": [row.balance_degree for row in rows],
            "yaxis": "y",
            "colour": "owner-0",
            "hovertemplate": "%{y:.2f}<br>%{text}<extra>balance degree</extra>",
        },
        line
        | {
            "name": "stickiness",
            "y": [row.stickiness for row in rows],
            "yaxis": "y2",
            "colour": "owner-1",
            "hovertemplate": "%{y:.1%}<br>%{text}<extra>stickiness</extra>",
        },
        line
        | {
            "name": "best possible",
            "mode": "markers",
            "y": [row.stickiness_best for row in rows],
            "yaxis": "y2",
            "colour": "muted",
            "symbol": "diamond-open",
            "hovertemplate": "%{y:.1%}<extra>best possible</extra>",
        },
    ]
    data += [
        {
            "type": "bar",
            "name": phase.replace("_", " "),
            "x": x,
            "y": [_seconds(getattr(row, f"{phase}_ms")) for row in rows],
            "text": label,
            "textposition": "none",
            "yaxis": "y3",
            "colour": colour,
            "width": _bar_ms(rows),
            "hovertemplate": "%{y:.2f} s<br>%{text}<extra>" + phase.replace("_", " ") + "</extra>",
            "showlegend": True,
        }
        for phase, colour in zip(PHASES, PHASE_COLOURS, strict=True)
    ]
    data.append(
        line
        | {
            "name": "ownership gap",
            "y": [_seconds(row.ownership_gap_ms) for row in rows],
            "yaxis": "y4",
            "colour": "owner-2",
            "hovertemplate": "%{y:.2f} partition-seconds<br>%{text}<extra>gap</extra>",
        }
    )
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


def _seconds(value_ms: int | None) -> float | None:
    return None if value_ms is None else value_ms / 1000


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
    shapes = []
    if mean is not None:
        shapes = [
            {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": mean, "y1": mean}
            | {"colour": "ink", "line": {"width": 1, "dash": "dot"}}
        ]
    axes = {
        "xaxis": {"type": "category"},
        "yaxis": {"title": {"text": "partitions"}, "rangemode": "tozero"},
    }
    return {"data": data, "layout": _layout(shapes=shapes, **axes)}


def flow(points: Sequence[Point]) -> Figure:
    """Lag and throughput over time; a sample without a value is a hole in the line."""
    x = [texts.exact(point.at_ms) for point in points]
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": x,
            "y": [point.lag_records for point in points],
            "yaxis": "y",
            "colour": "owner-2",
            "fill": "tozeroy",
            "hovertemplate": "%{y:,} records<extra>lag</extra>",
        },
        {
            "type": "scatter",
            "mode": "lines",
            "x": x,
            "y": [point.events_per_second for point in points],
            "yaxis": "y2",
            "colour": "owner-1",
            "hovertemplate": "%{y:,.0f} events/s<extra>throughput</extra>",
        },
    ]
    axes = {
        "xaxis": {"type": "date", "anchor": "y2"},
        "yaxis": {
            "title": {"text": "lag, records"},
            "domain": [0.55, 1],
            "rangemode": "tozero",
        },
        "yaxis2": {"title": {"text": "events/s"}, "domain": [0, 0.45], "rangemode": "tozero"},
    }
    return {"data": data, "layout": _layout(**axes)}
