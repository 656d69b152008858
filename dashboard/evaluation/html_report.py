"""One page that stands alone, with the colours of the dashboard and the Plotly that it serves.

A colour in a figure is the name of a variable of page.css: the page's script fills in its value,
light or dark. A part is a figure, or the sentence that says why there is none.
"""

import html
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

STATIC = Path(__file__).parents[1] / "static/dashboard"
PLOTLY = STATIC / "vendor/plotly-cartesian-4.1.1.min.js"
SCRIPT = Path(__file__).with_suffix(".js")
OWNERS = tuple(f"--owner-{n}" for n in range(10))
INK, MUTED, FAINT, ALARM = "--ink", "--muted", "--line-strong", "--alarm"
Figure = dict[str, Any]


def page(title: str, body: str, parts: Mapping[str, Figure | str]) -> str:
    places = "".join(
        f"<h2>{html.escape(name)}</h2>{_place(n, part)}"
        for n, (name, part) in enumerate(parts.items())
    )
    found = {f"p{n}": p for n, p in enumerate(parts.values()) if not isinstance(p, str)}
    # What ends a script may not stand in it.
    figures = json.dumps(found).replace("</", "<\\/")
    title = html.escape(title)
    css = STATIC / "css"
    return f"""<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<style>{(css / "page.css").read_text()}
@media (prefers-color-scheme: dark) {{ {(css / "dark.css").read_text()} }}
.chart {{ border: 1px solid var(--line); background: var(--surface); }}</style>
<main><div class="head"><h1>{title}</h1></div>{body}{places}</main>
<script>{PLOTLY.read_text()}</script>
<script type="application/json" id="figures">{figures}</script>
<script>{SCRIPT.read_text()}</script></html>
"""


def _place(number: int, part: Figure | str) -> str:
    if isinstance(part, str):
        return f'<p class="muted">{html.escape(part)}</p>'
    return f'<div class="chart" id="p{number}"></div>'


def facts(rows: Iterable[tuple[str, str]]) -> str:
    cells = (f"<dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd>" for name, text in rows)
    return f'<dl class="facts">{"".join(cells)}</dl>'


def grid(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Collection[str] = (),
    long: Collection[str] = (),
) -> str:
    """Cells are HTML; the columns of `numbers` are aligned as such, `long` texts are broken."""
    classes = dict.fromkeys(numbers, ' class="n"') | dict.fromkeys(long, ' class="verdict"')
    kinds = [classes.get(name, "") for name in head]
    names = "".join(f"<th{k}>{html.escape(n)}</th>" for k, n in zip(kinds, head, strict=True))
    lines = "".join(
        f"<tr>{''.join(f'<td{k}>{c}</td>' for k, c in zip(kinds, row, strict=True))}</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{names}</tr></thead>{lines}</table></div>'
