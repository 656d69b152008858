"""One partition: who owned it when, drawn and as a table, and a lookup by time."""

from functools import partial

from django.http import Http404, HttpRequest, HttpResponse

from dashboard.actions import groups as actions
from dashboard.actions.roles import Action
from dashboard.live.snapshot import LivePartition
from dashboard.pages.forms import SkipForm
from dashboard.pages.views import base
from dashboard.records.queries import tenures

SPANS = {"1h": 3_600_000, "6h": 21_600_000, "24h": 86_400_000, "7d": 604_800_000, "all": None}
MARGIN = 0.02  # of what is shown, left before the first interval


def partition(request: HttpRequest, name: str, number: int) -> HttpResponse:
    seen = base.see(name)
    if number >= seen.group.partitions:
        raise Http404(f"Group {name} has partitions 0 to {seen.group.partitions - 1}.")
    asked = base.Asked(request.GET)
    rows = seen.snapshot.partitions if seen.snapshot else ()
    live_row = rows[number] if number < len(rows) else None
    context = base.group_context(seen, "group_partitions") | {
        "asked": asked,
        "number": number,
        "row": live_row,
        "moves": tenures.moves(seen.group, seen.now_ms, [number]).get(number, 0),
        "span": asked.choice("span", SPANS, "24h"),
        "spans": SPANS,
        **lookup(seen, asked, number),
    }
    context |= {"no_skip": why_no_skip(request, seen, live_row), "skip": None}
    if base.asked_to(request, ("skip",)) or request.method == "POST":
        form = SkipForm(base.sent(request), initial={"entry": asked.text("entry")})
        if form.is_bound and context["no_skip"]:
            form.add_error(None, context["no_skip"])
        skip = partial(actions.skip_event, seen.group, number)
        if base.attempt(request, form, lambda by: skip(form.cleaned_data["entry"], by)):
            said = "Asked for: its owner passes the event with its next commit."
            return base.done(request, said, "partition", name, number)
        context["skip"] = form
    context |= _timeline(seen, number, context["span"], context["at_ms"])
    return base.show(request, "partition", context, fragments=("partition",))


def why_no_skip(request: HttpRequest, seen: base.Seen, row: LivePartition | None) -> str:
    """One sentence for the button that is disabled; "" when the event can be skipped."""
    if why := base.rights_of(request).why_not(Action.SKIP_EVENT, seen.group.name):
        return why
    if row is None or seen.problem:
        return "Where the partition stands is not known now."
    if row.halt is None or not row.halt.entry:
        return "The partition does not stand still at an event."
    return ""


def lookup(seen: base.Seen, asked: base.Asked, number: int | None) -> base.Context:
    """Who owned it at `?at=`."""
    at_ms = asked.moment("at")
    if at_ms is None:
        return {"at_ms": None, "found": None}
    return {
        "at_ms": at_ms,
        "found": tenures.at_moment(seen.group, at_ms, number),
        "gaps_near": [
            g for g in tenures.gaps(seen.group) if g.at_ms >= at_ms and g.events_lost != 0
        ],
    }


def _timeline(seen: base.Seen, number: int, span: str, at_ms: int | None) -> base.Context:
    to_ms = seen.now_ms
    length = SPANS[span]
    first = tenures.first_start(seen.group, number)
    from_ms = to_ms - length if length else (first or to_ms - 1)
    if first is not None and first > from_ms:  # nothing to draw before it was first owned
        from_ms = first
    from_ms -= round((to_ms - from_ms) * MARGIN)
    rows = tenures.of_partition(seen.group, number, from_ms, to_ms)
    if rows and len(rows) == tenures.TIMELINE_MAX:
        from_ms = max(from_ms, rows[0].started_ms)
    mark = None if at_ms is None else (at_ms - from_ms) / max(1, to_ms - from_ms)
    return {
        "from_ms": from_ms,
        "to_ms": to_ms,
        "stretches": tenures.timeline(rows, from_ms, to_ms),
        "tenures": rows[::-1][:100],
        "ticks": [(i / 6, from_ms + round((to_ms - from_ms) * i / 6)) for i in range(7)],
        "mark": mark if mark is not None and 0 <= mark <= 1 else None,
    }
