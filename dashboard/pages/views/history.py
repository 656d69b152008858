"""History of a group: rebalances, ownership as the locks saw it, and scale-downs."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse

from assignment import maps
from dashboard.models import Group, ScaleDown
from dashboard.pages import texts
from dashboard.pages.views import base, past
from dashboard.records.audit import losses
from dashboard.records.queries import rebalances, scale_downs, tenures, then
from dashboard.records.queries.pages import Filters, Page, for_file, page_of
from dashboard.records.queries.rebalances import PHASES

Row = TypeVar("Row")
PAGE = 50
TENURES_PAGE = 100
KINDS = ("rebalances", "ownership", "scale-downs")


def group_history(request: HttpRequest, name: str) -> HttpResponse:
    seen, asked = base.see(name), base.Asked(request.GET)
    filters, kind = asked.filters(), asked.choice("show", KINDS, "rebalances")
    context = base.group_context(seen, "group_history") | {
        "asked": asked,
        "filters": filters,
        "show": kind,
        "page": page(seen.group, kind, filters),
        "causes": rebalances.causes(seen.group),
        "gaps": tenures.gaps(seen.group),
        "losses": losses(seen.group),
    }
    return base.show(request, "history", context, fragments=("history",))


def page(group: Group, kind: str, filters: Filters, until_ms: int | None = None) -> Page[Any]:
    """`kind`: of KINDS. `until_ms`: rounds that came later are not counted."""
    if kind == "rebalances":
        return rebalances.page(group, filters, until_ms=until_ms)
    if kind == "ownership":
        return page_of(tenures.found(group, filters), TENURES_PAGE)
    return page_of(scale_downs.found(group, filters), PAGE)


def rebalance_details(
    request: HttpRequest, name: str, incarnation: int, target_epoch: int
) -> HttpResponse:
    seen = base.see(name)
    rows = seen.group.rebalances.select_related("first")
    row = rows.filter(incarnation=incarnation, target_epoch=target_epoch).first()
    if row is None:
        raise Http404(f"Group {name} has no rebalance with epoch {target_epoch}.")
    phases, (earlier, later) = rebalances.phases(row), rebalances.neighbours(row)
    [whole], rounds = rebalances.wholes([row.whole]), rebalances.rounds_of(row.whole)
    context = base.group_context(seen, "group_history") | {
        "row": row,
        "whole": whole,
        "rounds": rounds,
        "moves": row.moves(),
        "loads": rebalances.loads(row),
        "roles": row.roles,
        "phases": phases,
        "longest": max(ms or 0 for ms in phases.values()) or 1,
        "earlier": earlier,
        "later": later,
        "scale_down": scale_downs.at_moment(seen.group, row.at_ms),
    }
    return base.show(request, "rebalance", context, fragments=("rebalance",))


REBALANCE_COLUMNS = f"""
    incarnation target_epoch first_incarnation first_epoch at at_ms cause planned actor reason
    strategy outcome members partitions kept moved avoidable balance_degree max_minus_min score
    stickiness stickiness_best
    {" ".join(f"{phase}_ms" for phase in PHASES)}
    total_ms ownership_gap_ms finished_at_ms celery_task_id celery_worker
""".split()
WHOLE: dict[str, base.Made] = {  # the rebalance whose round it is
    "first_incarnation": "whole.incarnation",
    "first_epoch": "whole.target_epoch",
}
ROLES: dict[str, base.Made] = {  # each a column, `member: numbers; member: numbers`
    kind: partial(rebalances.roles_text, kind=kind) for kind in maps.KINDS
}


def rebalances_csv(request: HttpRequest, name: str) -> StreamingHttpResponse:
    group, filters, then_ms = _asked(request, name)
    rows = _as_of(rebalances.every(group, filters), then.rebalance, then_ms)
    made = {"at": lambda row: texts.exact(row.at_ms), **WHOLE, **ROLES}
    return base.csv_file(f"{name}-rebalances", (*REBALANCE_COLUMNS, *ROLES), rows, made)


OWNERSHIP_COLUMNS = (
    *("partition", "number", "member_id", "fence", "started", "started_ms", "ended", "ended_ms"),
    *("end", "refused_at_ms"),
)


def ownership_csv(request: HttpRequest, name: str) -> StreamingHttpResponse:
    group, filters, then_ms = _asked(request, name)
    rows = _as_of(for_file(tenures.found(group, filters)), then.tenure, then_ms)
    made: dict[str, base.Made] = {
        "started": lambda row: texts.exact(row.started_ms),
        "ended": lambda row: None if row.ended_ms is None else texts.exact(row.ended_ms),
    }
    return base.csv_file(f"{name}-ownership", OWNERSHIP_COLUMNS, rows, made)


SCALE_DOWN_COLUMNS = (
    *("id", "asked_at", "asked_at_ms", "told_at_ms", "ended_at_ms", "actor", "source", "reason"),
    *("percent", "members", "stay", "leave", "timeout_ms", "at_deadline", "state", "outcomes"),
)


def _outcomes(row: ScaleDown) -> str:
    return "; ".join(f"{m}: {e['outcome'] or 'here'}" for m, e in sorted(row.members.items()))


def scale_downs_csv(request: HttpRequest, name: str) -> StreamingHttpResponse:
    group, filters, then_ms = _asked(request, name)
    rows = _as_of(for_file(scale_downs.found(group, filters)), then.scale_down, then_ms)
    made: dict[str, base.Made] = {
        "asked_at": lambda row: texts.exact(row.asked_at_ms),
        "members": "live",
        "leave": lambda row: len(row.members),
        "outcomes": _outcomes,
    }
    return base.csv_file(f"{name}-scale-downs", SCALE_DOWN_COLUMNS, rows, made)


def _as_of(
    rows: Iterable[Row], then_of: Callable[[Row, int], Row], then_ms: int | None
) -> Iterable[Row]:
    """Each as it was at that moment; None: as it is."""
    return rows if then_ms is None else (then_of(row, then_ms) for row in rows)


def _asked(request: HttpRequest, name: str) -> tuple[Group, Filters, int | None]:
    """(the group, what of it, the moment as of which the file is), as the page has it that leads
    here.
    """
    group, filters = past.group_named(name), base.Asked(request.GET).filters()
    if not past.asks(request):
        return group, filters, None
    at_ms = past.moment_of(request, name).at_ms
    return group, filters.until(at_ms), at_ms
