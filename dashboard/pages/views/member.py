"""One member: its life in the group, what it had when, and what it was asked to do."""

from django.http import Http404, HttpRequest, HttpResponse

from dashboard.pages.views import base
from dashboard.pages.views.ownership import timeline
from dashboard.records.queries import members


def member(request: HttpRequest, name: str, member_id: str) -> HttpResponse:
    seen, asked = base.see(name), base.Asked(request.GET)
    present = seen.snapshot.members if seen.snapshot else ()
    live_row = next((row for row in present if row.id == member_id), None)
    if live_row is None and not members.is_known(seen.group, member_id):
        raise Http404(f"Group {name} never had a member {member_id[: base.TEXT_MAX]}.")
    context = base.group_context(seen, "group_members") | timeline(seen, asked, member=member_id)
    shown = context["shown"]
    context |= {
        "member_id": member_id,
        "row": live_row,
        "stays": members.stays(seen.group, member_id),
        "rounds_read": members.rounds_read(seen.group),
        "commands": members.commands(seen.group, member_id, shown.from_ms, shown.to_ms),
    }
    return base.show(request, "member", context, fragments=("member", "ownership_table"))
