"""The time machine: a group's map, members and partitions as of a moment that was; its other tabs
are in past_tabs.py.

`?at=` is a moment, `?epoch=` the one at which that epoch's round had ended. Nothing here asks
Redis, nothing can be done here, and no socket is opened.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.core.exceptions import BadRequest
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from assignment import metrics
from assignment.errors import InvalidInput
from assignment.ownership import OwnershipMap, nobody
from dashboard.actions import access
from dashboard.api.v1.addresses import AS_OF
from dashboard.live.cells import PARTITION_STATES
from dashboard.models import Group, MemberRecord, Rebalance, Sample
from dashboard.pages import texts
from dashboard.pages.views import base
from dashboard.push import frames
from dashboard.records.queries import colours, epochs, intervals, known, ownership, tenures
from dashboard.records.queries import groups as group_queries

AHEAD_MS = 60_000  # clocks differ: later than that has not been yet
EPOCH = re.compile(r"(?:([0-9]{1,9})\.)?([0-9]{1,15})")
MOMENTS = ("at", "epoch", "vs")
LOOKING = ("GET", "HEAD")
TABLE_MAX = 500
STEPS_SHOWN = 40
PAGE = 100  # rows of a group's lists, now as then
STATES = ("owned", "unowned", "conflict")

View = Callable[..., HttpResponse]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """`epoch`: the one asked for; `goes_on`: it has not ended, so that this is the present."""

    group: Group
    at_ms: int
    epoch: Rebalance | None = None
    goes_on: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What history has of a moment. `map` has nobody where nothing is known."""

    moment: Moment
    known: known.Known
    map: OwnershipMap
    hues: Mapping[str, int]

    @property
    def older(self) -> int:
        """Partitions whose owner is known from before events were lost, and not since."""
        lost_ms, since = self.known.lost_before_ms, self.map.since_ms
        return 0 if lost_ms is None else int(((since > 0) & (since < lost_ms)).sum())


def asks(request: HttpRequest) -> bool:
    """Whether the address names a moment."""
    return any(request.GET.get(name, "").strip() for name in MOMENTS)


def of_then(view: View, past: View) -> View:
    """`past` where the address names a moment: there, only to look."""

    @wraps(view)
    def answer(request: HttpRequest, *arguments: Any, **named: Any) -> HttpResponse:
        if not asks(request):
            return view(request, *arguments, **named)
        if request.method not in LOOKING:
            raise BadRequest("nothing can be done as of a moment: go back to live to act")
        return past(request, *arguments, **named)

    return answer


# --- the address ----------------------------------------------------------------------------------


def moment_of(request: HttpRequest, name: str) -> Moment:
    """Noted for the page's curl command too. Raises Http404, and BadRequest with what is wrong."""
    found = _moment(request, group_named(name))
    vars(request)[AS_OF] = found.at_ms
    return found


def _moment(request: HttpRequest, group: Group) -> Moment:
    at, epoch = (request.GET.get(key, "").strip() for key in ("at", "epoch"))
    if at and epoch:
        raise BadRequest(
            f"at={at[: base.TEXT_MAX]!r} and epoch={epoch!r} are two moments: give one"
        )
    return moment_of_epoch(group, "epoch", epoch) if epoch else _moment_at(group, at)


def group_named(name: str) -> Group:
    group = group_queries.find(name)
    if group is None:
        raise Http404(access.NO_GROUP.format(name))
    return group


def _moment_at(group: Group, text: str) -> Moment:
    try:
        at_ms = texts.parse_moment(text[: base.TEXT_MAX])
    except InvalidInput as error:
        raise BadRequest(f"at: {error}") from error
    if at_ms > base.now_ms() + AHEAD_MS:
        raise BadRequest(f"at={text!r} has not been yet: it is {texts.exact(base.now_ms())}")
    return Moment(group=group, at_ms=at_ms)


def moment_of_epoch(group: Group, key: str, text: str) -> Moment:
    found = EPOCH.fullmatch(text)
    if found is None:
        shown = text[: base.TEXT_MAX]
        raise BadRequest(
            f"{key}={shown!r} is not an epoch: a number, as 41, or 2.41 of an older Redis"
        )
    incarnation = None if found[1] is None else int(found[1])
    row = epochs.named(group, incarnation, int(found[2]))
    if row is None:
        raise BadRequest(f"{key}={text!r}: group {group.name} has no such epoch in its history")
    at_ms = row.finished_at_ms
    if at_ms is None:
        return Moment(group=group, at_ms=base.now_ms(), epoch=row, goes_on=True)
    return Moment(group=group, at_ms=at_ms, epoch=row)


