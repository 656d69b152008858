"""Search: one field for pages, groups, members and partitions; the palette asks for a fragment."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from dashboard.actions.roles import DOORS, Effect, Rights
from dashboard.pages.help import finding
from dashboard.pages.views import base
from dashboard.records.queries import search as queries
from dashboard.records.queries.search import Found

PAGES = (
    *(("overview", "Overview"), ("groups", "Groups"), ("new_group", "New group")),
    *(("audit", "Audit"), ("evaluations", "Evaluations"), ("status", "Status")),
    *(("producers", "Producers"), ("webhooks", "Webhooks"), ("users", "Users")),
    *(("approval_rules", "Approvals"), ("password", "Password"), ("help", "Help")),
)


@dataclass(frozen=True, slots=True)
class Hit:
    kind: str
    label: str
    url: str


def search(request: HttpRequest) -> HttpResponse:
    """`q`: what is looked for; of a group and one of its tabs: `orders settings`."""
    asked, rights = base.Asked(request.GET), base.rights_of(request)
    text = asked.text("q")
    hits = list(hits_of(text, rights, base.now_ms()))
    context = {"section": "search", "asked": asked, "q": text, "hits": hits}
    return base.show(request, "search", context, fragments=("hits",))


def hits_of(text: str, rights: Rights, now_ms: int) -> Iterator[Hit]:
    yield from _pages(text, rights)
    yield from _shown(queries.find(text, rights, now_ms))
    yield from (Hit("help", *section) for section in finding.sections(text))
    name, _, tab = text.rpartition(" ")
    if name and tab:
        yield from _tabs(queries.find(name.strip(), rights, now_ms), tab)


def _pages(text: str, rights: Rights) -> Iterator[Hit]:
    for name, label in PAGES:
        door = DOORS.get(name)
        opens = door is None or rights.anywhere(door.looks) is not Effect.DENY
        if opens and text.lower() in label.lower():
            yield Hit("page", label, reverse(name))


def _shown(found: Found) -> Iterator[Hit]:
    for group in found.groups:
        yield Hit("group", group.name, reverse("group", args=[group.name]))
    for name, number in found.partitions:
        url = reverse("partition", args=[name, number])
        yield Hit("partition", f"{number} of {name}", url)
    for name, member in found.members:
        yield Hit("member", f"{member} of {name}", reverse("group_members", args=[name]))


def _tabs(found: Found, tab: str) -> Iterator[Hit]:
    for group in found.groups:
        for name, label in base.TABS:
            if label.lower().startswith(tab.lower()):
                yield Hit("group", f"{group.name} · {label}", reverse(name, args=[group.name]))
