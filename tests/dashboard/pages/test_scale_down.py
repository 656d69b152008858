"""/groups/<name>/scale-down/: the wizard, and the page of one scale-down, running or ended."""

import csv
import re
from typing import Any

import pytest
from django.test import Client

from dashboard import scale_down
from dashboard.models import AuditEntry, AuditSource, Group, ScaleDown
from tests.dashboard.agents import FakeAgent
from tests.dashboard.scaling import Scene

TELL = {"minutes": "10", "at_deadline": "force", "eager": "True", "reason": "night shift"}


@pytest.fixture
def scene(store: object, group_name: str, db: None) -> Scene:
    """S1 has 0 3, S2 has 1 4, S3 has 2."""
    return Scene(group_name)


def wizard(scene: Scene) -> str:
    return f"/groups/{scene.group.name}/scale-down/"


def text_of(answer: Any) -> str:
    assert answer.status_code == 200
    return str(answer.content.decode())


def reading(page: str) -> str:
    found = re.search(r'<p class="reading"[^>]*>(.*?)</p>', page)
    return re.sub(r"<[^>]*>", "", found[1]) if found else ""


def marked(page: str) -> list[str]:
    return re.findall(r'name="member" value="([^"]+)"[^>]* checked', page)


def started(scene: Scene, *members: str, **more: Any) -> ScaleDown:
    """And told: the members have heard of it, and learners are placed."""
    asked: dict[str, Any] = {"timeout_ms": 600_000, "reason": "night shift"} | more
    row = scale_down.start(
        scene.group, members=members, actor="ann", source=AuditSource.PAGE, **asked
    )
    scene.round()
    return row


def address(scene: Scene, row: ScaleDown) -> str:
    return f"{wizard(scene)}{row.pk}/"


# --- the button -----------------------------------------------------------------------------------


def button(visitor: Client, name: str) -> str:
    page = text_of(visitor.get(f"/groups/{name}/?fragment=actions"))
    assert "<html" not in page
    return page


def test_the_button_leads_to_the_wizard(visitor: Client, scene: Scene) -> None:
    assert f'href="{wizard(scene)}"' in button(visitor, scene.group.name)


