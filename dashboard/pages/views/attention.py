"""What needs attention: of a group, with a place to take note of it; and how much there is."""

from functools import cache
from typing import Any

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse

from dashboard.actions import attention as actions
from dashboard.models import Group, Occurrence
from dashboard.pages.attention_forms import AcknowledgeForm
from dashboard.pages.views import base
from dashboard.records.queries import attention as queries


def group_attention(request: HttpRequest, name: str) -> HttpResponse:
    """GET looks; POST with `occurrence` and `reason` acknowledges that one."""
    seen = base.see(name)
    form = AcknowledgeForm(base.sent(request))
    key = request.POST.get("occurrence", "")
    if request.method == "POST":
        row = _asked_for(seen.group, key)
        now_ms = base.now_ms()
        done = base.attempt(
            request,
            form,
            lambda by: actions.acknowledge(row, by, now_ms),
            also=("occurrence",),
        )
        if done:
            return base.done(request, f"{done.rule} is acknowledged.", "group_attention", name)
    context = base.group_context(seen, "group_attention") | {
        "form": form,
        "asked_for": key,
        "over": queries.past(seen.group),
    }
    return base.show(request, "attention", context, fragments=("attention",))


def _asked_for(group: Group, key: str) -> Occurrence:
    if not key:
        raise BadRequest("occurrence= is missing: the number of what is acknowledged")
    row = group.occurrences.filter(pk=int(key)).first() if base.is_key(key) else None
    if row is None:
        raise Http404(f"There is no occurrence {key[: base.TEXT_MAX]!r} in this group.")
    return row


def attention_count(request: HttpRequest) -> JsonResponse:
    """For the title of a page that stays open."""
    return JsonResponse({"count": queries.count(base.rights_of(request))})


def counted(request: HttpRequest) -> dict[str, Any]:
    """Context processor: how much needs attention that nobody has acknowledged; "" for none."""

    @cache  # once a page, and only of one that says it: templates call what can be called
    def count() -> int | str:
        is_known = getattr(request, "user", None) is not None and request.user.is_authenticated
        return (queries.count(base.rights_of(request)) if is_known else 0) or ""

    return {"attention_count": count}
