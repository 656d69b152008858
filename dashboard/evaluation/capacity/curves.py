"""Growth curves as SVG, both axes logarithmic: what grows alike is parallel. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 70, 180, 40, 50
COLOURS = ("#3f74d9", "#149c9c", "#c01f2e", "#8a5fbf")
INK, GRID = "#14181c", "#d5dade"


@dataclass(frozen=True, slots=True)
class Curve:
    """A value for each place of the chart's; what is not above 0 is left out."""

    name: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    along: str
    unit: str
    places: Sequence[float]
    curves: Sequence[Curve]


@dataclass(frozen=True, slots=True)
class _Axis:
    """Whole decades, from `first` to `last`, laid on pixels."""

    first: int
    last: int
    begin: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], begin: float, end: float) -> "_Axis":
        first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return cls(first, max(last, first + 1), begin, end)

    def at(self, value: float) -> float:
        share = (math.log10(value) - self.first) / (self.last - self.first)
        return round(self.begin + share * (self.end - self.begin), 1)

    @property
    def decades(self) -> list[float]:
        return [10.0**power for power in range(self.first, self.last + 1)]


def drawn(chart: Chart) -> str:
    return "\n".join(_lines(chart)) + "\n"


def _lines(chart: Chart) -> Iterator[str]:
    seen = [value for curve in chart.curves for value in curve.values if value > 0]
    across = _Axis.over(chart.places, LEFT, WIDTH - RIGHT)
    up = _Axis.over(seen, HEIGHT - BOTTOM, TOP)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        ' font-family="system-ui, sans-serif" font-size="13">'
    )
    yield f"  <title>{escape(chart.title)}</title>"
    yield f'  <rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    yield _text(LEFT, 22, chart.title)
    for value in across.decades:
        yield _line(across.at(value), TOP, across.at(value), HEIGHT - BOTTOM)
        yield _text(across.at(value), HEIGHT - BOTTOM + 18, f"{value:,g}", "middle")
    for value in up.decades:
        yield _line(LEFT, up.at(value), WIDTH - RIGHT, up.at(value))
        yield _text(LEFT - 6, up.at(value) + 4, f"{value:,g}", "end")
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, chart.along, "middle")
    yield _text(LEFT - 6, TOP - 12, chart.unit, "end")
    for number, curve in enumerate(chart.curves):
        pairs = zip(chart.places, curve.values, strict=True)
        points = " ".join(f"{across.at(x)},{up.at(y)}" for x, y in pairs if y > 0)
        yield from _curve(curve.name, points, number)
    yield "</svg>"


def _curve(name: str, points: str, number: int) -> Iterator[str]:
    colour, y = COLOURS[number % len(COLOURS)], TOP + 20 * number + 10
    yield f'  <polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
    yield (
        f'  <path d="M{WIDTH - RIGHT + 12} {y}h18" stroke="{colour}" stroke-width="2"/>'
        f'<text x="{WIDTH - RIGHT + 36}" y="{y + 4}" fill="{INK}">{escape(name)}</text>'
    )


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'  <path d="M{x1} {y1}L{x2} {y2}" stroke="{GRID}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'  <text x="{x:g}" y="{y:g}" fill="{INK}" text-anchor="{anchor}">{escape(text)}</text>'