def test_the_button_is_disabled_with_the_reason(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    said = button(visitor, group.name)
    assert "disabled" in said
    assert "not stateful" in said


def test_the_button_of_a_group_with_one_member(
    visitor: Client, store: object, group_name: str
) -> None:
    said = button(visitor, Scene(group_name, members=("S1",)).group.name)
    assert "It takes two members: one that leaves and one that stays." in said


def test_the_button_while_one_runs(visitor: Client, scene: Scene) -> None:
    row = started(scene, "S2")
    said = button(visitor, scene.group.name)
    assert "runs already" in said
    assert f'href="{address(scene, row)}"' in said
    assert re.search(r"leaving.* 1 of 3 members", said, re.DOTALL)


# --- the wizard -----------------------------------------------------------------------------------


def test_it_begins_with_a_percentage_at_which_one_leaves(visitor: Client, scene: Scene) -> None:
    page = text_of(visitor.get(wizard(scene)))
    assert reading(page) == "keep 66 % = 2 members; 1 leaves"
    assert marked(page) == ["S3"]
    assert 'name="minutes" value="10"' in page
    assert "eager: each as soon as it is ready" in page


@pytest.mark.parametrize(
    ("query", "said", "leave"),
    [
        ({"percent": "66"}, "keep 66 % = 2 members; 1 leaves", ["S3"]),
        ({"percent": "33"}, "keep 33 % = 1 member; 2 leave", ["S2", "S3"]),
        (
            {"percent": "66", "shown": "66", "member": ["S1"]},
            "keep 66 % = 2 members; 1 leaves",
            ["S1"],
        ),
        ({"member": ["S1"]}, "keep 66.7 % = 2 members; 1 leaves", ["S1"]),
        ({"member": ["S1", "S3"]}, "keep 33.3 % = 1 member; 2 leave", ["S1", "S3"]),
    ],
)
def test_both_readings_are_shown_for_what_is_typed_or_marked(
    visitor: Client, scene: Scene, query: Any, said: str, leave: list[str]
) -> None:
    page = text_of(visitor.get(wizard(scene), {"fragment": "leavers", **query}))
    assert "<html" not in page
    assert reading(page) == said
    assert sorted(marked(page)) == leave
    assert not ScaleDown.objects.exists()


@pytest.mark.parametrize(
    ("percent", "said"),
    [
        ("0", "percent 0 is not within 1 and 100"),
        ("101", "percent 101 is not within 1 and 100"),
        ("-5", "percent -5 is not within 1 and 100"),
        ("abc", "percent &#x27;abc&#x27; is not a whole number"),
        ("66.6", "percent &#x27;66.6&#x27; is not a whole number"),
        ("100", "100 % of 3 is everybody."),
    ],
)
def test_a_wrong_percentage_is_refused_beside_its_field(
    visitor: Client, scene: Scene, percent: str, said: str
) -> None:
    values = TELL | {"percent": percent, "shown": "66", "member": ["S3"]}
    page = text_of(visitor.post(wizard(scene), values))
    found = re.search(r'id="percent_errors".*?<li>(.*?)</li>', page)
    assert found
    assert found[1] == said
    assert reading(page) == ""
    assert not ScaleDown.objects.exists()


@pytest.mark.parametrize(
    ("members", "place", "said"),
    [
        (["S9"], "member_errors", "S9"),
        ([], "member_errors", "Nobody is marked"),
        (["S1", "S2", "S3"], "refusal", "all members would leave"),
    ],
)
def test_wrong_names_are_refused_beside_the_list(
    visitor: Client, scene: Scene, members: list[str], place: str, said: str
) -> None:
    page = text_of(visitor.post(wizard(scene), TELL | {"member": members}))
    found = re.search(rf'id="{place}".*?<li>(.*?)</li>', page)
    assert found
    assert said in found[1]
    assert not ScaleDown.objects.exists()


def test_all_may_leave_when_that_is_said(visitor: Client, scene: Scene) -> None:
    values = TELL | {"member": ["S1", "S2", "S3"]}
    assert 'name="force_all"' in text_of(visitor.post(wizard(scene), values))
    answer = visitor.post(wizard(scene), values | {"force_all": "on"})
    assert answer.status_code == 302
    assert sorted(scene.scale_down().members) == ["S1", "S2", "S3"]


def test_those_are_told_who_were_shown(visitor: Client, scene: Scene) -> None:
    page = text_of(visitor.post(wizard(scene), {"look": "percent", "percent": "33"}))
    assert sorted(marked(page)) == ["S2", "S3"]
    values = TELL | {"percent": "33", "shown": "33", "member": ["S2", "S3"]}
    answer = visitor.post(wizard(scene), values)
    row = scene.scale_down()
    assert answer["Location"] == address(scene, row)
    assert (row.percent, sorted(row.members), row.live) == (33, ["S2", "S3"], 3)
    assert (row.timeout_ms, row.at_deadline) == (600_000, "force")
    assert (row.actor, row.source, row.reason) == ("ann", "page", "night shift")
    assert row.told_at_ms is not None
    entry = AuditEntry.objects.get(action="scale down")
    assert (entry.actor, entry.source) == ("ann", "page")


@pytest.mark.parametrize(
    ("members", "percent"), [(["S1"], 66), (["S1", "S2"], None)], ids=["as many", "more"]
)
def test_the_list_can_be_edited(
    visitor: Client, scene: Scene, members: list[str], percent: int | None
) -> None:
    values = TELL | {"percent": "66", "shown": "66", "member": members}
    assert visitor.post(wizard(scene), values).status_code == 302
    row = scene.scale_down()
    assert (sorted(row.members), row.percent) == (members, percent)


def test_a_percentage_that_was_not_looked_at_tells_nobody(visitor: Client, scene: Scene) -> None:
    values = TELL | {"percent": "33", "shown": "66", "member": ["S3"]}
    page = text_of(visitor.post(wizard(scene), values))
    assert "The list was for another percentage" in page
    assert sorted(marked(page)) == ["S2", "S3"]
    assert 'name="shown" value="33"' in page
    assert not ScaleDown.objects.exists()


@pytest.mark.parametrize(
    ("minutes", "ms"), [("", None), ("0", 0), ("0.5", 30_000), ("1440", 86_400_000)]
)
def test_the_deadline(visitor: Client, scene: Scene, minutes: str, ms: int | None) -> None:
    visitor.post(wizard(scene), TELL | {"member": ["S3"], "minutes": minutes})
    assert scene.scale_down().timeout_ms == ms


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"reason": ""}, "This field is required"),
        ({"minutes": "-1"}, "greater than or equal to 0"),
        ({"minutes": "soon"}, "Enter a number"),
        ({"minutes": "1000000"}, "less than or equal to 43200"),
        ({"minutes": "inf"}, "Enter a number"),
        ({"at_deadline": "wait"}, "not one of the available choices"),
        ({"minutes": "0", "at_deadline": "abort"}, "a limit of 0 ms that aborts"),
    ],
)
def test_what_is_wrong_is_said_and_nobody_is_told(
    visitor: Client, scene: Scene, changes: dict[str, str], said: str
) -> None:
    page = text_of(visitor.post(wizard(scene), TELL | {"member": ["S3"]} | changes))
    assert said in page
    assert marked(page) == ["S3"]
    assert not ScaleDown.objects.exists()


