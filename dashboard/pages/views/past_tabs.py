"""The time machine on the other pages of a group: each has the template of the live one, in the
frame of the past, with what its rows said then (records/queries/then.py).
"""

from dataclasses import replace
from datetime import UTC, datetime

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from assignment.errors import InvalidInput
from assignment.types import GroupSettings
from dashboard.actions.offsets import jumps
from dashboard.models import Group
from dashboard.pages import charts
from dashboard.pages.attention_forms import LimitsForm
from dashboard.pages.forms import SettingsForm
from dashboard.pages.views import base, past
from dashboard.pages.views import history as live_history
from dashboard.pages.views import member as live_member
from dashboard.pages.views.charts import SPANS, figures
from dashboard.pages.views.ownership import timeline
from dashboard.pages.views.past import Past
from dashboard.records.audit import losses
from dashboard.records.queries import attention as attention_queries
from dashboard.records.queries import plans as plan_queries
from dashboard.records.queries import rebalances, tenures, then
from dashboard.records.queries.pages import page_of

TABLE = ("ownership_table",)
NOT_KEPT = "which audit entries would tell is not known any more, or the group was not made yet"


def _then(request: HttpRequest, name: str) -> tuple[Past, base.Asked]:
    return past.past_of(past.moment_of(request, name)), base.Asked(request.GET)


def only_now(request: HttpRequest, name: str, **_: object) -> HttpResponse:
    """What is not kept over time: the page says so, and where it is found as it is."""
    found = past.past_of(past.moment_of(request, name))
    return render(request, "dashboard/past_only_now.html", past.context_of(found, ""))


def ownership(request: HttpRequest, name: str) -> HttpResponse:
    found, asked = _then(request, name)
    context = past.context_of(found, "group_ownership") | _timeline(found, asked)
    return base.show(request, "ownership", context, TABLE)


def _timeline(
    found: Past, asked: base.Asked, *, member: str = "", number: int | None = None
) -> base.Context:
    group, at_ms = found.moment.group, found.moment.at_ms
    drawn = timeline(group, asked, at_ms, member=member, number=number, is_past=True)
    for row in drawn["page"].rows:
        then.tenure(row, at_ms)
    return drawn


def partition(request: HttpRequest, name: str, number: int) -> HttpResponse:
    found, asked = _then(request, name)
    group = found.moment.group
    if number >= group.partitions:
        raise Http404(f"Group {name} has partitions 0 to {group.partitions - 1}.")
    context = past.context_of(found, "group_partitions") | _timeline(found, asked, number=number)
    context |= _owners(found, number) | {
        "number": number,
        "jumps": [row for row in jumps(group, number) if row.at_ms <= found.moment.at_ms],
    }
    return base.show(request, "partition", context, TABLE)


def _owners(found: Past, number: int) -> base.Context:
    """For templates/dashboard/_owner_at.html."""
    group, at_ms = found.moment.group, found.moment.at_ms
    lost = [g for g in tenures.gaps(group) if g.at_ms >= at_ms and g.events_lost != 0]
    held = tenures.at_moment(group, at_ms, number)
    return {"found": [then.tenure(row, at_ms) for row in held], "gaps_near": lost}


def member(request: HttpRequest, name: str, member_id: str) -> HttpResponse:
    found, asked = _then(request, name)
    group, at_ms = found.moment.group, found.moment.at_ms
    live_member.check_known(group, member_id)
    drawn = _timeline(found, asked, member=member_id)
    told = live_member.recorded(group, member_id, drawn["shown"])
    context = past.context_of(found, "group_members") | drawn | told
    context |= {
        "owned": found.map.loads().get(member_id, 0),
        "stays": [then.stay(row, at_ms) for row in told["stays"] if row.joined_at_ms <= at_ms],
        "commands": [replace(one, **then.command(one, at_ms)) for one in told["commands"]],
    }
    return base.show(request, "member", context, TABLE)