# --- what was -------------------------------------------------------------------------------------


def past_of(moment: Moment) -> Past:
    said = known.of_moment(moment.group, moment.at_ms)
    group = moment.group
    found = ownership.at(group, moment.at_ms) if said.is_known else nobody(group.partitions)
    return Past(moment=moment, known=said, map=found, hues=colours.of_group(group.pk))


def address_of(moment: Moment) -> str:
    """The query of a page of this moment."""
    if moment.epoch is None:
        return f"?at={texts.exact(moment.at_ms)}"
    newest = epochs.newest_incarnation(moment.group)
    return f"?epoch={epochs.name_of(moment.epoch, newest)}"


def context_of(past: Past, tab: str) -> base.Context:
    """For templates/dashboard/past.html, which every page of a moment extends."""
    moment, group = past.moment, past.moment.group
    there = members(past)
    strip = _strip(past, there)
    return {
        "section": "groups",
        "group": group,
        "tab": tab,
        "tabs": base.TABS,
        "frame": "dashboard/past.html",
        "past": past,
        "at_ms": moment.at_ms,
        "address": address_of(moment),
        "kept": address_of(moment),  # behind the addresses of other pages
        "why_not": f"This is the group as of {texts.exact(moment.at_ms)}: go back to live to act",
        "strip": [(key, label, strip[key]) for key, label in frames.STRIP_LABELS.items()],
        "hues": past.hues,
        "stateful": group.values.stateful,
        "partition_states": PARTITION_STATES,
        "members": there,
        **scrubbing(group, moment.at_ms, moment.epoch),
    }


def scrubbing(group: Group, at_ms: int, shown: Rebalance | None) -> base.Context:
    """For templates/dashboard/_scrubber.html, on the live map too."""
    found = epochs.scrubber(group, at_ms, shown)

    def link(row: Rebalance | None) -> str:
        return "" if row is None else f"?epoch={epochs.name_of(row, found.newest)}"

    return {
        "scrubber": found,
        "ticks": [(i * 10, row, link(row)) for i, row in enumerate(found.ticks)],
        "ticks_width": max(1, len(found.ticks)) * 10,
        "earlier": link(found.earlier),
        "compared": _compared(link(found.earlier), link(shown)),
        "later": link(found.later),
    }


def _compared(earlier: str, shown: str) -> str:
    return f"{earlier}&vs={shown.removeprefix('?epoch=')}" if earlier and shown else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastMember:
    """`record` None: it owned something, and nobody noted that it joined."""

    id: str
    owned: int
    record: MemberRecord | None


def members(past: Past) -> list[PastMember]:
    group, at_ms = past.moment.group, past.moment.at_ms
    rows = group_queries.members_at(group, at_ms)
    loads = past.map.loads()
    records = {row.member_id: row for row in rows}
    names = sorted({*records, *(name for name, load in loads.items() if load)})
    return [
        PastMember(id=name, owned=loads.get(name, 0), record=records.get(name)) for name in names
    ]


def _strip(past: Past, there: Sequence[PastMember]) -> dict[str, frames.Json]:
    if not past.known.is_known:
        return {
            key: frames.unknown("nothing is known of this moment") for key in frames.STRIP_LABELS
        }
    sample = group_queries.sample_at(past.moment.group, past.moment.at_ms)
    held, size = len(past.map.held()), past.map.size
    balance = metrics.balance_degree([member.owned for member in there])
    return {
        "members": frames.number(texts.grouped(len(there)), "", "", "members that had joined"),
        "owned": frames.number(
            f"{texts.grouped(held)} / {texts.grouped(size)}", texts.percent(held / size), "",
            "partitions with a live lock",
        ),
        "conflicts": frames.number(
            texts.grouped(len(past.map.several)), "", "", "partitions that two locks held"
        ),
        "balance": frames.unknown("there was no member")
        if balance is None
        else frames.number(texts.grouped(balance, 2), "", "", "standard deviation per member"),
        **_sampled(sample),
    }  # fmt: skip


