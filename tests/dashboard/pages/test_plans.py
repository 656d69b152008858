"""/groups/<name>/plans/: a plan proposed on the preview's page, decided and run on its own."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.actions import plans
from dashboard.models import Group, Plan, RebalanceRequest, ScaleDown
from tests.dashboard.agents import FakeAgent
from tests.dashboard.people import granted, logged_in
from tests.dashboard.planning import EVE, drain
from tests.dashboard.scaling import Scene
from tests.dashboard.scenes import settle

ASKED = {"strategy": "averagely", "reason": "before the night"}


def person(name: str, role: str, effect: str = "allow") -> Client:
    user = User.objects.create(username=name)
    granted(user, role, effect=effect)
    return logged_in(user)


@pytest.fixture
def staged(db: None) -> Client:
    return person("sam", "operator", "stage")


@pytest.fixture
def approver(db: None) -> Client:
    return person("ada", "approver")


def proposed(client: Client, group: Group, **more: str) -> str:
    """The address of a plan that this person proposed."""
    values = ASKED | {"propose": "1"} | more
    answer = client.post(f"/groups/{group.name}/rebalance/", values)
    assert answer.status_code == 302
    return str(answer["Location"])


def offered(client: Client, address: str) -> dict[str, bool]:
    """What the page offers, and whether this person may."""
    page = client.get(address).content.decode()
    links = {word: True for word in re.findall(r'href="\?do=(\w+)"', page)}
    closed = re.findall(
        r'<button type="button" disabled title="[^"]*">(Approve|Reject|Run|Cancel)<', page
    )
    return links | {word.lower(): False for word in closed}


def test_one_proposes_another_approves_and_it_runs(
    staged: Client, approver: Client, group: Group, agents: list[FakeAgent]
) -> None:
    address = proposed(staged, group)
    assert offered(staged, address) == {"approve": False, "reject": False, "cancel": True}
    assert offered(approver, address) == {"approve": True, "reject": True, "cancel": False}
    plan = Plan.objects.get()
    asked = approver.get(f"{address}?do=approve").content.decode()
    assert f'name="digest" value="{plan.digest}"' in asked
    decision = {"do": "approve", "digest": plan.digest, "reason": "looked at it"}
    assert approver.post(address, decision)["Location"] == address
    assert offered(staged, address) == {"run": True, "cancel": True}
    assert staged.post(address, {"do": "run"})["Location"] == address
    settle(group, agents)
    page = staged.get(address).content.decode()
    found = re.findall(r'data-outcome="([\w ]+)"', page)
    assert set(found) == {"confirmed"} and len(found) == plan.content.metrics["moves"]
    assert offered(staged, address) == {}
    row = group.rebalances.first()
    assert row is not None and (row.actor, row.reason) == ("sam", "before the night")
    every = staged.get(f"/groups/{group.name}/plans/").content.decode()
    assert f'href="{address}"' in every and "before the night" in every


def test_a_stale_plan_is_refused_on_its_page(
    staged: Client, approver: Client, group: Group, agents: list[FakeAgent]
) -> None:
    address = proposed(staged, group)
    FakeAgent(group, "c").start()
    decision = {"do": "approve", "digest": Plan.objects.get().digest, "reason": "fine"}
    page = approver.post(address, decision).content.decode()
    assert "the plan is stale: the group changed since the plan was made" in page
    assert (Plan.objects.get().state, offered(approver, address)) == ("stale", {})


def test_ones_own_plan_is_not_approved_by_address_either(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    address = proposed(visitor, group)
    plan = Plan.objects.get()
    decision = {"do": "approve", "digest": plan.digest, "reason": "mine"}
    page = visitor.post(address, decision).content.decode()
    assert "approved by somebody else" in page
    plan.refresh_from_db()
    assert plan.state == "proposed"


@pytest.mark.parametrize("do", ["approve", "reject", "run", "cancel"])
def test_who_may_neither_is_refused(
    staged: Client, viewer: Client, group: Group, agents: list[FakeAgent], do: str
) -> None:
    address = proposed(staged, group)
    values = {"do": do, "reason": "x", "digest": Plan.objects.get().digest}
    if do == "run":
        values.pop("reason"), values.pop("digest")
    elif do != "approve":
        values.pop("digest")
    assert viewer.post(address, values).status_code == 403
    assert Plan.objects.get().state == "proposed"


def test_what_was_shown_is_what_runs_or_it_is_refused(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    address = f"/groups/{group.name}/rebalance/"
    page = visitor.get(address).content.decode()
    (epochs,) = re.findall(r'name="epochs" value="([\d.]+)"', page)
    agents.append(FakeAgent(group, "c"))
    agents[-1].start()
    settle(group, agents)
    answer = visitor.post(address, ASKED | {"epochs": epochs})
    assert "The group changed since this preview was made" in answer.content.decode()
    assert not Plan.objects.exists() and not RebalanceRequest.objects.exists()


def moves_of(page: str) -> dict[str, int]:
    found = re.findall(r'data-strategy="(\w+)".*?data-moves="(\d+)"', page, re.DOTALL)
    return {name: int(count) for name, count in found}


def test_members_are_added_and_removed_in_thought(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    address = f"/groups/{group.name}/rebalance/"
    assert moves_of(visitor.get(address).content.decode())["sticky"] == 0
    more = visitor.get(address, {"add": "2"}).content.decode()
    assert moves_of(more)["sticky"] == 2 and "With 2 more members" in more
    less = visitor.get(address, {"remove": "a"}).content.decode()
    assert moves_of(less)["sticky"] == 2 and "without a" in less
    for wrong, said in (("x", "is not a whole number"), ("1001", "is not within 0 and 1000")):
        page = visitor.get(address, {"add": wrong}).content.decode()
        assert said in page, wrong
    unknown = visitor.get(address, {"remove": "zed"}).content.decode()
    assert "member &#x27;zed&#x27; is not there" in unknown
    refused = visitor.post(address, ASKED | {"add": "2"}).content.decode()
    assert "there is nothing to run" in refused and not Plan.objects.exists()


def test_a_group_without_plans_says_where_one_is_made(visitor: Client, group: Group) -> None:
    page = visitor.get(f"/groups/{group.name}/plans/").content.decode()
    assert "No plans yet" in page and f'href="/groups/{group.name}/rebalance/"' in page


def test_a_plan_that_is_not_there_is_told(visitor: Client, group: Group) -> None:
    assert visitor.get(f"/groups/{group.name}/plans/7/").status_code == 404


def test_the_strategy_from_then_on_is_proposed_by_an_admin_who_is_staged(
    approver: Client, group: Group, agents: list[FakeAgent]
) -> None:
    client = person("stella", "admin", "stage")
    address = proposed(client, group, lasting="on")
    plan = Plan.objects.get()
    assert (plan.kind, plan.content.inputs["strategy"]) == ("strategy change", "averagely")
    approver.post(address, {"do": "approve", "digest": plan.digest, "reason": "fine"})
    client.post(address, {"do": "run"})
    settle(group, agents)
    group.refresh_from_db()
    plan.refresh_from_db()
    assert (group.values.strategy, plan.state) == ("averagely", "done")


def test_an_operator_does_not_choose_the_strategy_from_then_on(
    group: Group, agents: list[FakeAgent]
) -> None:
    client = person("oscar", "operator")
    for values in (ASKED, ASKED | {"propose": "1"}):
        answer = client.post(f"/groups/{group.name}/rebalance/", values | {"lasting": "on"})
        assert answer.status_code == 403
    assert not Plan.objects.exists()


def test_a_scale_down_is_proposed_on_its_page(staged: Client, scene: Scene) -> None:
    values = {"percent": "66", "shown": "66", "member": ["S3"], "reason": "night", "propose": "1"}
    values |= {"timeout": "10 min", "at_deadline": "force", "eager": "True"}
    page = f"/groups/{scene.group.name}/scale-down/"
    answer = staged.post(page, values)
    plan = Plan.objects.get()
    assert answer["Location"] == f"/groups/{scene.group.name}/plans/{plan.pk}/"
    assert (plan.kind, plan.content.inputs["members"]) == ("scale-down", ["S3"])
    assert "Members that leave" in staged.get(answer["Location"]).content.decode()
    assert not ScaleDown.objects.exists()


def test_moves_after_learning_are_predicted_as_they_are_counted(
    staged: Client, scene: Scene
) -> None:
    plan = plans.run_now(scene.group, drain(scene, "S3"), EVE)
    scene.settle()
    for agent in scene.here:
        agent.catch_up()
    scene.settle()
    page = staged.get(f"/groups/{scene.group.name}/plans/{plan.pk}/").content.decode()
    table = page.split('<table id="metrics">')[1].split("</table>")[0]
    rows = [re.sub(r"<[^>]*>", " ", row).split() for row in table.split("</tr>")]
    assert ["Moves", "1", "1"] in rows
    assert ["of", "these,", "when", "learned", "1"] in rows


def test_a_change_of_coordination_is_proposed_on_the_settings_page(
    group: Group, agents: list[FakeAgent]
) -> None:
    client = person("stella", "admin", "stage")
    page = f"/groups/{group.name}/settings/?do=switch"
    assert 'name="propose"' in client.get(page).content.decode()
    values = {"mode": "client", "epoch": "1", "reason": "no dashboard needed"}
    answer = client.post(page, values)
    plan = Plan.objects.get()
    assert (plan.kind, plan.state) == ("coordination change", "proposed")
    assert "client" in client.get(answer["Location"]).content.decode()
