"""/groups/<name>/scale-down/<number>/: one that runs or ended, and what is done to it."""

import re
from typing import Any

import pytest
from django.test import Client

from dashboard.models import AuditEntry, Group
from tests.dashboard.pages.scale_downs import address, started, text_of, wizard
from tests.dashboard.scaling import Scene


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
    assert 'name="timeout" value="20 min"' in page
    values = {"do": "extend", "timeout": "30", "reason": "a large state"}
    assert visitor.post(address(scene, row), values)["Location"] == address(scene, row)
    row.refresh_from_db()
    assert row.timeout_ms == 1_800_000
    entry = AuditEntry.objects.get(action="extend scale down")
    assert (entry.actor, entry.source, entry.reason) == ("ann", "page", "a large state")


def test_a_limit_that_is_no_longer_is_refused(visitor: Client, scene: Scene) -> None:
    row = started(scene, "S2")
    values = {"do": "extend", "timeout": "1 min", "reason": "sooner"}
    page = text_of(visitor.post(address(scene, row), values))
    assert "60000 ms is no longer" in page
    row.refresh_from_db()
    assert row.timeout_ms == 600_000


def test_force_one(visitor: Client, scene: Scene) -> None:
    row = started(scene, "S2", "S3")
    page = text_of(visitor.get(address(scene, row) + "?do=force&member=S2"))
    assert "Force S2 out?" in page
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
        ({"do": "end"}, "Do=&#x27;end&#x27; is none of extend, force, abort"),
        ({}, "Do= is missing: extend, force, abort"),
        ({"do": "abort", "timeout": "9"}, "there is no field &#x27;timeout&#x27;"),
    ],
)
def test_deeds_that_are_none(
    visitor: Client, scene: Scene, values: dict[str, str], said: str
) -> None:
    row = started(scene, "S2")
    answer = visitor.post(address(scene, row), {"reason": "why not", **values})
    assert said in answer.content.decode()
    row.refresh_from_db()
    assert (row.state, row.members["S2"]["forced"]) == ("running", False)


def test_a_deed_on_one_that_ended_says_so(visitor: Client, scene: Scene) -> None:
    row = started(scene, "S2", timeout_ms=0)
    scene.settle()
    for do in ("extend", "force", "abort"):
        values = {"do": do, "member": "S2", "reason": "late"}
        values |= {"timeout": "30"} if do == "extend" else {}
        answer = visitor.post(address(scene, row), values, follow=True)
        assert re.search("is done|it is done", text_of(answer)), do


@pytest.mark.parametrize("query", ["", "?percent=50", "?member=S9"])
def test_a_group_without_members_has_nobody_to_tell(
    visitor: Client, group: Group, query: str
) -> None:
    page = text_of(visitor.get(f"/groups/{group.name}/scale-down/{query}"))
    assert "No members." in page


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