def _sampled(sample: Sample | None) -> dict[str, frames.Json]:
    """What is measured and not recorded: of the newest sample of that time."""
    rate = None if sample is None else sample.events_per_second
    lag = None if sample is None else sample.lag_records
    why = "no sample of this moment is kept"
    return {
        "rate": frames.unknown(why)
        if rate is None
        else frames.number(texts.grouped(rate), "events/s"),
        "lag": frames.unknown(why) if lag is None else frames.number(texts.grouped(lag), "records"),
    }


# --- pages ----------------------------------------------------------------------------------------


def group_map(request: HttpRequest, name: str) -> HttpResponse:
    past = past_of(moment_of(request, name))
    size = past.map.size
    context = context_of(past, "group") | {
        "rows": partitions(past, range(min(size, TABLE_MAX))),
        "left_out": max(0, size - TABLE_MAX),
        "moves": sorted(tenures.moves(past.moment.group, past.moment.at_ms).items()),
        **_steps(past.moment),
    }
    return render(request, "dashboard/past_map.html", context)


def _steps(moment: Moment) -> base.Context:
    """Moments of the epoch that was asked for: what its button plays, as links."""
    if moment.epoch is None:
        return {}
    from_ms = moment.epoch.at_ms
    found = ownership.moments(moment.group, from_ms, moment.at_ms, STEPS_SHOWN + 1)
    has_more = len(found) > STEPS_SHOWN
    return {"before_ms": from_ms - 1, "steps": found[:STEPS_SHOWN], "steps_go_on": has_more}


def group_members(request: HttpRequest, name: str) -> HttpResponse:
    past = past_of(moment_of(request, name))
    context = context_of(past, "group_members")
    found = context["members"]
    most = max((member.owned for member in found), default=0) or 1
    mean = len(past.map.held()) / len(found) if found else None
    context |= {"most": most, "mean": mean, "mean_share": None if mean is None else mean / most}
    return render(request, "dashboard/past_members.html", context)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPartition:
    number: int
    owner: str | None
    fence: int | None
    since_ms: int | None
    state: str  # of STATES
    replicas: tuple[Sequence[str], ...]  # learners and standbys that the target of then named


def partitions(past: Past, numbers: Sequence[int]) -> list[PastPartition]:
    found = past.map
    replicas = intervals.replicas_at(past.moment.group, past.moment.at_ms, numbers)
    return [
        PastPartition(
            number=number,
            owner=found.owner_of(number),
            fence=int(found.fence[number]) or None,
            since_ms=int(found.since_ms[number]) or None,
            state=_state(number, found),
            replicas=tuple(replicas[kind][number] for kind in intervals.REPLICAS),
        )
        for number in numbers
    ]


def _state(number: int, found: OwnershipMap) -> str:
    if found.owner[number] < 0:
        return "unowned"
    return "conflict" if number in found.several else "owned"


def group_partitions(request: HttpRequest, name: str) -> HttpResponse:
    past, asked = past_of(moment_of(request, name)), base.Asked(request.GET)
    text, state = asked.text("q"), asked.choice("state", ("", *STATES), "")
    numbers = fitting(past.map, text, state)
    page = Paginator(numbers, PAGE).get_page(asked.whole("page") or 1)
    rows = partitions(past, list(page))
    owners = {row.number: row.owner for row in rows}
    group, at_ms = past.moment.group, past.moment.at_ms
    context = context_of(past, "group_partitions") | {
        "asked": asked,
        "q": text,
        "chosen": state,
        "states": STATES,
        "page": page,
        "rows": rows,
        "before": tenures.before_now(group, owners, at_ms),
        "moves": tenures.moves(group, at_ms, list(owners)),
    }
    return render(request, "dashboard/past_partitions.html", context)


def fitting(found: OwnershipMap, text: str, state: str) -> list[int]:
    """Numbers, as on the live page: a number is that partition, other text a part of the owner's
    id.
    """
    numbers = range(found.size)
    if text.isdecimal():
        numbers = range(int(text), int(text) + 1) if int(text) < found.size else range(0)
    elif text:
        fits = [text in name for name in found.names] + [False]  # -1 is the last
        return [n for n, at in enumerate(found.owner.tolist()) if fits[at] and _is(state, n, found)]
    return [n for n in numbers if _is(state, n, found)]


def _is(state: str, number: int, found: OwnershipMap) -> bool:
    return not state or state == _state(number, found)
