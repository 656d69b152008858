"""GET /groups/<name>/members/<id>/: its stays, what it had, what it was asked to do."""

import re

import pytest
from django.test import Client

from dashboard.actions import scale_down
from dashboard.models import AuditSource, Group, MemberRecord, Tenure
from dashboard.records.audit import By
from dashboard.records.queries import members
from tests.dashboard.agents import FakeAgent
from tests.dashboard.scaling import Scene
from tests.dashboard.scenes import settle

FUTURE_MS = 2**42


def page_of(visitor: Client, group: Group, member: str) -> str:
    answer = visitor.get(f"/groups/{group.name}/members/{member}/")
    assert answer.status_code == 200
    return answer.content.decode()


def rows_of(page: str, table: str) -> list[str]:
    (found,) = re.findall(rf'<table id="{table}">.*?<tbody>(.*?)</tbody>', page, re.DOTALL)
    return re.findall(r"<tr.*?</tr>", found, re.DOTALL)


def test_its_life_is_on_the_page(visitor: Client, group: Group, agents: list[FakeAgent]) -> None:
    page = page_of(visitor, group, "a")
    mine = Tenure.objects.filter(group=group, member_id="a")
    assert len(rows_of(page, "tenures")) == mine.count() == 2
    (stay,) = rows_of(page, "stays")
    assert "still" in stay
    (command,) = rows_of(page, "commands")
    assert "not yet" not in command
    numbers = sorted(mine.values_list("number", flat=True))
    assert ", ".join(map(str, numbers)) in command
    assert 'data-member="a"' in page


def test_who_is_gone_has_a_page(visitor: Client, group: Group, agents: list[FakeAgent]) -> None:
    agents[0].leave()
    settle(group, agents[1:])
    page = page_of(visitor, group, "a")
    assert "It is not in the group now." in page
    (stay,) = rows_of(page, "stays")
    assert "left" in stay
    assert all("released" in row or "expired" in row for row in rows_of(page, "tenures"))
    newest, _ = members.commands(group, "a", 0, FUTURE_MS)
    assert (len(newest.assigned), len(newest.revoked)) == (0, 2)
    assert newest.outcome == "done"
    assert newest.done_ms is not None
    assert newest.asked_ms <= newest.done_ms


def test_each_stay_is_a_row(visitor: Client, group: Group, agents: list[FakeAgent]) -> None:
    MemberRecord.objects.create(
        group=group, member_id="a", joined_at_ms=1_000, left_at_ms=2_000, end="lost"
    )
    now, before = rows_of(page_of(visitor, group, "a"), "stays")
    assert "still" in now
    assert "lost" in before


@pytest.mark.usefixtures("store")
def test_that_it_was_told_to_leave_is_a_command(visitor: Client, group_name: str) -> None:
    scene = Scene(group_name)
    asked = scale_down.start(
        scene.group, members=["S2"], timeout_ms=600_000, by=By("ann", AuditSource.PAGE)
    )
    found = members.commands(scene.group, "S2", 0, FUTURE_MS)
    (command,) = [one for one in found if one.scale_down is not None]
    assert command.scale_down == asked.pk
    assert (command.outcome, command.done_ms, command.goes_on) == ("leaving", None, True)
    assert "scale-down" in page_of(visitor, scene.group, "S2")
    others = members.commands(scene.group, "S1", 0, FUTURE_MS)
    assert [one for one in others if one.scale_down is not None] == []


def test_members_are_links_to_their_pages(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    for page in ("members/", "ownership/"):
        shown = visitor.get(f"/groups/{group.name}/{page}").content.decode()
        assert f'href="/groups/{group.name}/members/a/"' in shown


def test_who_never_was_there_is_not_found(visitor: Client, group: Group) -> None:
    assert visitor.get(f"/groups/{group.name}/members/nobody/").status_code == 404
