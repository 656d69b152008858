"""Ownership over time: the page with its table, the picture as bytes, and who had a partition at a
moment as JSON.
"""

from dataclasses import replace
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse

from dashboard.actions import access
from dashboard.models import Group, Tenure
from dashboard.pages import picture, texts
from dashboard.pages.pixels import WIDTH_MIN, Frame
from dashboard.pages.views import base
from dashboard.records.queries import colours, intervals, known, marks, tenures
from dashboard.records.queries import groups as group_queries
from dashboard.records.queries.intervals import Intervals, Shown
from dashboard.records.queries.pages import Filters, Page, page_of

LINES, ROWS = 400, range(1, 1_001)
WIDTH, WIDTHS = 1_200, range(WIDTH_MIN, 4_001)
REPLICA_LINES_MAX = 64  # above that a line is too thin for a hatch
TABLE_PAGE = 100
HOUR_MS = 3_600_000
SPANS = {"1h": HOUR_MS, "6h": 21_600_000, "24h": 86_400_000, "7d": 604_800_000, "all": None}
SPAN = "24h"
MARGIN = 0.02  # of what is shown, left before the first interval
TAKEN = frozenset({"from", "to", "span", "first", "last", "member", "rows", "width"})


def group_ownership(request: HttpRequest, name: str) -> HttpResponse:
    seen, asked = base.see(name), base.Asked(request.GET)
    context = base.group_context(seen, "group_ownership")
    context |= timeline(seen.group, asked, seen.now_ms)
    context["members"] = seen.snapshot.members if seen.snapshot else ()
    return base.show(request, "ownership", context, fragments=("ownership_table",))


def timeline(
    group: Group,
    asked: base.Asked,
    now_ms: int,
    *,
    member: str = "",
    number: int | None = None,
    is_past: bool = False,
) -> base.Context:
    """For templates/dashboard/_timeline.html and its table: all that is asked for; or of that
    member or that partition alone. `is_past`: nothing that came after `now_ms` is shown.
    """
    filters, span = asked.filters(), asked.choice("span", SPANS, SPAN)
    filters = replace(filters, member=member or filters.member)
    if is_past:
        filters = filters.until(now_ms)
    shown = _shown(asked, group, filters, SPANS[span], now_ms)
    if number is not None:
        shown = replace(shown, first=number, last=number)
    return {
        "asked": asked,
        "filters": filters,
        "shown": shown,
        "span": span,
        "spans": SPANS,
        "begun_ms": intervals.begun_ms(group),
        "hatched_max": REPLICA_LINES_MAX,
        "page": _table(group, filters, shown),
    }


def ownership_picture(request: HttpRequest, name: str) -> HttpResponse:
    """`?from=&to=&first=&last=&rows=&width=&member=`: times as everywhere, partitions, and how many
    lines and pixels there are. 400 with a sentence for each value that cannot be read.
    """
    group, asked, now_ms = _group(name), base.Asked(request.GET), base.now_ms()
    filters, span = asked.filters(), asked.choice("span", SPANS, SPAN)
    shown = _shown(asked, group, filters, SPANS[span], now_ms)
    width = _bounded(asked, "width", asked.whole("width"), WIDTHS, WIDTH)
    unknown = [f"there is no parameter {one[: base.TEXT_MAX]!r}" for one in {*request.GET} - TAKEN]
    if errors := [*asked.errors, *sorted(unknown)]:
        return JsonResponse({"error": "; ".join(errors)}, status=400)
    frame = Frame(
        from_ms=shown.from_ms,
        to_ms=shown.to_ms,
        until_ms=min(shown.to_ms, now_ms),
        width=width,
        gaps=not filters.member,
    )
    body = picture.encoded(
        frame,
        *_read(group, shown, filters.member),
        marks.marks(group, shown.from_ms, shown.to_ms),
    )
    return HttpResponse(body, content_type="application/octet-stream")


def _read(group: Group, shown: Shown, member: str) -> tuple[Intervals, list[Intervals]]:
    hues = colours.of_group(group.pk)
    if member:
        return intervals.of_member(group, member, shown, hues), []
    found = intervals.of_partitions(group, shown, hues)
    if len(found.numbers) > REPLICA_LINES_MAX:
        return found, []
    return found, [*intervals.replicas(group, shown, found.numbers, hues).values()]


