"""Rounds of a stateful group in the history: who has, gives up, keeps and learns what."""

import csv
import re

import pytest
from django.test import Client

from dashboard import coordinator
from dashboard.demo.status import group_status
from dashboard.models import Rebalance
from dashboard.pages.templatetags import show
from dashboard.records.queries import groups, rebalances
from dashboard.records.queries.pages import Filters
from tests.dashboard.agents import FakeAgent
from tests.dashboard.scaling import Scene, start


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
    page = visitor.get(address).content.decode()
    assert "learner ready" in page
    assert "a learner has restored its state and takes over" in page


def rows_of(page: str, table: str) -> list[dict[str, str]]:
    """A row's cells by their headings."""
    text = page.split(f'<table id="{table}">')[1].split("</table>", 1)[0]
    head, body = text.split("<tbody>")
    names = re.findall(r"<th\b[^>]*>(.*?)</th>", head)
    found = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in body.split("</tr>")[:-1]]
    return [dict(zip(names, cells, strict=True)) for cells in found]


def address_of(row: Rebalance) -> str:
    return f"/groups/{row.group.name}/history/{row.incarnation}/{row.target_epoch}/"


def test_a_rebalance_is_one_row_and_opened_it_shows_its_rounds(
    visitor: Client, scene: Scene
) -> None:
    """The join's second round waits for the learner, a third one is its own."""
    first = scene.last
    scene.agents["S4"].catch_up()
    scene.round()
    assert scene.last.first == first
    page = visitor.get(f"/groups/{scene.group.name}/history/").content.decode()
    row, start = rows_of(page, "rebalances")
    assert f">{first.target_epoch}</a>" in row["Epoch"]
    assert (row["Rounds"], row["Moved"], start["Rounds"]) == ("2", "1", "1")
    assert "done" in row["State"] and row["Strategy"] == "planner"
    opened = visitor.get(address_of(scene.last)).content.decode()
    newest, oldest = rows_of(opened, "rounds")
    assert (newest["Learning"], newest["Moved"], oldest["Learning"]) == ("0", "1", "1")
    assert oldest["Members"] == str(scene.last.members)
    assert "learner ready" in newest["Cause"]


def test_a_rebalance_lasts_while_somebody_learns_for_it(visitor: Client, scene: Scene) -> None:
    first = scene.last
    assert (first.outcome, first.ended_at_ms, first.gap_in_all_ms) == ("done", None, None)
    page = visitor.get(f"/groups/{scene.group.name}/history/").content.decode()
    row = rows_of(page, "rebalances")[0]
    assert "running" in row["State"] and "not yet" in row["Ended"]
    scene.agents["S4"].catch_up()
    scene.round()
    first.refresh_from_db()
    assert first.ended_at_ms == scene.last.finished_at_ms
    assert first.gap_in_all_ms is not None


def test_pages_are_of_rebalances_and_not_of_rounds(scene: Scene) -> None:
    scene.agents["S4"].catch_up()
    scene.round()
    newest = rebalances.page(scene.group, Filters(), 1)
    assert [(row.first, row.rounds) for row in newest.rows] == [(scene.last.first, 2)]
    rest = rebalances.page(scene.group, Filters(before=newest.older), 1)
    assert [(row.first.cause, row.rounds) for row in rest.rows] == [("join", 1)]
    assert rest.older is None
    ready = rebalances.page(scene.group, Filters(cause="ready"))
    assert not ready.rows, "a cause is that of the whole"
    assert [row.rounds for row in rebalances.page(scene.group, Filters(partition=0)).rows] == [2, 1]


def test_a_scale_down_is_one_rebalance_to_the_end(store: object, group_name: str, db: None) -> None:
    """Told, learned, taken over, gone."""
    scene = Scene(group_name)
    start(scene, members=["S3"])
    for _ in range(4):
        scene.round()
        for agent in scene.here:
            agent.catch_up()
    assert "S3" not in scene.owned and scene.outcomes() == {"S3": "clean"}
    causes = scene.group.rebalances.order_by("pk").values_list("cause", "first__cause")
    assert [*causes] == [
        ("join", None),
        ("scale-down", None),
        ("ready", "scale-down"),
        ("leave", "scale-down"),
    ]
    assert [row.state for row in rebalances.page(scene.group, Filters()).rows] == ["done"] * 2


def test_superseded_is_a_matter_of_a_round(visitor: Client, scene: Scene) -> None:
    """Ready twice, before anybody followed the first of the two targets."""
    scene.join("S5")
    scene.round()
    whole = scene.last.whole
    scene.agents["S4"].catch_up()
    coordinator.rebalance(scene.group.name)
    scene.agents["S5"].catch_up()
    scene.round()
    outcomes = set(scene.group.rebalances.values_list("outcome", flat=True))
    assert outcomes == {"done", "superseded"}
    scene.round()
    whole.refresh_from_db()
    found = rebalances.page(scene.group, Filters()).rows
    assert [row.state for row in found] == ["done"] * 3
    page = visitor.get(f"/groups/{scene.group.name}/history/").content.decode()
    assert "superseded" not in page.split('<table id="rebalances">')[1]


def test_three_joins_of_three_rounds_are_three_rebalances_and_no_alarm(
    visitor: Client, store: object, group_name: str, db: None
) -> None:
    scene = Scene(group_name, members=())
    for member in ("S1", "S2", "S3"):
        agent = scene.agents[member] = FakeAgent(scene.group, member)
        agent.join()
        agent.beat(able=False)
        coordinator.rebalance(group_name)  # it gets nothing: its consumer is not ready
        coordinator.tick()
        agent.beat()
        scene.round()
        agent.catch_up()
        scene.round()
    coordinator.sample()
    assert Rebalance.objects.count() == 8, "the first has nobody to learn from"
    assert rebalances.count(scene.group) == 3
    assert group_status(scene.group)["rebalances"] == 3
    (row,) = groups.rows(scene.last.at_ms)
    assert (row.state, row.last and row.last.whole.cause) == ("steady", "join")
    overview = visitor.get("/")
    assert overview.context["hour"] == 3 and not overview.context["attention"]
    assert [(one.first.cause, one.rounds) for one in overview.context["recent"]] == [
        ("join", 3),
        ("join", 3),
        ("join", 2),
    ]


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
    assert [row.first.target_epoch for row in found.rows] == [epoch]


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
