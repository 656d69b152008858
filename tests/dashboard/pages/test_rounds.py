"""Rounds of a stateful group in the history: who has, gives up, keeps and learns what."""

import csv
import re

import pytest
from django.test import Client

from dashboard import coordinator
from dashboard.models import Rebalance
from dashboard.pages.templatetags import show
from dashboard.records.queries import groups, rebalances
from dashboard.records.queries.pages import Filters
from tests.dashboard.scaling import Scene


@pytest.fixture
def scene(store: object, group_name: str, db: None) -> Scene:
    """S4 came and learns 0 from S1."""
    scene = Scene(group_name)
    scene.join("S4")
    scene.round()
    return scene


def test_the_file_has_a_column_for_each_role(visitor: Client, scene: Scene) -> None:
    scene.agents["S4"].catch_up()
    scene.round()
    answer = visitor.get(f"/groups/{scene.group.name}/history/rebalances.csv")
    last, before = list(csv.DictReader(answer.getvalue().decode().splitlines()))[:2]
    assert before["learning"] == "S4: 0"
    assert before["assigned"] == "S1: 0 3; S2: 1 4; S3: 2"
    assert last["assigned"] == "S1: 3; S2: 1 4; S3: 2; S4: 0"
    assert (last["revoked"], last["standby"], last["learning"]) == ("S1: 0", "", "")


def test_a_cell_of_a_large_group_says_where_to_look(scene: Scene) -> None:
    row = Rebalance(partitions=rebalances.ROLES_PARTITIONS_MAX + 1)
    assert "see the page" in rebalances.roles_text(row, "learning")


def test_details_have_every_member(scene: Scene) -> None:
    roles = scene.last.roles
    assert list(roles) == ["S1", "S2", "S3", "S4"]
    assert roles["S4"] == {"assigned": [], "revoked": [], "standby": [], "learning": [0]}


def test_the_page_of_a_round_says_what_each_member_got(visitor: Client, scene: Scene) -> None:
    address = (
        f"/groups/{scene.group.name}/history/{scene.last.incarnation}/{scene.last.target_epoch}/"
    )
    page = visitor.get(address).content.decode()
    rows = dict(
        re.findall(r'<tr data-member="(\w+)">(.*?)</tr>', page.split('<table id="roles">')[1])
    )
    numbers = {m: re.findall(r'<td class="numbers">(.*?)</td>', row) for m, row in rows.items()}
    assert numbers["S1"] == ["0, 3", "", "", ""]
    assert numbers["S4"] == ["", "", "", "0"]
    scene.agents["S4"].catch_up()
    scene.round()
    page = visitor.get(f"/groups/{scene.group.name}/history/").content.decode()
    assert "learner ready" in page
    assert "a learner has restored its state and takes over" in page


def test_each_number_of_a_round_stands_under_its_heading(visitor: Client, scene: Scene) -> None:
    page = visitor.get(f"/groups/{scene.group.name}/history/").content.decode()
    table = page.split('<table id="rebalances">')[1].split("</table>")[0]
    head, row = table.split("<tbody>")[0], table.split("<tbody>")[1].split("</tr>")[0]
    names = re.findall(r"<th[^>]*>(.*?)</th>", head)
    values = dict(zip(names, re.findall(r"<td[^>]*>(.*?)</td>", row), strict=True))
    assert (values["Learning"], values["Strategy"]) == ("1", "planner")
    assert values["Members"] == str(scene.last.members)


def test_the_preview_says_what_would_be_learned_first(visitor: Client, scene: Scene) -> None:
    page = visitor.get(f"/groups/{scene.group.name}/rebalance/").content.decode()
    assert "nothing would move at once, 1 when learned" in page
    (line,) = re.findall(r"<tr>(.*?)</tr>", page.split('<table id="learning">')[1])[1:]
    assert re.findall(r'title="(\w+)"', line) == ["S1", "S4"]


def test_long_runs_of_partitions_are_said_short() -> None:
    assert show.numbers([0, 1, 3, 4, 5, 9]) == "0, 1, 3–5, 9"
    assert show.numbers(range(20_000)) == "0–19999"
    assert show.numbers(range(0, 1_000, 2)).endswith("398, and 300 more")


def test_who_learns_is_found_by_its_name(scene: Scene) -> None:
    epoch = scene.last.target_epoch
    Rebalance.objects.update(causes=[])
    found = rebalances.page(scene.group, Filters(member="S4"))
    assert [row.target_epoch for row in found.rows] == [epoch]


def test_a_group_whose_learners_are_at_work_is_not_called_unbalanced(
    store: object, group_name: str, db: None
) -> None:
    scene = Scene(group_name, members=("S1",))
    scene.join("S2")
    scene.round()
    coordinator.sample()
    assert scene.last.max_minus_min == 5
    (row,) = groups.rows(scene.last.at_ms)
    assert (row.state, row.last and row.last.learning) == ("steady", 2)


def test_queries_of_the_file_do_not_grow_with_its_lines(
    visitor: Client, scene: Scene, django_assert_max_num_queries: object
) -> None:
    with django_assert_max_num_queries(10):  # type: ignore[operator]
        visitor.get(f"/groups/{scene.group.name}/history/rebalances.csv").getvalue()
