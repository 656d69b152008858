"""A group's live tabs: Map, Members, Partitions; and its snapshot as JSON for the page's script."""

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, JsonResponse

from dashboard.live.cells import PARTITION_STATES
from dashboard.pages.views import base, past
from dashboard.push import frames
from dashboard.records.queries import groups as group_queries
from dashboard.records.queries import tenures

TABLE_MAX = 500  # rows below the map; the Partitions tab has them all, in pages
LEGEND_MAX = 60


def group_map(request: HttpRequest, name: str) -> HttpResponse:
    seen = base.see(name)
    context = base.group_context(seen, "group", cells=True) | {
        "rows": seen.rows(range(min(seen.partitions, TABLE_MAX))),
        "leaving": {m.id: m.leaving for m in seen.snapshot.members} if seen.snapshot else {},
        "left_out": max(0, seen.partitions - TABLE_MAX),
        "legend_max": LEGEND_MAX,
        "moves": sorted(tenures.moves(seen.group, seen.now_ms).items()),
        **past.scrubbing(seen.group, seen.now_ms, None),
    }
    return base.show(request, "map", context, fragments=("scrubber",))


def group_snapshot(request: HttpRequest, name: str) -> HttpResponse:
    seen = base.see(name)
    if seen.snapshot is None or seen.problem:
        return JsonResponse({"error": seen.problem}, status=503)
    cells = request.GET.get("cells", "1") != "0"
    return JsonResponse(frames.whole(seen.snapshot, seen.hues, cells=cells))


def group_members(request: HttpRequest, name: str) -> HttpResponse:
    seen, asked = base.see(name), base.Asked(request.GET)
    members = seen.snapshot.members if seen.snapshot else ()
    page = Paginator(members, past.PAGE).get_page(asked.whole("page") or 1)
    most = max((m.owned for m in members), default=0) or 1
    staying = _staying(seen)
    owned = seen.snapshot.numbers.owned if seen.snapshot else 0
    context = base.group_context(seen, "group_members")
    running = context["running"]
    context |= {
        "asked": asked,
        "page": page,
        "members": page.object_list,
        "most": most,
        "drained": running.remaining() if running else (),
        "deadline_ms": running.deadline_ms if running else None,
        "mean": owned / staying if staying else None,
        "mean_share": min(1.0, owned / staying / most) if staying else None,
        "gone": group_queries.gone_members(seen.group),
    }
    return base.show(request, "members", context, fragments=("members",))


def _staying(seen: base.Seen) -> int:
    """Able members that were not told to leave: what is owned will be theirs."""
    if seen.snapshot is None:
        return 0
    leaving = sum(bool(m.leaving) and m.state != "lost" for m in seen.snapshot.members)
    return max(0, seen.snapshot.numbers.able - leaving)


def group_partitions(request: HttpRequest, name: str) -> HttpResponse:
    seen, asked = base.see(name), base.Asked(request.GET)
    text, state = asked.text("q"), asked.choice("state", ("", *PARTITION_STATES), "")
    found = seen.snapshot.partitions.found(text, state) if seen.snapshot else ()
    page = Paginator(found, past.PAGE).get_page(asked.whole("page") or 1)
    rows = seen.rows(list(page))
    owners = {row.number: row.owner for row in rows}
    context = base.group_context(seen, "group_partitions") | {
        "asked": asked,
        "q": text,
        "chosen": state,
        "states": PARTITION_STATES,
        "page": page,
        "rows": rows,
        "before": tenures.before_now(seen.group, owners),
        "moves": tenures.moves(seen.group, seen.now_ms, list(owners)),
    }
    return base.show(request, "partitions", context, fragments=("partitions",))
