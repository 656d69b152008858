"""One member: its life in the group, what it had when, and what it was asked to do."""

from django.http import Http404, HttpRequest, HttpResponse

from dashboard.models import Group
from dashboard.pages.views import base
from dashboard.pages.views.ownership import timeline
from dashboard.records.queries import members
from dashboard.records.queries.intervals import Shown


def member(request: HttpRequest, name: str, member_id: str) -> HttpResponse:
    seen, asked = base.see(name), base.Asked(request.GET)
    present = seen.snapshot.members if seen.snapshot else ()
    live_row = next((row for row in present if row.id == member_id), None)
    if live_row is None:
        check_known(seen.group, member_id)
    drawn = timeline(seen.group, asked, seen.now_ms, member=member_id)
    context = base.group_context(seen, "group_members") | drawn
    context |= recorded(seen.group, member_id, context["shown"]) | {"row": live_row}
    return base.show(request, "member", context, fragments=("member", "ownership_table"))


def check_known(group: Group, member_id: str) -> None:
    """Raises Http404."""
    if not members.is_known(group, member_id):
        raise Http404(f"Group {group.name} never had a member {member_id[: base.TEXT_MAX]}.")


def recorded(group: Group, member_id: str, shown: Shown) -> base.Context:
    return {
        "member_id": member_id,
        "stays": members.stays(group, member_id),
        "rounds_read": members.rounds_read(group),
        "commands": members.commands(group, member_id, shown.from_ms, shown.to_ms),
    }
