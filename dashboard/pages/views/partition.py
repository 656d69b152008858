"""One partition: who owned it when, drawn and as a table."""

from functools import partial

from django.http import Http404, HttpRequest, HttpResponse

from dashboard.actions import groups as actions
from dashboard.actions.offsets import jumps
from dashboard.actions.roles import Action
from dashboard.live.cells import LivePartition
from dashboard.pages.forms import SkipForm
from dashboard.pages.views import base
from dashboard.pages.views.ownership import timeline
from dashboard.records.queries import tenures


def partition(request: HttpRequest, name: str, number: int) -> HttpResponse:
    seen = base.see(name)
    if number >= seen.group.partitions:
        raise Http404(f"Group {name} has partitions 0 to {seen.group.partitions - 1}.")
    asked = base.Asked(request.GET)
    drawn = timeline(seen.group, asked, seen.now_ms, number=number)
    live_row = seen.rows([number])[0] if number < seen.partitions else None
    context = base.group_context(seen, "group_partitions") | drawn
    context |= {
        "number": number,
        "jumps": jumps(seen.group, number),
        "row": live_row,
        "moves": tenures.moves(seen.group, seen.now_ms, [number]).get(number, 0),
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
    return base.show(request, "partition", context, fragments=("partition", "ownership_table"))


def why_no_skip(request: HttpRequest, seen: base.Seen, row: LivePartition | None) -> str:
    """One sentence for the button that is disabled; "" when the event can be skipped."""
    if why := base.rights_of(request).why_not(Action.SKIP_EVENT, seen.group.name):
        return why
    if row is None or seen.problem:
        return "Where the partition stands is not known now."
    if row.halt is None or not row.halt.entry:
        return "The partition does not stand still at an event."
    return ""
