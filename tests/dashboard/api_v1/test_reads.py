"""What the API tells of groups, members, partitions and their history."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.models import Group, Tenure
from tests.dashboard.agents import FakeAgent, make_group, tick
from tests.dashboard.api_v1.program import Program, problem, read
from tests.dashboard.people import logged_in


@pytest.fixture
def path(group: Group, agents: list[FakeAgent]) -> str:
    return f"groups/{group.name}"


def test_groups_come_in_pieces_by_name(program: Program, group_name: str, store: Any) -> None:
    names = [make_group(f"{group_name}-{n}").name for n in range(3)]
    first = read(program.get("groups", limit=2))
    assert ([row["name"] for row in first["items"]], first["next"]) == (names[:2], names[1])
    rest = read(program.get("groups", limit=2, cursor=first["next"]))
    assert ([row["name"] for row in rest["items"]], rest["next"]) == (names[2:], None)
    found = read(program.get("groups", q=names[1]))
    assert [row["stream"] for row in found["items"]] == [f"s-{names[1]}"]


def test_a_group_with_its_numbers_and_what_may_be_done(
    program: Program, bob: User, path: str
) -> None:
    found = read(program.get(path))
    assert found["live"]["numbers"]["owned"] == found["partitions"] == 4
    assert found["live"]["group_epoch"] > 0
    assert found["settings"]["lease_ms"] == 10_000
    assert {"rebalance", "scale_down", "manage_tokens"} <= set(found["allowed_actions"])
    assert read(Program.of(bob).get(path))["allowed_actions"] == ["see"]


def test_members_and_partitions_say_who_owns_what(program: Program, path: str) -> None:
    members = read(program.get(f"{path}/members"))
    assert [(row["id"], row["owned"]) for row in members["items"]] == [("a", 2), ("b", 2)]
    partitions = read(program.get(f"{path}/partitions", owner="a"))["items"]
    held = {t.number: str(t.fence) for t in Tenure.objects.filter(member_id="a")}
    assert {row["number"]: row["fence"] for row in partitions} == held
    piece = read(program.get(f"{path}/partitions", limit=3))
    assert [row["number"] for row in piece["items"]] == [0, 1, 2]
    rest = read(program.get(f"{path}/partitions", cursor=piece["next"]))
    assert [row["number"] for row in rest["items"]] == [3]


@pytest.mark.parametrize("form", ["iso", "ms"])
def test_ownership_at_a_moment_is_that_of_the_locks(
    program: Program, group: Group, agents: list[FakeAgent], path: str, form: str
) -> None:
    tenure = Tenure.objects.get(number=0)
    agents[[a.member for a in agents].index(tenure.member_id)].leave()
    tick()
    iso = datetime.fromtimestamp(tenure.started_ms / 1000, UTC).isoformat(timespec="milliseconds")
    at = iso if form == "iso" else str(tenure.started_ms)
    found = read(program.get(f"{path}/partitions/0", at=at))
    assert (found["owner"], found["fence"]) == (tenure.member_id, str(tenure.fence))
    assert found["at_ms"] == tenure.started_ms
    before = read(program.get(f"{path}/partitions", at=str(tenure.started_ms - 1)))
    assert before["items"][0]["owner"] is None
    members = read(program.get(f"{path}/members", at=at))["items"]
    assert tenure.member_id in [row["id"] for row in members]


def test_the_history_of_rebalances_and_tenures(program: Program, group: Group, path: str) -> None:
    row = group.rebalances.get()
    listed = read(program.get(f"{path}/rebalances"))["items"]
    assert [one["first"]["target_epoch"] for one in listed] == [row.target_epoch]
    address = f"{path}/rebalances/{row.incarnation}/{row.target_epoch}"
    found = read(program.get(address))
    assert found["round"]["cause"] == row.cause
    assert len(found["moves"]) == 4 and len(found["every_round"]) == found["rounds"] == 1
    tenures = read(program.get(f"{path}/tenures", partition=1))
    (tenure,) = Tenure.objects.filter(number=1)
    assert [one["fence"] for one in tenures["items"]] == [str(tenure.fence)]
    past = read(program.get(f"{path}/tenures", to=str(tenure.started_ms - 1_000)))
    assert past["items"] == []
    problem(program.get(f"{path}/rebalances/1/999"), 404)


def test_the_audit_is_read_in_pieces_and_verified(program: Program, path: str) -> None:
    first = read(program.get("audit", limit=1))
    rest = read(program.get("audit", cursor=first["next"]))
    assert [row["seq"] for row in (*first["items"], *rest["items"])][-1] == 1
    assert read(program.post("audit/verify"))["ok"] is True
    assert read(program.get("audit", limit=1))["items"][0]["action"] == "verify audit"


def test_the_status_is_that_of_readyz(program: Program, group: Group) -> None:
    found = read(program.get("status"))
    assert found["checks"]["database"] == {"vendor": "sqlite"}


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("wrong=1", "there is no parameter 'wrong'"),
        ("limit=1&limit=2", "parameter 'limit' is there 2 times"),
        ("limit=0", "query.limit: Input should be greater than or equal to 1"),
        ("limit=501", "less than or equal to 500"),
        ("at=yesterday", "time 'yesterday' is not like"),
        ("cursor=x", "query.cursor"),
    ],
)
def test_what_is_wrong_with_a_query_is_said(
    program: Program, path: str, query: str, why: str
) -> None:
    answer = program.client.get(f"/api/v1/{path}/partitions?{query}", headers=program.headers)
    assert why in problem(answer, 422)


def test_every_page_of_a_group_has_its_curl_command(
    ann: User, group: Group, agents: list[FakeAgent]
) -> None:
    from dashboard.api.v1.addresses import OF_PAGES
    from dashboard.pages.views.base import TABS

    assert {name for name, _ in TABS} <= set(OF_PAGES)
    page = logged_in(ann).get(f"/groups/{group.name}/members/?x=$(id)")
    assert f"http://testserver/api/v1/groups/{group.name}/members" in page.content.decode()
    assert "$(id)" not in page.context["as_curl"]
    assert "As curl" not in Client().get("/login/").content.decode()


def test_the_curl_command_of_a_moment_asks_for_that_moment(
    ann: User, group: Group, agents: list[FakeAgent], program: Program
) -> None:
    """What the API does not keep of a moment is not offered as if it did."""
    row = group.rebalances.get()
    base, client = f"/groups/{group.name}/", logged_in(ann)
    at_ms = row.finished_at_ms or 0
    wanted = {
        **dict.fromkeys(("", "members/", "partitions/", "partitions/0/"), f"?at={at_ms}"),
        **dict.fromkeys(("ownership/", "history/", "balance/"), f"?to={at_ms + 1}"),
    }
    for tab, query in wanted.items():
        command = client.get(f"{base}{tab}?epoch={row.target_epoch}").context["as_curl"]
        path = str(command).partition("http://testserver")[2].strip("'")
        assert path.endswith(query), tab
        answer = program.client.get(path, headers=program.headers)
        assert answer.status_code == 200, answer.content
    for tab in ("plans/", "attention/", "settings/", "history/?show=scale-downs&", "pause/"):
        query = f"{'' if '?' in tab else '?'}epoch={row.target_epoch}"
        assert not client.get(base + tab + query).context["as_curl"], tab
