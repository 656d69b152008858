"""The Balance tab: figures with the page, and the same figures as JSON when something changed."""

from django.http import HttpRequest, HttpResponse, JsonResponse

from dashboard.models import Group, Rebalance
from dashboard.pages import charts
from dashboard.pages.views import base
from dashboard.records.queries import groups, rebalances, then
from dashboard.records.queries.pages import Filters

SPANS = {"1h": 3_600_000, "6h": 21_600_000, "24h": 86_400_000, "7d": 604_800_000}
ROUNDS_MAX = 500
MARGIN = 0.02  # of what is shown, left before the first value


def group_balance(request: HttpRequest, name: str) -> HttpResponse:
    seen = base.see(name)
    span = base.Asked(request.GET).choice("span", SPANS, "1h")
    rows, found = figures(seen.group, seen.now_ms, span)
    found["loads"] = _loads(seen)
    context = base.group_context(seen, "group_balance") | {
        "span": span,
        "spans": SPANS,
        "figures": found,
        "rows": rows[-50:][::-1],
    }
    return base.show(request, "balance", context, fragments=("balance",))


def group_charts(request: HttpRequest, name: str) -> JsonResponse:
    seen = base.see(name)
    span = base.Asked(request.GET).choice("span", SPANS, "1h")
    _, found = figures(seen.group, seen.now_ms, span)
    return JsonResponse(found | {"loads": _loads(seen)})


def _loads(seen: base.Seen) -> charts.Figure:
    members = seen.snapshot.members if seen.snapshot else ()
    able = [m for m in members if m.state not in ("lost", "joining")]
    staying = sum(not m.leaving for m in able)
    mean = sum(m.owned for m in able) / staying if staying else None
    return charts.loads([(m.id, m.owned) for m in members], mean, seen.hues)


def figures(
    group: Group, to_ms: int, span: str, *, is_past: bool = False
) -> tuple[list[Rebalance], dict[str, charts.Figure]]:
    """(rounds of rebalances, oldest first; figures over time by name). `is_past`: as they were."""
    from_ms = to_ms - SPANS[span]
    filters = Filters(from_ms=from_ms)
    if is_past:
        found = rebalances.rounds(group, filters.until(to_ms), ROUNDS_MAX)
        rows = [then.rebalance(row, to_ms) for row in reversed(found)]
    else:
        rows = rebalances.rounds(group, filters, ROUNDS_MAX)[::-1]
    samples = groups.series(group, from_ms, to_ms if is_past else None)
    firsts = [row.at_ms for row in rows[:1]] + [sample.at_ms for sample in samples[:1]]
    begins_ms = min(firsts, default=from_ms)
    margin_ms = round((to_ms - begins_ms) * MARGIN)
    shown = charts.Shown(max(from_ms, begins_ms - margin_ms), to_ms, rows)
    return rows, {"rebalances": charts.rebalances(shown), "flow": charts.flow(samples, shown)}
