"""The demo's page, there as long as `up` runs the demo: add a consumer, or remove one."""

import time

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from assignment.errors import EvenkeelError
from dashboard.actions import at_once
from dashboard.actions.access import NO_GROUP, require
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Action
from dashboard.demo import requests
from dashboard.demo.requests import GROUP
from dashboard.models import Group, Plan
from dashboard.pages.views import base
from dashboard.records import audit
from dashboard.records.audit import By

ADD = "add demo consumer"
REASON = "removed on the demo's page"


def demo_page(request: HttpRequest) -> HttpResponse:
    if not requests.is_served(settings.DATA):
        raise Http404("No demo runs here: python3 manage.py up starts one.")
    rights = base.rights_of(request)
    if not rights.may(Action.SEE, GROUP):
        raise Http404(NO_GROUP.format(GROUP))
    seen = base.see(GROUP)
    if request.method == "POST":
        base.only(request, ("do", "take"))
        if base.asked_to(request, ("add",)):
            _add(request, seen)
        elif member := request.POST.get("take", ""):
            _remove(request, seen, member)
        else:
            raise BadRequest("take= is empty: no member, and nothing to do")
        return HttpResponseRedirect(reverse("demo"))
    why, looks = rights.why_not(Action.SCALE_DOWN, GROUP), rights.may_look(Action.SCALE_DOWN, GROUP)
    proposes = why if looks else ""
    context = _context(seen) | {"refused": {"scale_down": why}, "proposes": proposes}
    return base.show(request, "demo", context, fragments=("demo",))


def link(request: HttpRequest) -> dict[str, bool]:
    """Context processor: whether pages link to it."""
    is_there = requests.is_served(settings.DATA)
    return {"demo_runs": is_there and base.rights_of(request).may(Action.SEE, GROUP)}


def _context(seen: base.Seen) -> base.Context:
    running = seen.group.running_scale_down
    now_s = time.time()
    return {
        "section": "demo",
        "group": seen.group,
        "problem": seen.problem,
        "stale_since_ms": seen.stale_since_ms,
        "running": running,
        "no_scale_down": base.why_no_scale_down(seen, running),
        "members": seen.snapshot.members if seen.snapshot else (),
        "hues": seen.hues,
        "on_the_way": len(requests.waiting(settings.DATA)),
        "refusals": [
            (round(max(0.0, now_s - refusal.at_s) * 1000), refusal.why)
            for refusal in requests.refusals(settings.DATA)
        ],
    }


def _add(request: HttpRequest, seen: base.Seen) -> None:
    try:
        _ask_to_add(seen.group, base.by(request))
    except EvenkeelError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, "A consumer is asked for; Spark takes a while to start.")


@audit.attempted(ADD)
def _ask_to_add(group: Group, by: By) -> None:
    """On record before it is asked. Raises Refused."""
    require(by, Action.SCALE_DOWN, group)

    def note(request_id: str) -> None:
        audit.record(by, ADD, group, after={"request": request_id})

    try:
        requests.ask_to_add(settings.DATA, by.actor, note)
    except requests.TooMany as error:
        raise Refused(str(error)) from error
    except OSError as error:
        raise Refused(f"the demo cannot be asked: {error.strerror}") from error


def _remove(request: HttpRequest, seen: base.Seen, member: str) -> None:
    """The same function as the command's; its agent ends by itself."""
    said = f"{member} is draining: it leaves when others have learned its state."
    try:
        found = at_once.drain(seen.group, base.by(request, REASON), members=[member])
        if isinstance(found, Plan):
            said = f"To remove {member} is proposed as a plan: somebody else may approve it."
    except EvenkeelError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, said)
