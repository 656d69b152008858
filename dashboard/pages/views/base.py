"""What every page of a group begins with, and how pages read their address."""

import csv
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from django import http
from django.contrib import messages
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import BadRequest
from django.forms import Form
from django.shortcuts import redirect, render
from django.utils import timezone

from assignment.bounds import not_storable
from assignment.errors import EvenkeelError, InvalidInput
from dashboard.actions.access import NO_GROUP
from dashboard.actions.roles import Rights
from dashboard.live import watching
from dashboard.live.cells import PARTITION_STATES, LivePartition
from dashboard.live.connection import StoreUnavailable
from dashboard.live.group_state import GroupState
from dashboard.live.snapshot import MEMBER_STATES, LiveSnapshot
from dashboard.models import AuditSource, ScaleDown
from dashboard.pages import forms, texts
from dashboard.push import frames
from dashboard.records import rights
from dashboard.records.audit import By
from dashboard.records.logins import address_of
from dashboard.records.queries import attention, colours
from dashboard.records.queries import groups as group_queries
from dashboard.records.queries.pages import Filters

Context = dict[str, Any]
T = TypeVar("T")
TABS = (
    ("group", "Map"),
    ("group_ownership", "Ownership over time"),
    ("group_members", "Members"),
    ("group_partitions", "Partitions"),
    ("group_balance", "Balance"),
    ("group_history", "History"),
    ("group_plans", "Plans"),
    ("group_attention", "Attention"),
    ("group_settings", "Settings"),
)
GROUP_FRAGMENTS = ("actions", "attention_note", "pause_note")  # its buttons, and what it needs
TEXT_MAX = 200  # of a filter
KEY_DIGITS_MAX = 16
TEXT_FILTERS = ("member", "cause", "actor", "action", "object", "group", "result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A group as it is now; with a `problem`, as this process saw it last, if it ever did."""

    group: Any  # the row of models.Group
    snapshot: LiveSnapshot | None
    problem: str
    hues: dict[str, int]

    @property
    def now_ms(self) -> int:
        """Redis' clock, which all stored times are of; else this machine's."""
        return self.snapshot.at_ms if self.snapshot and not self.problem else now_ms()

    def rows(self, numbers: Sequence[int]) -> list[LivePartition]:
        """Of these partitions, some hundreds at most."""
        if self.snapshot is None:
            return []
        if self.problem:
            return [self.snapshot.partitions[number] for number in numbers]
        return watching.rows(self.snapshot, numbers)

    @property
    def partitions(self) -> int:
        """That there are rows of."""
        return len(self.snapshot.partitions) if self.snapshot else 0

    @property
    def stale_since_ms(self) -> int | None:
        return self.snapshot.at_ms if self.snapshot and self.problem else None


def now_ms() -> int:
    return int(timezone.now().timestamp() * 1000)


def see(name: str) -> Seen:
    group = group_queries.find(name)
    if group is None:
        raise http.Http404(NO_GROUP.format(name))
    snapshot, problem = None, ""
    try:
        snapshot = watching.snapshot(name)
    except StoreUnavailable as error:
        snapshot, problem = watching.last_snapshot(name), str(error)
    hues = colours.of_group(group.pk, snapshot.members if snapshot else ())
    return Seen(group=group, snapshot=snapshot, problem=problem, hues=hues)


def group_context(seen: Seen, tab: str, *, cells: bool = False) -> Context:
    """For templates/dashboard/group.html, which every tab extends as its `frame`."""
    snapshot, running = seen.snapshot, seen.group.running_scale_down
    state, why = GroupState.UNKNOWN, seen.problem
    if snapshot and not seen.problem:
        state, why = frames.state_of(snapshot)
    strip = frames.strip_of(snapshot) if snapshot else frames.UNKNOWN_STRIP
    return {
        "section": "groups",
        "group": seen.group,
        "tab": tab,
        "tabs": TABS,
        "frame": "dashboard/group.html",
        "problem": seen.problem,
        "snapshot": snapshot,
        "stale_since_ms": seen.stale_since_ms,
        "now_ms": seen.now_ms,
        "state": state,
        "state_why": why,
        "partition_states": PARTITION_STATES,
        "coordination": frames.coordination_of(snapshot) if snapshot else None,
        "strip": [(key, label, strip[key]) for key, label in frames.STRIP_LABELS.items()],
        "first": frames.whole(snapshot, seen.hues, cells=cells) if snapshot else frames.NOTHING,
        "hues": seen.hues,
        "stateful": seen.group.values.stateful,
        "attention": attention.of_group(seen.group),
        "running": running,
        "no_scale_down": why_no_scale_down(seen, running),
        "live_states": (*PARTITION_STATES, *MEMBER_STATES, *GroupState, READY),
    }


def why_no_scale_down(seen: Seen, running: ScaleDown | None) -> str:
    """One sentence for the button that is disabled; "" when members can be told to leave."""
    if not seen.group.values.stateful:
        return "This group is not stateful: its members can end without anything to wait for."
    if running is not None:
        return "A scale-down of this group runs already."
    if seen.snapshot is None or seen.problem:
        return "The members are not known now."
    if sum(m.state != "lost" for m in seen.snapshot.members) < 2:
        return "It takes two members: one that leaves and one that stays."
    return ""


READY = "ready"  # a learner


def show(
    request: http.HttpRequest, template: str, context: Context, fragments: Sequence[str] = ()
) -> http.HttpResponse:
    """The page, or only the fragment that it asks for again: the same template for both.

    Every live page of a group has the fragments of GROUP_FRAGMENTS.
    """
    wanted = request.GET.get("fragment", "")
    if wanted in fragments or (wanted in GROUP_FRAGMENTS and "snapshot" in context):
        template = f"_{wanted}"
    return render(request, f"dashboard/{template}.html", context)


def rights_of(request: http.HttpRequest) -> Rights:
    """Of who is logged in; read once per request."""
    held = vars(request)
    if "rights" not in held:
        held["rights"] = rights.of_user(getattr(request, "user", AnonymousUser()))
    found: Rights = held["rights"]
    return found


def by(request: http.HttpRequest, reason: str = "") -> By:
    """Also of a stranger: then without a name."""
    name = request.user.get_username() if hasattr(request, "user") else ""
    return By(
        name,
        AuditSource.PAGE,
        reason,
        address=address_of(request),
        rights=rights_of(request),
        is_stranger=not name,
    )


def attempt(
    request: http.HttpRequest, form: Form, action: Callable[[By], T], *, also: Iterable[str] = ()
) -> T | None:
    """What the action made of a form that was sent; None when none was, or when it was refused:
    then the form says why. `also`: what is sent beside the form's own fields. Raises Denied.
    """
    if form.is_bound:
        forms.refuse_unknown(form, request.POST, also)
    if not form.is_valid():
        return None
    try:
        return action(by(request, form.cleaned_data.get("reason", "")))
    except EvenkeelError as error:
        form.add_error(None, str(error))
        return None


def done(
    request: http.HttpRequest, said: str, page: str, *arguments: Any
) -> http.HttpResponseRedirect:
    """To the page that shows it, with the sentence on it."""
    messages.success(request, said)
    return redirect(page, *arguments)


def asked_to(request: http.HttpRequest, known: Iterable[str]) -> str:
    """The `do=` of a form, else of the address; "" for none. Raises BadRequest with the value."""
    do = (sent(request) or request.GET).get("do", "") or request.GET.get("do", "")
    if do and do not in known:
        raise BadRequest(f"do={do[:TEXT_MAX]!r} is none of {', '.join(known)}")
    return do


def only(request: http.HttpRequest, known: Iterable[str]) -> None:
    """Where there is no form to say it beside. Raises BadRequest with the name."""
    for name in sorted(set(request.POST) - {*known, forms.CSRF}):
        raise BadRequest(f"there is no field {name[:TEXT_MAX]!r}")


def is_key(text: str) -> bool:
    """Whether it may be a row's number that a form carries."""
    return text.isascii() and text.isdecimal() and len(text) <= KEY_DIGITS_MAX


def sent(request: http.HttpRequest) -> http.QueryDict | None:
    """What a form was sent with; None when the page is only looked at."""
    return request.POST if request.method == "POST" else None


# --- the address ----------------------------------------------------------------------------------


class Asked:
    """Reads a query string; what cannot be read is left out and said in `errors`."""

    def __init__(self, query: http.QueryDict) -> None:
        self._query = query
        self.errors: list[str] = []

    def text(self, name: str) -> str:
        text = self._query.get(name, "").strip()[:TEXT_MAX]
        if not_storable(text) is None:
            return text
        self.errors.append(f"{name} {text!r} has a character that is in no text here")
        return ""

    def choice(self, name: str, allowed: Iterable[str], default: str) -> str:
        value = self.text(name) or default
        if value in allowed:
            return value
        self.errors.append(f"{name} {value!r} is not one of the choices")
        return default

    def whole(self, name: str) -> int | None:
        return self._number(name, self.text(name), 16, "a whole number")

    def partition(self, name: str) -> int | None:
        """A number, or stream:number."""
        return self._number(name, self.text(name).rpartition(":")[2], 6, "a partition")

    def _number(self, name: str, text: str, digits: int, kind: str) -> int | None:
        if text.isdecimal() and len(text) <= digits:
            return int(text)
        if text:
            self.errors.append(f"{name} {text!r} is not {kind}")
        return None

    def moment(self, name: str) -> int | None:
        text = self.text(name)
        if not text:
            return None
        try:
            return texts.parse_moment(text)
        except InvalidInput as error:
            self.errors.append(str(error))
            return None

    def filters(self) -> Filters:
        return Filters(
            **{name: self.text(name) for name in TEXT_FILTERS},
            partition=self.partition("partition"),
            first=self.whole("first"),
            last=self.whole("last"),
            from_ms=self.moment("from"),
            to_ms=self.moment("to"),
            before=self.whole("before"),
        )


# --- files ----------------------------------------------------------------------------------------


Made = str | Callable[[Any], Any]


class _Line:
    """A file that hands back what is written: csv.writer needs one."""

    def write(self, text: str) -> str:
        return text


def csv_file(
    name: str, columns: Iterable[str], rows: Iterable[Any], made: Mapping[str, Made]
) -> http.StreamingHttpResponse:
    """A column is a row's field of that name; `made` has the others: a path, or how it is made."""
    writer = csv.writer(_Line(), quoting=csv.QUOTE_ALL)
    chosen = {column: made.get(column, column) for column in columns}

    def lines() -> Iterator[str]:
        yield writer.writerow(chosen)
        for row in rows:
            yield writer.writerow([_csv_value(_made(row, how)) for how in chosen.values()])

    return http.StreamingHttpResponse(
        lines(), content_type="text/csv; charset=utf-8", headers=_attached(name, "csv")
    )


def _made(row: Any, how: Made) -> Any:
    """None where the path ends before its end."""
    if callable(how):
        return how(row)
    for part in how.split("."):
        row = None if row is None else getattr(row, part)
    return row


FORMULA = frozenset("=+-@|%")  # what spreadsheets begin one with
UNSEEN = ("C", "Z", "M")  # control, format (zero width) and private; separators; marks


# Where a comma is part of numbers, files of commas are split at these, within quotes too.
AFTER_ANOTHER_SEPARATOR = re.compile(r"(?<=[;\t\r\n])[^;\t\r\n]+")


def _csv_value(value: Any) -> Any:
    """A text that a spreadsheet would run as a formula is made a text: also one whose first letter
    that is seen is a full-width form of such a sign, and a part that may become a cell of its own.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        return value
    begins = "'" if value[:1] in ("\t", "\r", "\n") or _is_formula(value) else ""
    return begins + AFTER_ANOTHER_SEPARATOR.sub(
        lambda part: f"'{part[0]}" if _is_formula(part[0]) else part[0], value
    )


def _is_formula(text: str) -> bool:
    seen = next((c for c in text if not unicodedata.category(c).startswith(UNSEEN)), "")
    return bool(FORMULA & {*unicodedata.normalize("NFKC", seen)})


def file_of_lines(name: str, lines: Iterable[str]) -> http.StreamingHttpResponse:
    """JSON lines."""
    return http.StreamingHttpResponse(
        (f"{line}\n" for line in lines),
        content_type="application/jsonl; charset=utf-8",
        headers=_attached(name, "jsonl"),
    )


def _attached(name: str, ending: str) -> dict[str, str]:
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    return {"Content-Disposition": f'attachment; filename="{name}-{day}.{ending}"'}