def balance(request: HttpRequest, name: str) -> HttpResponse:
    found, asked = _then(request, name)
    span = asked.choice("span", SPANS, "1h")
    rows, drawn = figures(found.moment.group, found.moment.at_ms, span, is_past=True)
    context = past.context_of(found, "group_balance")
    there = [(m.id, m.owned) for m in context["members"]]
    mean = sum(owned for _, owned in there) / len(there) if there else None
    context |= {
        "span": span,
        "spans": SPANS,
        "figures": drawn | {"loads": charts.loads(there, mean, found.hues)},
        "rows": rows[-50:][::-1],
    }
    return base.show(request, "balance", context)


def history(request: HttpRequest, name: str) -> HttpResponse:
    found, asked = _then(request, name)
    group, at_ms = found.moment.group, found.moment.at_ms
    filters = asked.filters().until(at_ms)
    kind = asked.choice("show", live_history.KINDS, "rebalances")
    page = live_history.page(group, kind, filters, until_ms=at_ms)
    for row in page.rows:
        if kind == "rebalances":
            then.rebalance(row.first, at_ms)
        else:
            (then.tenure if kind == "ownership" else then.scale_down)(row, at_ms)
    number = filters.partition
    context = past.context_of(found, "group_history") | {
        "asked": asked,
        "filters": filters,
        "show": kind,
        "page": page,
        "causes": rebalances.causes(group),
        "gaps": [gap for gap in tenures.gaps(group) if gap.at_ms <= at_ms],
        "losses": losses(group).filter(at__lte=datetime.fromtimestamp(at_ms / 1000, UTC)),
        **({} if number is None else _owners(found, number)),
    }
    return base.show(request, "history", context)


def plans(request: HttpRequest, name: str) -> HttpResponse:
    found, asked = _then(request, name)
    group, at_ms = found.moment.group, found.moment.at_ms
    rows = plan_queries.found(group).filter(proposed_at_ms__lte=at_ms)
    if before := asked.filters().before:
        rows = rows.filter(pk__lt=before)
    page = page_of(rows, plan_queries.PAGE)
    context = past.context_of(found, "group_plans") | {
        "asked": asked,
        "page": replace(page, rows=then.plans(group, page.rows, at_ms)),
    }
    return base.show(request, "plans", context)


def attention(request: HttpRequest, name: str) -> HttpResponse:
    found, _ = _then(request, name)
    needed, over = then.attention_at(found.moment.group, found.moment.at_ms)
    context = past.context_of(found, "group_attention") | {"attention": needed, "over": over}
    return base.show(request, "attention", context)


def settings(request: HttpRequest, name: str) -> HttpResponse:
    """As the audit tells them: forms that cannot be sent."""
    found, _ = _then(request, name)
    group, at_ms = found.moment.group, found.moment.at_ms
    values = _settings(group, at_ms)
    limits = then.values(group, "change attention", attention_queries.limits_of(group), at_ms)
    mode = {"coordination": group.coordination, "mode_epoch": group.mode_epoch}
    mode = dict(then.values(group, "switch coordination", mode, at_ms) or {})
    context = past.context_of(found, "group_settings") | {
        "form": values and SettingsForm(None, settings=values),
        "limits": limits and LimitsForm(None, limits=limits),
        "coordination": mode
        and {"mode": mode["coordination"], "small": f"mode epoch {mode['mode_epoch']}"},
        "not_kept": NOT_KEPT,
    }
    return base.show(request, "settings", context)


def _settings(group: Group, at_ms: int) -> GroupSettings | None:
    """None: not known, or the group was not made yet."""
    if at_ms < group.created_at.timestamp() * 1000:
        return None
    found = then.values(group, "change settings", group.values.values(), at_ms)
    try:
        return None if found is None else GroupSettings.of(found)
    except InvalidInput:  # of a setting whose bounds were others then
        return None
