"""The Balance tab: figures with the page, and the same figures as JSON when something changed."""

from django.http import HttpRequest, HttpResponse, JsonResponse

from dashboard.models import Rebalance
from dashboard.pages import charts
from dashboard.pages.views import base
from dashboard.records.queries import groups, rebalances

SPANS = {"1h": 3_600_000, "6h": 21_600_000, "24h": 86_400_000, "7d": 604_800_000}
ROUNDS_MAX = 500
MARGIN = 0.02  # of what is shown, left before the first value


def group_balance(request: HttpRequest, name: str) -> HttpResponse:
    seen = base.see(name)
    span = base.Asked(request.GET).choice("span", SPANS, "1h")
    rows, found = _figures(seen, span)
    context = base.group_context(seen, "group_balance") | {
        "span": span,
        "spans": SPANS,
        "figures": found,
        "rows": rows[-50:][::-1],
    }
    return base.show(request, "balance", context, fragments=("balance",))


def group_charts(request: HttpRequest, name: str) -> JsonResponse:
    _, found = _figures(base.see(name), base.Asked(request.GET).choice("span", SPANS, "1h"))
    return JsonResponse(found)


def _figures(seen: base.Seen, span: str) -> tuple[list[Rebalance], dict[str, charts.Figure]]:
    """(rounds of rebalances, oldest first; figures by name)"""
    from_ms = seen.now_ms - SPANS[span]
    rows = rebalances.rounds(seen.group, from_ms, ROUNDS_MAX)[::-1]
    samples = groups.series(seen.group, from_ms)
    firsts = [row.at_ms for row in rows[:1]] + [sample.at_ms for sample in samples[:1]]
    begins_ms = min(firsts, default=from_ms)
    margin_ms = round((seen.now_ms - begins_ms) * MARGIN)
    shown = charts.Shown(max(from_ms, begins_ms - margin_ms), seen.now_ms, rows)
    members = seen.snapshot.members if seen.snapshot else ()
    return rows, {
        "rebalances": charts.rebalances(shown),
        "loads": charts.loads(members, seen.hues),
        "flow": charts.flow(samples, shown),
    }
