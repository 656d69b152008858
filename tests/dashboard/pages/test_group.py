"""GET /groups/<name>/ (Map), members/, partitions/, snapshot.json."""

import json
import re
from typing import Any

import pytest
from django.test import Client

from dashboard import coordinator
from dashboard.models import Group
from tests.dashboard.agents import FakeAgent
from tests.dashboard.scenes import settle, staffed

ROW = re.compile(
    r'<tr data-partition="([^"]*)" data-number="(\d+)" data-owner="([^"]*)"'
    r' data-fence="([^"]*)" data-state="([^"]*)"'
)


def ownership(page: str) -> list[tuple[str, ...]]:
    assert '<table id="ownership">' in page
    return ROW.findall(page)


def first_of(page: str) -> Any:
    found = re.search(r'<script id="first" type="application/json">(.*?)</script>', page)
    assert found
    return json.loads(found[1])


def test_the_table_says_who_owns_what(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    page = visitor.get(f"/groups/{group.name}/").content.decode()
    held = {str(p): (a.member, str(f)) for a in agents for p, f in a.held.items()}
    rows = ownership(page)
    assert {row[0]: (row[2], row[3]) for row in rows} == held
    assert [row[1] for row in rows] == ["0", "1", "2", "3"]
    assert {row[4] for row in rows} == {"owned"}
    assert "steady" in page


def test_first_data_and_snapshot_are_the_same(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    first = first_of(visitor.get(f"/groups/{group.name}/").content.decode())
    again = visitor.get(f"/groups/{group.name}/snapshot.json").json()
    assert first.pop("at_ms") <= again.pop("at_ms")
    assert first == again
    assert {member["id"]: member["colour"] for member in first["members"]} == {"a": 0, "b": 1}


def test_without_a_member_it_says_what_to_do(visitor: Client, group: Group) -> None:
    page = visitor.get(f"/groups/{group.name}/").content.decode()
    assert "No member yet" in page
    assert f"/groups/{group.name}/tokens/" in page
    assert {row[2:] for row in ownership(page)} == {("", "", "unowned")}


def test_other_tabs_do_not_carry_the_cells(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    page = visitor.get(f"/groups/{group.name}/members/").content.decode()
    assert first_of(page)["cells"] == []
    assert visitor.get(f"/groups/{group.name}/snapshot.json?cells=0").json()["cells"] == []


def test_members_against_the_mean(visitor: Client, group: Group, agents: list[FakeAgent]) -> None:
    page = visitor.get(f"/groups/{group.name}/members/").content.decode()
    assert re.findall(r'data-member="([^"]+)"', page) == ["a", "b"]
    assert "mean 2.00 partitions per able member" in page


def test_more_members_than_partitions_are_idle_and_say_so(visitor: Client, group: Group) -> None:
    staffed(group, "a", "b", "c", "d", "e")
    page = visitor.get(f"/groups/{group.name}/members/").content.decode()
    assert "idle: 4 partitions, 5 members" in page
    assert "idle: 4 partitions, 5 members" in visitor.get(f"/groups/{group.name}/").content.decode()


def test_who_left_is_listed(visitor: Client, group: Group, agents: list[FakeAgent]) -> None:
    agents[0].leave()
    settle(group, agents[1:])
    page = visitor.get(f"/groups/{group.name}/members/").content.decode()
    assert "Gone lately" in page
    assert 'data-key="gone-' in page


def test_partitions_tell_the_owner_before_and_the_changes(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    moved = sorted(p.number for p in agents[0].held)
    agents[0].leave()
    settle(group, agents[1:])
    page = visitor.get(f"/groups/{group.name}/partitions/").content.decode()
    for number in range(4):
        row = page.split(f'data-partition="{group.stream}:{number}"')[1].split("</tr>")[0]
        assert ('<span title="a">a</span>' in row) == (number in moved)
        assert (">1</td>" in row) == (number in moved)


@pytest.mark.parametrize(
    ("query", "numbers"),
    [("?q=2", ["2"]), ("?state=unowned", []), ("?q=nobody", []), ("?page=9", ["0", "1", "2", "3"])],
)
def test_partitions_are_filtered(
    visitor: Client, group: Group, agents: list[FakeAgent], query: str, numbers: list[str]
) -> None:
    page = visitor.get(f"/groups/{group.name}/partitions/{query}").content.decode()
    assert re.findall(r'<tr data-partition="[^"]*:(\d+)"', page) == numbers


@pytest.mark.parametrize("tab", ["", "members/", "partitions/"])
def test_queries_do_not_grow_with_the_members(
    visitor: Client, group: Group, tab: str, django_assert_max_num_queries: Any
) -> None:
    staffed(group, "a", "b", "c", "d")
    coordinator.tick()
    with django_assert_max_num_queries(9):
        assert visitor.get(f"/groups/{group.name}/{tab}").status_code == 200
