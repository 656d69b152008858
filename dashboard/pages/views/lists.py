"""Overview, the list of groups, and making a new one."""

from contextlib import suppress
from dataclasses import replace

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from assignment.errors import EvenkeelError
from dashboard.actions import adoption
from dashboard.actions import groups as actions
from dashboard.live.connection import StoreUnavailable
from dashboard.live.group_state import ORDER
from dashboard.pages.forms import NewGroupForm
from dashboard.pages.views import base
from dashboard.records.queries import attention, rebalances
from dashboard.records.queries import groups as group_queries
from dashboard.records.queries import overview as overview_queries

PAGE = 50
RECENT = 12


def overview(request: HttpRequest) -> HttpResponse:
    now = base.now_ms()
    rights = base.rights_of(request)
    rows = group_queries.rows(now, rights)
    context = {
        "section": "overview",
        "now_ms": now,
        "summary": group_queries.summary(rows),
        "hour": rebalances.count_since(now - group_queries.HOUR_MS, rights),
        "attention": attention.shown(rights),
        "tiles": overview_queries.tiles(rows, now),
        "marks": overview_queries.marks(rights, now),
        "recent": rebalances.recent(RECENT, rights),
    }
    return base.show(request, "overview", context, fragments=("overview",))


def groups(request: HttpRequest) -> HttpResponse:
    context = _list(request)
    with suppress(StoreUnavailable):  # the list says so
        context["adoptable"] = adoption.adoptable(base.rights_of(request))
    page = Paginator(context["rows"], PAGE).get_page(context["asked"].whole("page") or 1)
    scores, lags = group_queries.trends([row.group.pk for row in page], context["now_ms"])
    context |= {
        "page": page,
        "rows": [
            replace(row, score_trend=scores[row.group.pk], lag_trend=lags[row.group.pk])
            for row in page
        ],
    }
    return base.show(request, "groups", context, fragments=("groups",))


def _list(request: HttpRequest) -> base.Context:
    asked = base.Asked(request.GET)
    sorts = [sign + name for name in group_queries.SORTS for sign in ("", "-")]
    text, state = asked.text("q"), asked.choice("state", ("", *ORDER), "")
    sort = asked.choice("sort", sorts, "name")
    now = base.now_ms()
    every = group_queries.rows(now, base.rights_of(request))
    return {
        "section": "groups",
        "now_ms": now,
        "asked": asked,
        "q": text,
        "state": state,
        "sort": sort,
        "states": ORDER,
        "total": len(every),
        "rows": group_queries.selected(every, text, state, sort),
    }


COLUMNS = (
    *("group", "state", "members", "partitions", "owned", "conflicts", "balance_degree", "score"),
    *("stickiness", "last_rebalance_at_ms", "last_rebalance_cause", "lag_records"),
)
MADE: dict[str, base.Made] = {
    "group": "group.name",
    "partitions": "group.partitions",
    "last_rebalance_at_ms": "last.whole.at_ms",
    "last_rebalance_cause": "last.whole.cause",
    **{n: f"sample.{n}" for n in ("members", "owned", "conflicts", "lag_records")},
    **{n: f"last.{n}" for n in ("balance_degree", "score", "stickiness")},
}


def groups_csv(request: HttpRequest) -> StreamingHttpResponse:
    return base.csv_file("groups", COLUMNS, _list(request)["rows"], MADE)


@require_POST
def adopt_group(request: HttpRequest, name: str) -> HttpResponse:
    base.only(request, ())
    try:
        group = adoption.adopt(name, base.by(request))
    except EvenkeelError as error:
        messages.error(request, str(error))
        return redirect("groups")
    return base.done(request, f"Group {group.name} is on this dashboard now.", "group", name)


def new_group(request: HttpRequest) -> HttpResponse:
    form = NewGroupForm(base.sent(request))
    create = actions.create_group
    if group := base.attempt(request, form, lambda by: create(by=by, **form.cleaned_data)):
        said = f"Group {group.name} is made. Next: a token for its agents."
        return base.done(request, said, "tokens", group.name)
    return base.show(request, "new_group", {"section": "groups", "form": form})