def test_stable_is_chosen_with_it(visitor: Client, scene: Scene) -> None:
    visitor.post(wizard(scene), TELL | {"member": ["S3"], "eager": "False"})
    scene.group.refresh_from_db()
    assert scene.group.values.learn_partial_rebalance is False


def test_a_second_one_is_refused_while_one_runs(visitor: Client, scene: Scene) -> None:
    row = started(scene, "S2")
    page = text_of(visitor.post(wizard(scene), TELL | {"member": ["S3"]}))
    assert "a scale-down of S2 runs: cancel it first" in page
    assert f'href="{address(scene, row)}"' in page
    assert ScaleDown.objects.count() == 1


def test_a_group_that_is_not_stateful_is_refused(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    page = text_of(visitor.post(f"/groups/{group.name}/scale-down/", TELL | {"member": ["a"]}))
    assert "is not stateful" in page
    assert not ScaleDown.objects.exists()


# --- one that runs --------------------------------------------------------------------------------


def cells(page: str, table: str) -> list[dict[str, str]]:
    """The data attributes of a table's rows."""
    body = page.split(f'<table id="{table}">')[1].partition("</table>")[0]
    rows = re.findall(r"<tr (data-[^>]*)>", body)
    return [dict(re.findall(r'data-([a-z]+)="([^"]*)"', row)) for row in rows]


def test_a_running_one_shows_each_partition_with_its_learner(visitor: Client, scene: Scene) -> None:
    row = started(scene, "S2")
    page = text_of(visitor.get(address(scene, row)))
    (leaving,) = cells(page, "leaving")
    assert leaving == {"member": "S2", "outcome": "", "left": "2", "ready": "0"}
    left = {p["number"]: p for p in cells(page, "left")}
    assert sorted(left) == ["1", "4"]
    assert {p["owner"] for p in left.values()} == {"S2"}
    assert {p["state"] for p in left.values()} == {"learning"}
    assert {p["percent"] for p in left.values()} == {"50"}
    assert {p["learner"] for p in left.values()} <= {"S1", "S3"}
    assert re.search(r'data-until="\d+" data-now="\d+">9 min 5\d s<', page)
    for do in ("?do=extend", "?do=abort", "?do=force&amp;member=S2"):
        assert f'href="{do}"' in page


def test_it_is_followed_to_its_end(visitor: Client, scene: Scene) -> None:
    row = started(scene, "S2")
    for agent in scene.here:
        agent.catch_up()
    page = text_of(visitor.get(address(scene, row) + "?fragment=scale_down"))
    assert "<html" not in page
    assert {p["state"] for p in cells(page, "left")} == {"ready"}
    assert cells(page, "leaving")[0]["ready"] == "2"
    scene.settle()
    page = text_of(visitor.get(address(scene, row) + "?fragment=scale_down"))
    assert cells(page, "leaving") == [
        {"member": "S2", "outcome": "clean", "left": "0", "ready": "0"}
    ]
    assert 'data-state="done"' in page
    assert "data-running" not in page
    assert "?do=" not in page


def test_extend(visitor: Client, scene: Scene) -> None:
    row = started(scene, "S2")
    page = text_of(visitor.get(address(scene, row) + "?do=extend"))
    assert 'name="minutes" value="20"' in page
    values = {"do": "extend", "minutes": "30", "reason": "a large state"}
    assert visitor.post(address(scene, row), values)["Location"] == address(scene, row)
    row.refresh_from_db()
    assert row.timeout_ms == 1_800_000
    entry = AuditEntry.objects.get(action="extend scale down")
    assert (entry.actor, entry.source, entry.reason) == ("ann", "page", "a large state")


def test_a_limit_that_is_no_longer_is_refused(visitor: Client, scene: Scene) -> None:
    row = started(scene, "S2")
    values = {"do": "extend", "minutes": "1", "reason": "sooner"}
    page = text_of(visitor.post(address(scene, row), values))
    assert "60000 ms is no longer" in page
    row.refresh_from_db()
    assert row.timeout_ms == 600_000


def test_force_one(visitor: Client, scene: Scene) -> None:
    row = started(scene, "S2", "S3")
    page = text_of(visitor.get(address(scene, row) + "?do=force&member=S2"))
    assert "Force S2 to go at once?" in page
    values = {"do": "force", "member": "S2", "reason": "its host goes"}
    assert visitor.post(address(scene, row), values).status_code == 302
    scene.settle()
    row.refresh_from_db()
    assert {m: e["outcome"] for m, e in row.members.items()} == {"S2": "forced", "S3": ""}


def test_abort_needs_a_reason_and_lets_everybody_stay(visitor: Client, scene: Scene) -> None:
    row = started(scene, "S2")
    page = text_of(visitor.get(address(scene, row) + "?do=abort"))
    assert "Abort this scale-down?" in page
    assert "required" in text_of(visitor.post(address(scene, row), {"do": "abort", "reason": ""}))
    row.refresh_from_db()
    assert row.state == "running"
    visitor.post(address(scene, row), {"do": "abort", "reason": "we need them"})
    row.refresh_from_db()
    assert row.state == "cancelled"
    scene.settle()
    assert scene.owned == {"S1": [0, 3], "S2": [1, 4], "S3": [2]}
    page = text_of(visitor.get(address(scene, row)))
    assert cells(page, "leaving")[0]["outcome"] == "cancelled"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"do": "force", "member": "S9"}, "&#x27;S9&#x27; was not told to leave"),
        ({"do": "force"}, "&#x27;&#x27; was not told to leave"),
        ({"do": "end"}, ""),
        ({}, ""),
    ],
)
def test_deeds_that_are_none(
    visitor: Client, scene: Scene, values: dict[str, str], said: str
) -> None:
    row = started(scene, "S2")
    page = text_of(visitor.post(address(scene, row), {"reason": "why not", **values}))
    assert said in page
    row.refresh_from_db()
    assert (row.state, row.members["S2"]["forced"]) == ("running", False)


