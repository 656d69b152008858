"""Every table of every page: as many cells in each row as in its head, whoever is in the group."""

from collections.abc import Callable, Iterable, Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLResolver, reverse

from dashboard.actions import drafting, groups, plans, scale_down
from dashboard.models import AuditSource, Group
from dashboard.pages.urls import urlpatterns
from dashboard.records.audit import By
from tests.dashboard.scaling import Scene
from tests.dashboard.scenes import settle, staffed

BY_ANN = By("ann", AuditSource.PAGE)
TABLES_MIN = 20
NO_PAGES = {
    *("login", "logout", "theme", "clock", "adopt_group", "audit_verify", "demo"),
    *("single_sign_on", "single_sign_on_callback", "evaluation_report"),
    *("group_map_bytes", "epoch_changes", "help_image"),
}
MORE = {
    "group": ("?at={now_ms}", "?epoch={epoch}", "?epoch={first}&vs={epoch}", "?at=2001-01-01"),
    "group_members": ("?at={now_ms}", "?epoch={epoch}"),
    "group_partitions": ("?at={now_ms}", "?epoch={epoch}"),
    "group_history": ("?show=ownership", "?show=scale-downs", "?at={now_ms}"),
    "partition": ("?at={now_ms}", "?span=all"),
}


class Tables(HTMLParser):
    """`found`: of each table the widths of its rows, in columns."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[list[int]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.found.append([])
        elif tag == "tr":
            self.found[-1].append(0)
        elif tag in ("td", "th"):
            self.found[-1][-1] += int(dict(attrs).get("colspan") or 1)


def routes(
    patterns: Iterable[Any], around: frozenset[str] = frozenset()
) -> Iterator[tuple[str, frozenset[str]]]:
    """(name, what its address takes)"""
    for pattern in patterns:
        takes = around | {*pattern.pattern.converters}
        if isinstance(pattern, URLResolver):
            yield from routes(pattern.url_patterns, takes)
        else:
            yield str(pattern.name), takes


def addresses(group: Group, user: int) -> Iterator[str]:
    """All pages there are, with the tables that they show on request."""
    rebalance, scaled = group.rebalances.first(), group.scale_downs.first()
    plan = plans.propose(group, drafting.rebalance(group, "averagely", None), BY_ANN)
    assert rebalance is not None
    known = {
        "name": group.name,
        "number": 0,
        "page": "api",
        "member_id": group.member_records.earliest("joined_at_ms").member_id,
        "incarnation": rebalance.incarnation,
        "target_epoch": rebalance.target_epoch,
    }
    oldest = group.rebalances.last()
    assert oldest is not None
    moments = {"now_ms": rebalance.at_ms, "epoch": rebalance.target_epoch}
    moments["first"] = oldest.target_epoch
    for name, takes in routes(urlpatterns):
        pk = {"user": user, "plan": plan.pk}.get(name, scaled and scaled.pk)
        if name in NO_PAGES or (pk is None and name == "scale_down"):
            continue
        address = reverse(name, kwargs={n: {**known, "pk": pk}[n] for n in takes})
        yield address
        for query in MORE.get(name, ()):
            yield address + query.format(**moments)


def plain(name: str) -> Group:
    """Two members, of which one left."""
    group = groups.create_group(name, stream=f"s-{name}", partitions=4, by=BY_ANN)
    agents = staffed(group, "a", "b")
    own = drafting.rebalance(group, "config", {"config_map": {"a": ["0-3"], "b": []}})
    plans.run_now(group, own, BY_ANN)
    settle(group, agents)
    agents[1].leave()
    settle(group, agents[:1])
    return group


def learning(name: str) -> Group:
    """With learners, standbys and a scale-down that runs."""
    scene = Scene(name, standby_replicas=1)
    scale_down.start(scene.group, members=["S2"], timeout_ms=600_000, by=BY_ANN)
    scene.round()
    scene.round()
    return scene.group


@pytest.mark.parametrize(("made", "learns"), [(plain, False), (learning, True)])
@pytest.mark.usefixtures("store")
def test_each_row_has_as_many_cells_as_its_head(
    visitor: Client, user: User, group_name: str, made: Callable[[str], Group], learns: bool
) -> None:
    seen, filled = "", 0
    for address in addresses(made(group_name), user.pk):
        answer = visitor.get(address)
        assert answer.status_code == 200, address
        if not answer["Content-Type"].startswith("text/html"):
            continue
        page = answer.content.decode()
        for widths in Tables(page).found:
            assert len(set(widths)) == 1, f"a table of {address} has rows of {widths} columns"
            filled += len(widths) > 1
        seen += page
    assert filled > TABLES_MIN
    assert (">Learner</th>" in seen) == learns


def test_a_row_that_lacks_a_cell_is_seen() -> None:
    page = "<table><tr><th>a<th>b</tr><tr><td colspan=2></td></tr><tr><td></td></tr></table>"
    assert Tables(page).found == [[2, 2, 1]]
