"""Epochs beside each other, a moment's map as bytes, and one epoch's changes to be played."""

from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from assignment import ownership
from dashboard.api.v1.addresses import AS_OF
from dashboard.pages.views import past
from dashboard.records.queries import colours, epochs, intervals, known
from dashboard.records.queries import ownership as ownership_queries

MOVES_SHOWN = 500
CHANGES_MAX = 20_000  # of one epoch that are played


def group_map(request: HttpRequest, name: str) -> HttpResponse:
    """The Map tab as of a moment, or of two epochs."""
    if request.GET.get("vs", "").strip():
        return _compared(request, name)
    return past.group_map(request, name)


def _compared(request: HttpRequest, name: str) -> HttpResponse:
    first_text, then_text = (request.GET.get(key, "").strip() for key in ("epoch", "vs"))
    if not first_text or request.GET.get("at", "").strip():
        raise BadRequest(f"vs={then_text!r} is compared with an epoch: ?epoch=41&vs=42")
    group = past.group_named(name)
    first = past.past_of(past.moment_of_epoch(group, "epoch", first_text))
    then = past.past_of(past.moment_of_epoch(group, "vs", then_text))
    assert first.moment.epoch and then.moment.epoch
    vars(request)[AS_OF] = then.moment.at_ms
    found = epochs.moved(first.map, then.map)
    shown = found[:MOVES_SHOWN]
    context = past.context_of(then, "group") | {
        "sides": [(p, past.address_of(p.moment)) for p in (first, then)],
        "moved": epochs.explained(group, shown, first.moment.epoch, then.moment.epoch),
        "moves": len(found),
        "moved_numbers": [move.number for move in found],
        "left_out": len(found) - len(shown),
        "loads": _loads(first, then),
    }
    return render(request, "dashboard/past_epochs.html", context)


def _loads(first: past.Past, then: past.Past) -> list[tuple[str, int | None, int | None, int]]:
    """(member, partitions before, after, difference); None: it was not there."""
    before, after = ({m.id: m.owned for m in past.members(side)} for side in (first, then))
    return [
        (name, before.get(name), after.get(name), after.get(name, 0) - before.get(name, 0))
        for name in sorted({*before, *after})
    ]


def map_bytes(request: HttpRequest, name: str) -> HttpResponse:
    """assignment.ownership.encode; its head says the hue of each name and the stream too, and who
    learned and who stood by: kind -> member -> numbers, with the hues of those who own nothing.
    """
    found = past.past_of(past.moment_of(request, name))
    group, at_ms = found.moment.group, found.moment.at_ms
    named = intervals.replicas_by_member(group, at_ms) if found.known.is_known else {}
    others = {member for row in named.values() for member in row} - {*found.map.names}
    more: dict[str, Any] = {
        "at_ms": at_ms,
        "stream": group.stream,
        "hues": [found.hues.get(member) for member in found.map.names],
        "others": {member: found.hues.get(member) for member in sorted(others)},
        "replicas": named,
        "known": found.known.is_known,
    }
    told = ownership.encode(found.map, more)
    return HttpResponse(told, content_type="application/octet-stream")


def epoch_changes(request: HttpRequest, name: str) -> JsonResponse:
    """Of `?epoch=`: every change of a lock from its target until its end, oldest first: [at_ms,
    number, index of the owner in names or -1, fence]. `goes_on`: these are not all.
    """
    moment = past.moment_of(request, name)
    if moment.epoch is None:
        raise BadRequest("epoch= is missing: an epoch is played, not a moment")
    from_ms, names = moment.epoch.at_ms, dict[str, int]()
    try:
        known.check_kept(moment.group, from_ms)
    except known.NotKept as error:
        raise BadRequest(str(error)) from error
    steps = ownership_queries.steps(moment.group, from_ms, moment.at_ms, CHANGES_MAX + 1)
    told = [
        (at_ms, number, -1 if owner is None else names.setdefault(owner, len(names)), fence)
        for at_ms, number, owner, fence in steps[:CHANGES_MAX]
    ]
    hues = colours.of_group(moment.group.pk)
    return JsonResponse(
        {
            "from_ms": from_ms,
            "to_ms": moment.at_ms,
            "names": list(names),
            "hues": [hues.get(member) for member in names],
            "changes": told,
            "goes_on": len(steps) > len(told),
        }
    )