def test_a_deed_on_one_that_ended_says_so(visitor: Client, scene: Scene) -> None:
    row = started(scene, "S2", timeout_ms=0)
    scene.settle()
    for do in ("extend", "force", "abort"):
        values = {"do": do, "member": "S2", "minutes": "30", "reason": "late"}
        answer = visitor.post(address(scene, row), values, follow=True)
        assert re.search("is done|it is done", text_of(answer)), do


def test_one_that_is_not_there(visitor: Client, scene: Scene) -> None:
    assert visitor.get(f"{wizard(scene)}99/").status_code == 404
    assert visitor.get("/groups/none/scale-down/").status_code == 404


def test_queries_do_not_grow_with_the_members(
    visitor: Client, store: object, group_name: str, django_assert_max_num_queries: Any
) -> None:
    scene = Scene(group_name, members=[f"S{n}" for n in range(6)], partitions=12)
    row = started(scene, "S0", "S1", "S2")
    with django_assert_max_num_queries(10):
        visitor.get(address(scene, row))
    with django_assert_max_num_queries(10):
        visitor.get(wizard(scene))


# --- where it is found again ----------------------------------------------------------------------


@pytest.fixture
def ended(scene: Scene) -> ScaleDown:
    row = started(scene, "S2", timeout_ms=0)
    scene.settle()
    row.refresh_from_db()
    assert row.state == "done"
    return row


def test_history_lists_them(visitor: Client, scene: Scene, ended: ScaleDown) -> None:
    page = text_of(visitor.get(f"/groups/{scene.group.name}/history/?show=scale-downs"))
    line = page.split('<table id="scale-downs">')[1]
    assert f'href="{address(scene, ended)}"' in line
    assert "forced" in line
    assert "night shift" in line


def test_history_without_any(visitor: Client, scene: Scene) -> None:
    page = text_of(visitor.get(f"/groups/{scene.group.name}/history/?show=scale-downs"))
    assert "No scale-down." in page


def test_the_file(visitor: Client, scene: Scene, ended: ScaleDown) -> None:
    answer: Any = visitor.get(f"/groups/{scene.group.name}/history/scale-downs.csv")
    (line,) = csv.DictReader(answer.getvalue().decode().splitlines())
    assert (line["id"], line["outcomes"], line["state"]) == (str(ended.pk), "S2: forced", "done")
    assert (line["members"], line["stay"], line["leave"]) == ("3", "2", "1")


def test_audit_and_rebalance_link_to_it(visitor: Client, scene: Scene, ended: ScaleDown) -> None:
    link = f'href="{address(scene, ended)}"'
    assert link in text_of(visitor.get("/audit/"))
    epoch = scene.group.rebalances.get(cause="forced").target_epoch
    page = text_of(visitor.get(f"/groups/{scene.group.name}/history/{epoch}/"))
    assert link in page
