"""What people ask for in one step is a plan, whichever way they ask: run, or proposed."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from assignment.scripts.group_read import Purpose
from assignment.types import Coordination
from dashboard import coordinator
from dashboard.actions import at_once
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Denied, NeedsApproval
from dashboard.coordinator import plans as ends
from dashboard.live import groups as live
from dashboard.models import AuditEntry, Group, Plan, RebalanceRequest, ScaleDown
from tests.dashboard.agents import FakeAgent, tick
from tests.dashboard.api_v1.program import Program, problem, read
from tests.dashboard.pages.test_settings import sent
from tests.dashboard.people import granted, logged_in
from tests.dashboard.planning import ADA, ANN, BOB, STAGED_ADMIN, by
from tests.dashboard.scaling import Scene
from tests.dashboard.scenes import settle

STRATEGY = {"strategy": "averagely", "heartbeat_ms": 2_000}


@pytest.fixture
def scene(store: Any, group_name: str, db: None) -> Scene:
    """Another group, and a stateful one."""
    return Scene(f"stateful-{group_name}")


def person(name: str, role: str, effect: str = "allow") -> User:
    user = User.objects.create(username=name)
    granted(user, role, effect=effect)
    return user


def said(*fields: str) -> list[tuple[str, ...]]:
    rows = Plan.objects.order_by("pk").values_list(*fields)
    return [tuple(map(str, row)) for row in rows]


# --- run ------------------------------------------------------------------------------------------


def test_a_strategy_is_saved_by_a_plan_with_what_else_is_saved(
    group: Group, agents: list[FakeAgent]
) -> None:
    saved = at_once.change_settings(group, STRATEGY, ADA)
    assert isinstance(saved, Group)
    assert (saved.values.strategy, saved.values.heartbeat_ms) == ("averagely", 2_000)
    settle(group, agents)
    assert said("kind", "state", "run_by") == [("strategy change", "done", "ada")]
    row = Plan.objects.get().request.rebalance
    assert (row.strategy, row.cause, row.planned, row.actor) == (
        *("averagely", "strategy", True),
        "ada",
    )


def test_other_settings_and_those_that_a_stateful_group_does_not_use_are_no_plan(
    group: Group, scene: Scene
) -> None:
    at_once.change_settings(group, {"heartbeat_ms": 2_000}, ADA)
    at_once.change_settings(scene.group, {"strategy": "averagely"}, ADA)
    scene.group.refresh_from_db()
    assert scene.group.values.strategy == "averagely"
    assert not Plan.objects.exists()


def test_a_scale_down_is_of_a_plan_and_the_same_again_is_answered_with_it(scene: Scene) -> None:
    first = at_once.drain(scene.group, ADA, members=["S3"])
    again = at_once.drain(scene.group, ADA, members=["S3"])
    assert isinstance(first, ScaleDown) and first == again
    assert first.plan == Plan.objects.get()
    with pytest.raises(Refused, match="another scale-down runs"):
        at_once.drain(scene.group, ADA, members=["S2"])


def test_a_switch_is_a_plan_and_what_is_so_already_is_none(
    group: Group, agents: list[FakeAgent]
) -> None:
    for _ in range(2):
        found = at_once.switch(group, Coordination.CLIENT, ADA)
        assert not isinstance(found, Plan) and found.after.coordination is Coordination.CLIENT
    assert said("kind", "state") == [("coordination change", "done")]


def test_what_nobody_looked_at_is_drafted_again_when_the_group_changes_in_between(
    group: Group, agents: list[FakeAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    draft, made = at_once.drafting.rebalance, []

    def late(*args: Any) -> Any:
        made.append(draft(*args))
        if len(made) == 1:
            agents.append(FakeAgent(group, "c"))
            agents[-1].start()
        return made[-1]

    monkeypatch.setattr(at_once.drafting, "rebalance", late)
    plan = at_once.rebalance(group, ADA, strategy="averagely")
    assert len(made) == 2 and "c" in plan.content.rows


def test_what_has_ended_holds_up_nobody_until_a_tick_says_so(
    group: Group, agents: list[FakeAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ends, "settle", lambda group: None)
        at_once.rebalance(group, ADA, strategy="averagely")
        settle(group, agents)
    assert said("state") == [("running",)]
    at_once.rebalance(group, ADA, strategy="sticky")
    assert said("state") == [("done",), ("running",)]


def test_the_plan_of_a_group_without_members_ends(group: Group) -> None:
    at_once.change_settings(group, STRATEGY, ADA)
    coordinator.rebalance(group.name)
    tick()
    assert said("state", "moved") == [("done", "{}")]


# --- proposed -------------------------------------------------------------------------------------


def test_what_needs_approval_is_proposed_and_changes_nothing(group: Group, scene: Scene) -> None:
    before = live.read(group.name, Purpose.LOOK).meta
    at_once.rebalance(scene.group, ANN, strategy="sticky")
    at_once.drain(scene.group, ANN, members=["S3"])
    at_once.switch(group, Coordination.CLIENT, STAGED_ADMIN)
    at_once.change_settings(group, STRATEGY, STAGED_ADMIN)
    assert said("kind", "state") == [
        (kind, "proposed")
        for kind in ("rebalance", "scale-down", "coordination change", "strategy change")
    ]
    assert live.read(group.name, Purpose.LOOK).meta == before
    group.refresh_from_db()
    assert group.values.strategy == "sticky"
    assert not ScaleDown.objects.exists() and not RebalanceRequest.objects.exists()
    assert not AuditEntry.objects.filter(result__startswith="denied").exists()


def test_what_can_be_no_plan_still_needs_the_right(group: Group) -> None:
    with pytest.raises(NeedsApproval, match="to change settings"):
        at_once.change_settings(group, {"heartbeat_ms": 2_000}, STAGED_ADMIN)
    with pytest.raises(Refused, match="only a change of strategy can be proposed"):
        at_once.propose_settings(group, {"heartbeat_ms": 2_000}, STAGED_ADMIN)


def test_who_may_not_ask_is_refused_before_anything_is_computed(group: Group) -> None:
    nobody = by("eve")
    for ask in (
        lambda: at_once.rebalance(group, nobody, strategy="no such"),
        lambda: at_once.drain(group, nobody, members=[]),
        lambda: at_once.switch(group, Coordination.CLIENT, BOB),
        lambda: at_once.change_settings(group, {"no such": 1}, nobody),
    ):
        with pytest.raises(Denied, match="takes the role"):
            ask()
    assert not Plan.objects.exists()


def test_the_api_proposes_for_who_needs_approval(group: Group, scene: Scene) -> None:
    program = Program.of(person("sam", "admin", "stage"))
    own, other = f"groups/{group.name}", f"groups/{scene.group.name}"
    asked = (
        program.post(f"{other}/rebalances"),
        program.post(f"{other}/scale-downs", {"members": ["S3"]}),
        program.post(f"{own}/coordination", {"coordination": "client"}),
        program.ask("PATCH", f"{own}/settings", {"settings": {"strategy": "averagely"}}),
    )
    found = [read(answer, 202) for answer in asked]
    assert [(one["plan"], one["kind"]) for one in found] == list(
        Plan.objects.order_by("pk").values_list("pk", "kind")
    )
    assert {one["state"] for one in found} == {"proposed"}
    plain = program.ask("PATCH", f"{own}/settings", {"settings": {"heartbeat_ms": 2_000}})
    assert "needs approval" in problem(plain, 403)


def test_commands_propose_for_who_needs_approval(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    person("sam", "admin", "stage")
    name = scene.group.name
    call_command("scale_down", name, "--members", "S3", "--as", "sam", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found == {
        "group": name, "plan": Plan.objects.get().pk, "kind": "scale-down", "state": "proposed",
    }  # fmt: skip
    call_command("coordination", name, "client", "--reason", "why", "--as", "sam")
    assert "a coordination change, is proposed" in capsys.readouterr().out


def test_the_settings_page_proposes_a_strategy(group: Group, agents: list[FakeAgent]) -> None:
    sam: Client = logged_in(person("sam", "admin", "stage"))
    address = f"/groups/{group.name}/settings/"
    assert '<button name="propose" value="1"' in sam.get(address).content.decode()
    plain = sent(group, heartbeat_ms="2 s", propose="1")
    assert "only a change of strategy can be proposed" in sam.post(address, plain).content.decode()
    assert sam.post(address, sent(group, heartbeat_ms="2 s")).status_code == 403
    answer = sam.post(address, sent(group, strategy="averagely", heartbeat_ms="2 s"))
    plan = Plan.objects.get()
    assert answer["Location"] == f"/groups/{group.name}/plans/{plan.pk}/"
    assert (plan.state, plan.content.inputs["strategy"]) == ("proposed", "averagely")
    page = sam.get(answer["Location"]).content.decode()
    assert "Strategy</dt><dd>averagely" in page
    assert "<dt><code>heartbeat_ms</code></dt><dd>2000</dd>" in page
    assert "lease_ms" not in page, "what stays as it is"
