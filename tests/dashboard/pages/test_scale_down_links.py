"""Where other pages lead to scale-downs: the group's button, history, its file and audit."""

import csv
import re
from typing import Any

import pytest
from django.test import Client

from dashboard.models import Group, ScaleDown
from tests.dashboard.agents import FakeAgent
from tests.dashboard.pages.scale_downs import address, started, text_of, wizard
from tests.dashboard.scaling import Scene

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


def test_the_file_as_of_a_moment(visitor: Client, scene: Scene, ended: ScaleDown) -> None:
    def lines(at_ms: int) -> list[Any]:
        link = f"/groups/{scene.group.name}/history/scale-downs.csv?at={at_ms}"
        answer: Any = visitor.get(link)
        return list(csv.DictReader(answer.getvalue().decode().splitlines()))

    (line,) = lines((ended.ended_at_ms or 0) - 1)
    assert (line["state"], line["ended_at_ms"]) == ("running", "")
    assert not lines(ended.asked_at_ms - 1)


def test_audit_and_rebalance_link_to_it(visitor: Client, scene: Scene, ended: ScaleDown) -> None:
    link = f'href="{address(scene, ended)}"'
    assert link in text_of(visitor.get("/audit/"))
    row = scene.group.rebalances.get(cause="forced")
    epoch = f"{row.incarnation}/{row.target_epoch}"
    page = text_of(visitor.get(f"/groups/{scene.group.name}/history/{epoch}/"))
    assert link in page
