"""GET /groups/<name>/ (Map), members/, partitions/, snapshot.json."""

import json
import re
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from assignment.scripts import dashboard_side
from assignment.wire import GroupKeys, StreamKeys
from dashboard import coordinator
from dashboard.actions import scale_down
from dashboard.live import connection, deadline
from dashboard.live import groups as live_groups
from dashboard.live import scripts as live
from dashboard.live.group_state import STUCK_MS
from dashboard.models import AuditSource, Group
from dashboard.pages.templatetags import show
from dashboard.pages.views import past
from dashboard.records.audit import By
from tests.dashboard.agents import FakeAgent, tick
from tests.dashboard.scaling import Scene
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


def test_members_are_paged_on_the_server(
    visitor: Client, group: Group, agents: list[FakeAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "PAGE", 1)
    first, last = sorted(agent.member for agent in agents)
    pages = [
        visitor.get(f"/groups/{group.name}/members/?page={number}").content.decode()
        for number in (1, 2)
    ]
    shown = [re.findall('<tr data-key="[^"]+" data-member="([^"]+)"', page) for page in pages]
    assert shown == [[first], [last]]
    assert all("<caption>2 members; mean 2.00" in page for page in pages)


def test_more_members_than_partitions_are_idle_and_say_so(visitor: Client, group: Group) -> None:
    staffed(group, "a", "b", "c", "d", "e")
    page = visitor.get(f"/groups/{group.name}/members/").content.decode()
    assert "idle: 4 partitions, 5 members" in page
    assert "idle: 4 partitions, 5 members" in visitor.get(f"/groups/{group.name}/").content.decode()


def test_an_instance_that_stopped_is_shown_as_expected_back(visitor: Client, group: Group) -> None:
    live.run(dashboard_side.join("east", "one", {"instance": "east"}), group.name)
    live.run(dashboard_side.leave("east", "one", stops=True), group.name)
    page = visitor.get(f"/groups/{group.name}/members/").content.decode()
    row = page.split('data-member="east"')[1].split("</tr>")[0]
    assert "instance" in row
    assert "stopped" in row
    assert "another process is expected within" in row


def test_who_left_is_listed(visitor: Client, group: Group, agents: list[FakeAgent]) -> None:
    agents[0].leave()
    settle(group, agents[1:])
    page = visitor.get(f"/groups/{group.name}/members/").content.decode()
    assert "Left recently" in page
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
    tick()
    with django_assert_max_num_queries(11):
        assert visitor.get(f"/groups/{group.name}/{tab}").status_code == 200


# --- a stateful group -----------------------------------------------------------------------------


@pytest.fixture
def scene(store: object, group_name: str, db: None) -> Scene:
    """S1 has 0 3, S2 has 1 4, S3 has 2; each with one standby; S2 was told to leave."""
    scene = Scene(group_name, standby_replicas=1)
    scale_down.start(
        scene.group, members=["S2"], timeout_ms=600_000, by=By("ann", AuditSource.PAGE)
    )
    scene.round()
    scene.round()
    return scene


def marks(page: str) -> dict[str, dict[str, str]]:
    """Partition number -> the data attributes of its row in the map's table."""
    rows = re.findall(r"<tr (data-partition=[^>]*)>", page)
    found = [dict(re.findall(r'data-([a-z]+)="([^"]*)"', row)) for row in rows]
    return {row["number"]: row for row in found}


def test_the_table_says_who_learns_who_keeps_and_who_leaves(visitor: Client, scene: Scene) -> None:
    page = visitor.get(f"/groups/{scene.group.name}/").content.decode()
    assert [row[1] for row in ownership(page)] == ["0", "1", "2", "3", "4"]
    rows = marks(page)
    for number in ("1", "4"):
        assert rows[number]["owner"] == "S2"
        assert rows[number]["leaving"] == "leaving"
        assert rows[number]["learner"] in ("S1", "S3")
        assert (rows[number]["percent"], rows[number]["ready"]) == ("50", "")
    for number in ("0", "2", "3"):
        assert rows[number]["leaving"] == rows[number]["learner"] == rows[number]["percent"] == ""
        assert rows[number]["standbys"]
    assert "1 leaving" in page
    assert "2 learning" in page


def test_a_group_without_state_shows_nothing_of_replicas(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    page = visitor.get(f"/groups/{group.name}/").content.decode()
    assert 'class="is-learner"' not in page
    assert {row["standbys"] for row in marks(page).values()} == {""}


def test_replicas_are_in_first_data_and_snapshot(visitor: Client, scene: Scene) -> None:
    found = visitor.get(f"/groups/{scene.group.name}/snapshot.json").json()
    replicas = {row[0]: row for row in found["replicas"]}
    assert sorted(replicas) == [0, 1, 2, 3, 4]
    assert [replicas[1][2], replicas[4][2]] == [50, 50]
    assert replicas[0][1] == -1
    assert found["names"][replicas[0][5]] in ("S2", "S3")
    assert {m["id"]: m["leaving"] for m in found["members"]} == {
        "S1": "", "S2": "leaving", "S3": "",
    }  # fmt: skip


def test_members_learn_keep_and_leave(visitor: Client, scene: Scene) -> None:
    page = visitor.get(f"/groups/{scene.group.name}/members/").content.decode()
    rows = {
        row[0]: row[1] for row in re.findall(r'data-member="(\w+)">(.*?)</tr>', page, re.DOTALL)
    }
    assert "leaving" in rows["S2"]
    assert re.search(r'in <span data-until="\d+" data-now="\d+">9 min 5\d s<', rows["S2"])
    learning = rows["S1"] + rows["S3"]
    assert "0 ready" in learning
    assert "50 %" in learning
    for agent in scene.here:
        agent.catch_up()
    page = visitor.get(f"/groups/{scene.group.name}/members/?fragment=members").content.decode()
    assert "0 ready" not in page


@pytest.mark.parametrize("tab", ["", "members/", "partitions/", "partitions/1/"])
def test_every_tab_names_the_learner(visitor: Client, scene: Scene, tab: str) -> None:
    page = visitor.get(f"/groups/{scene.group.name}/{tab}").content.decode()
    assert re.search("50\u202f?%|50 %", page)


@pytest.mark.parametrize(
    "tab",
    ["members/", "settings/", "rebalance/", "tokens/", "history/", "balance/", "partitions/0/"],
)
def test_every_tab_gives_its_buttons_again(visitor: Client, scene: Scene, tab: str) -> None:
    page = visitor.get(f"/groups/{scene.group.name}/{tab}?fragment=actions").content.decode()
    assert "<html" not in page
    assert "1 of 3 members" in page


def test_without_redis_the_last_snapshot_is_shown_and_since_when(
    visitor: Client, group: Group, agents: list[FakeAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = visitor.get(f"/groups/{group.name}/").content.decode()
    at_ms = first_of(seen)["at_ms"]
    monkeypatch.setattr(deadline, "OPEN_S", 600.0)
    connection._breaker(settings.REDIS_URL).open()
    try:
        stale = visitor.get(f"/groups/{group.name}/").content.decode()
        refused = visitor.get(f"/groups/{group.name}/snapshot.json")
    finally:
        connection._breaker(settings.REDIS_URL).close()
    assert ownership(stale) == ownership(seen) != []
    at = show.register.filters["at"]
    assert f"stale since {at(at_ms)}" in stale
    assert "does not answer in time" in stale
    assert '<span id="group-state"><span class="state "' in stale, "unknown, not what it was"
    assert refused.status_code == 503


def test_a_group_that_redis_has_lost_is_not_shown_from_memory(
    visitor: Client, group: Group, agents: list[FakeAgent], store: Any
) -> None:
    visitor.get(f"/groups/{group.name}/")
    store.delete(GroupKeys(group.name).meta)
    page = visitor.get(f"/groups/{group.name}/").content.decode()
    assert ownership(page) == []
    assert "stale since" not in page


def test_a_group_that_nobody_coordinates_is_not_called_steady(
    visitor: Client, group: Group, agents: list[FakeAgent], store: Any
) -> None:
    store.hincrby(GroupKeys(group.name).meta, "tick_ms", -60_000)
    page = visitor.get(f"/groups/{group.name}/").content.decode()
    assert "no coordinator</span>" in page.split('id="group-state"')[1].split("</h1>")[0][:900]
    assert "nothing is rebalanced and nobody takes over" in page
    assert first_of(page)["state"] == "no coordinator"


def test_a_member_that_commits_nothing_while_events_wait_is_said_in_page_and_list(
    visitor: Client, group: Group, agents: list[FakeAgent], store: Any
) -> None:
    old_ms = tick() and live_groups.redis_now_ms() - 2 * STUCK_MS
    keys = GroupKeys(group.name)
    partition, fence = next(iter(agents[0].held.items()))
    store.xadd(StreamKeys(group.stream).entries(partition.number), {"e": "{}"}, f"{old_ms}-0")
    store.hset(keys.since, str(partition), f"{fence} {old_ms}")
    page = visitor.get(f"/groups/{group.name}/").content.decode()
    assert first_of(page)["state"] == "stalled"
    assert "1 member makes no progress" in page
    coordinator.sample()
    assert "stalled" in visitor.get("/groups/").content.decode().split(group.name, 1)[1]
