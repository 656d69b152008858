"""Small values to Plotly figures. Colours are names of CSS variables: the page's script fills in.

Pure: asks neither SQL nor Redis. Times are ISO texts in UTC. What is drawn over time has the same
range, which the page's script keeps the same, and each rebalance in it: a line down the chart, and
points whose `customdata` is the end of the address of its page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from dashboard.models import Rebalance, Sample
from dashboard.pages import texts
from dashboard.records.queries.rebalances import PHASES

Figure = dict[str, Any]
PHASE_COLOURS = ("owner-9", "owner-6", "owner-3", "owner-0", "owner-8", "owner-7")
BAR_SHARE = 0.012  # of the time shown
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


@dataclass(frozen=True, slots=True)
class Shown:
    """What charts over time have in common: from when to when, and the rebalances in it."""

    from_ms: int
    to_ms: int
    rows: Sequence[Rebalance]  # oldest first

    def axis(self, anchor: str) -> dict[str, Any]:
        times = [texts.exact(self.from_ms), texts.exact(self.to_ms)]
        return {"type": "date", "anchor": anchor, "range": times}

    def marks(self) -> list[dict[str, Any]]:
        shape = {"type": "line", "layer": "below", "yref": "paper", "y0": 0, "y1": 1}
        shape |= {"colour": "line-strong", "line": {"width": 1, "dash": "dot"}}
        times = (texts.exact(row.at_ms) for row in self.rows)
        return [{**shape, "x0": at, "x1": at} for at in times]

    def points(self) -> dict[str, Any]:
        """Of each rebalance what it was, and where its page is below the history's."""
        return {
            "text": [f"epoch {row.target_epoch} · {row.cause}" for row in self.rows],
            "customdata": [f"{row.incarnation}/{row.target_epoch}/" for row in self.rows],
        }


def _held(rows: Sequence[Rebalance], field: str, to_ms: int, **form: Any) -> Figure:
    """What holds until the next rebalance, and the last of it until now: steps."""
    form |= {"type": "scatter", "mode": "lines", "shape": "hv", "hoverinfo": "skip"}
    line = _trace(rows, field, "", colour="owner-0", showlegend=False, **form)
    return line | {
        "x": [*line["x"], *([texts.exact(to_ms)] if rows else [])],
        "y": [*line["y"], *line["y"][-1:]],
    }


def rebalances(shown: Shown) -> Figure:
    """Balance degree, which holds until the next; stickiness, time by phase and gap of each."""
    rows = shown.rows
    trace = partial(_trace, rows, **shown.points())
    point = partial(trace, type="scatter", mode="markers", showlegend=False)
    width_ms = (shown.to_ms - shown.from_ms) * BAR_SHARE  # thin enough for a busy hour
    bar = partial(trace, type="bar", width=width_ms, textposition="none", showlegend=True)
    best = partial(point, symbol="diamond-open", colour="muted")
    degree, share, seconds = "%{y:.2f}<br>%{text}", "%{y:.1%}<br>%{text}", "%{y:.2f} s<br>%{text}"
    gap = "%{y:.2f} partition-seconds<br>%{text}"
    data = [
        _held(rows, "balance_degree", shown.to_ms, name="until the next", yaxis="y"),
        point("balance_degree", degree, name="balance degree", yaxis="y", colour="owner-0"),
        point("stickiness", share, name="stickiness", yaxis="y2", colour="owner-1"),
        best("stickiness_best", "%{y:.1%}", name="best possible", yaxis="y2"),
        *(
            bar(f"{phase}_ms", seconds, name=phase.replace("_", " "), yaxis="y3", colour=colour)
            for phase, colour in zip(PHASES, PHASE_COLOURS, strict=True)
        ),
        point("ownership_gap_ms", gap, name="ownership gap", yaxis="y4", colour="owner-2"),
    ]
    layout = _layout(**_REBALANCE_AXES, xaxis=shown.axis("y4"), shapes=shown.marks())
    return {"data": data, "layout": layout}


_REBALANCE_AXES: dict[str, Any] = {
    "barmode": "stack",
    "showlegend": True,
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


def loads(
    members: Sequence[tuple[str, int]], mean: float | None, hues: Mapping[str, int]
) -> Figure:
    """Partitions per member (id, how many), with the mean as a line."""
    data = [
        {
            "type": "bar",
            "x": [texts.short_member(name) for name, _ in members],
            "y": [owned for _, owned in members],
            "text": [name for name, _ in members],
            "textposition": "none",
            "colours": [f"owner-{hues.get(name, 6)}" for name, _ in members],
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


def flow(points: Sequence[Sample], shown: Shown) -> Figure:
    """Lag and throughput over time, the rebalances along the top."""
    line = partial(_trace, points, type="scatter", mode="lines")
    lag = line("lag_records", "%{y:,} records", name="lag", yaxis="y", colour="owner-2")
    rate = line("events_per_second", "%{y:,.0f} events/s", name="throughput", yaxis="y2")
    axes = {
        "xaxis": shown.axis("y2"),
        "yaxis": {"title": {"text": "lag, records"}, "domain": [0.5, 0.94], "rangemode": "tozero"},
        "yaxis2": {"title": {"text": "events/s"}, "domain": [0, 0.42], "rangemode": "tozero"},
        "yaxis3": {"domain": [0.94, 1], "range": [0, 1], "visible": False},
    }
    marks = {
        "type": "scatter",
        "mode": "markers",
        "name": "rebalance",
        "x": [texts.exact(row.at_ms) for row in shown.rows],
        "y": [0.5] * len(shown.rows),
        "yaxis": "y3",
        "symbol": "triangle-down",
        "colour": "muted",
        "hovertemplate": "%{text}<extra>rebalance</extra>",
        **shown.points(),
    }
    data = [lag | {"fill": "tozeroy"}, rate | {"colour": "owner-1"}, marks]
    return {"data": data, "layout": _layout(**axes, shapes=shown.marks())}