def partition_owner(request: HttpRequest, name: str, number: int) -> JsonResponse:
    """Who had it at `?at=`, by default now; where nobody had, who was last and who is next."""
    group, asked = _group(name), base.Asked(request.GET)
    if number >= group.partitions:
        raise Http404(f"Group {name} has partitions 0 to {group.partitions - 1}.")
    moment = asked.moment("at")
    if asked.errors:
        return JsonResponse({"error": "; ".join(asked.errors)}, status=400)
    at_ms = base.now_ms() if moment is None else moment
    try:
        known.check_kept(group, at_ms)
    except known.NotKept as error:
        return JsonResponse({"error": str(error)}, status=400)
    hues = colours.of_group(group.pk)
    found = tenures.at_moment(group, at_ms, number)
    replicas = intervals.replicas_at(group, at_ms, [number])
    last, following = (None, None) if found else tenures.around(group, at_ms, number)
    return JsonResponse(
        {
            "partition": number,
            "at_ms": at_ms,
            "owners": [_tenure(row, hues) for row in found],
            "last": last and _tenure(last, hues),
            "next_ms": following and following.started_ms,
            **{kind: of[number] for kind, of in replicas.items()},
        }
    )


def _tenure(row: Tenure, hues: dict[str, int]) -> dict[str, Any]:
    """`end`: how it ended; None while it goes on, and where the end was lost."""
    return {
        "member": row.member_id,
        "hue": hues.get(row.member_id),
        "fence": texts.fence(row.fence),
        "since_ms": row.started_ms,
        "until_ms": row.ended_ms,
        "end": row.end,
        "refused_at_ms": row.refused_at_ms,
    }


def _group(name: str) -> Group:
    """Without a look at Redis."""
    found = group_queries.find(name)
    if found is None:
        raise Http404(access.NO_GROUP.format(name))
    return found


def _shown(
    asked: base.Asked, group: Group, filters: Filters, span_ms: int | None, now_ms: int
) -> Shown:
    """By default the span until now (None: all), but not what was before history begins."""
    every = range(group.partitions)
    first = _bounded(asked, "first", filters.first, every, 0)
    last = _bounded(asked, "last", filters.last, every, every[-1])
    if first > last:
        asked.errors.append(f"first {first} is not up to last {last}")
        first, last = 0, every[-1]
    from_ms, to_ms = filters.from_ms, now_ms if filters.to_ms is None else filters.to_ms
    if from_ms is not None and from_ms >= to_ms:
        said = texts.exact(from_ms), texts.exact(to_ms)
        asked.errors.append("from {} is not before to {}".format(*said))
        from_ms = None
    if from_ms is None:
        from_ms = _from(group, span_ms, to_ms)
    lines = _bounded(asked, "rows", asked.whole("rows"), ROWS, LINES)
    return Shown(from_ms=from_ms, to_ms=to_ms, first=first, last=last, lines=lines)


def _from(group: Group, length_ms: int | None, to_ms: int) -> int:
    begun_ms = intervals.begun_ms(group)
    if begun_ms is None or begun_ms >= to_ms:
        return to_ms - (length_ms or HOUR_MS)
    begins_ms = begun_ms - max(1, round((to_ms - begun_ms) * MARGIN))
    return begins_ms if length_ms is None else max(begins_ms, to_ms - length_ms)


def _bounded(
    asked: base.Asked, name: str, found: int | None, allowed: range, otherwise: int
) -> int:
    if found is None or found in allowed:
        return otherwise if found is None else found
    asked.errors.append(f"{name} {found} is not between {allowed[0]} and {allowed[-1]}")
    return otherwise


def _table(group: Group, filters: Filters, shown: Shown) -> Page[Tenure]:
    some = shown.last - shown.first + 1 < group.partitions  # else no index by number is tempting
    first, last = (shown.first, shown.last) if some else (None, None)
    narrowed = replace(filters, from_ms=shown.from_ms, first=first, last=last)
    return page_of(tenures.found(group, narrowed), TABLE_PAGE)
