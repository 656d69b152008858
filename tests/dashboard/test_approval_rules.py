"""Rules that approve plans without a person: whose, when, and never what their author proposed."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from assignment.errors import InvalidInput
from dashboard.actions import approval_rules, at_once, drafting, plans
from dashboard.actions.conditions import Conditions, minute_of
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Denied, NeedsApproval
from dashboard.models import ApprovalRule, AuditEntry, AuditSource, Group, Plan
from dashboard.records.audit import By
from dashboard.records.rights import of_user
from tests.dashboard.agents import FakeAgent
from tests.dashboard.api_v1.program import Program, problem, read
from tests.dashboard.people import granted, logged_in
from tests.dashboard.planning import ANN, by, drain, uneven
from tests.dashboard.scaling import Scene
from tests.dashboard.scenes import settle

EVERY_KIND = ("rebalance", "scale-down", "strategy change", "coordination change")
NIGHT = {"begins": 22 * 60, "ends": 6 * 60}


def person(name: str, *roles: str) -> By:
    user = User.objects.create(username=name)
    for role in roles:
        granted(user, role)
    return By(name, AuditSource.PAGE, "why", rights=of_user(user))


@pytest.fixture
def ada(db: None) -> By:
    return person("ada", "admin")


def rule(by: By, name: str = "nights", **conditions: Any) -> ApprovalRule:
    values = {"kinds": EVERY_KIND, "moves_max": 1} | conditions
    return approval_rules.create(name, Conditions(**values), by)


def at(monkeypatch: pytest.MonkeyPatch, clock: str) -> None:
    minute = minute_of(clock)
    now = datetime(2026, 1, 31, minute // 60, minute % 60, tzinfo=UTC)
    monkeypatch.setattr(approval_rules, "utc_now", lambda: now)


# --- conditions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begins", "ends", "inside", "outside"),
    [
        ("00:00", "00:00", ("00:00", "12:00", "23:59"), ()),
        ("08:00", "17:30", ("08:00", "17:29"), ("07:59", "17:30")),
        ("22:00", "06:00", ("22:00", "23:59", "00:00", "05:59"), ("06:00", "21:59")),
    ],
)
def test_hours_are_of_the_utc_day_and_may_go_over_midnight(
    begins: str, ends: str, inside: tuple[str, ...], outside: tuple[str, ...]
) -> None:
    found = Conditions(
        kinds=EVERY_KIND, moves_max=1, begins=minute_of(begins), ends=minute_of(ends)
    )
    for clock in (*inside, *outside):
        assert found.is_hour(minute_of(clock)) == (clock in inside), clock


def test_each_condition_counts() -> None:
    found = Conditions(kinds=("rebalance",), moves_max=3, pattern="pay-*", **NIGHT)
    good: dict[str, Any] = {"group": "pay-1", "kind": "rebalance", "moves": 3, "minute": 0}
    assert found.are_met(**good)
    for other in ({"group": "x-1"}, {"kind": "scale-down"}, {"moves": 4}, {"minute": 720}):
        assert not found.are_met(**good | other), other


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kinds": ("rebalance", "odd")}, "there is no kind 'odd'"),
        ({"kinds": ()}, "no kind of plan is named"),
        ({"moves_max": -1}, "moves_max -1 is not within 0"),
        ({"pattern": "a|b"}, r"pattern 'a\|b'"),
        ({"begins": 1_440}, "minute 1440 is not within 0 and 1439"),
    ],
)
def test_conditions_that_cannot_be_are_named(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        Conditions(**{"kinds": EVERY_KIND, "moves_max": 1} | wrong)
    with pytest.raises(InvalidInput, match="'24:00' is no time of day"):
        minute_of("24:00")


# --- approved -------------------------------------------------------------------------------------


def test_a_plan_that_meets_a_rule_is_approved_in_its_authors_name_and_runs(
    ada: By, group: Group, agents: list[FakeAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    rule(ada, pattern=f"{group.name[:3]}*", **NIGHT)
    at(monkeypatch, "23:10")
    plan = plans.propose(group, uneven(group), ANN)
    assert (plan.state, plan.approved_by, plan.approved_by_rule) == ("approved", "ada", "nights")
    assert plan.decided_by == "evenkeel"
    assert plan.rule_values == {
        "groups": f"{group.name[:3]}*", "kinds": list(EVERY_KIND), "moves": 1, "moves_max": 1,
        "at": "23:10 UTC", "hours": "22:00 to 06:00 UTC",
    }  # fmt: skip
    entry = AuditEntry.objects.get(action="approve plan")
    assert (entry.actor, entry.source) == ("evenkeel", "automatic")
    assert entry.reason.startswith("rule “nights” of ada: 1 of at most 1 moves, at 23:10 UTC")
    plan = plans.run(plan, ANN)
    settle(group, agents)
    plan.refresh_from_db()
    assert (plan.state, plan.moved) == ("done", {"confirmed": 1})


def test_what_is_asked_for_in_one_step_runs_when_a_rule_approves_it(
    ada: By, group: Group, agents: list[FakeAgent]
) -> None:
    own = {"config_map": {"a": ["0-2"], "b": [3]}}
    assert at_once.rebalance(group, ANN, strategy="config", parameters=own).state == "proposed"
    rule(ada)
    plan = at_once.rebalance(group, ANN, strategy="config", parameters=own)
    assert (plan.state, plan.approved_by_rule, plan.run_by) == ("running", "nights", "ann")


@pytest.mark.parametrize(
    "conditions",
    [
        {"moves_max": 0},
        {"pattern": "another-*"},
        {"kinds": ("scale-down",)},
        {"begins": 60, "ends": 61},
    ],
)
def test_what_meets_no_rule_waits_for_a_person(
    ada: By,
    group: Group,
    agents: list[FakeAgent],
    monkeypatch: pytest.MonkeyPatch,
    conditions: dict[str, Any],
) -> None:
    at(monkeypatch, "12:00")
    rule(ada, **conditions)
    plan = plans.propose(group, uneven(group), ANN)
    assert (plan.state, plan.approved_by, plan.rule_values) == ("proposed", "", None)


def test_moves_by_learners_count(ada: By, scene: Scene) -> None:
    rule(ada, moves_max=0)
    assert plans.propose(scene.group, drain(scene, "S3"), ANN).state == "proposed"
    rule(ada, "one", moves_max=1)
    plan = plans.propose(scene.group, drain(scene, "S3"), ANN)
    assert (plan.state, plan.approved_by_rule) == ("approved", "one")


# --- never by who proposed it ---------------------------------------------------------------------


def test_a_rule_does_not_approve_what_its_author_proposed(
    ada: By, group: Group, agents: list[FakeAgent]
) -> None:
    rule(ada)
    assert plans.propose(group, uneven(group), ada).state == "proposed"
    rule(person("zoe", "admin"), "zoes")
    assert plans.propose(group, uneven(group), ada).approved_by == "zoe"


def test_the_database_keeps_a_rule_from_approving_its_authors_plan(
    ada: By, group: Group, agents: list[FakeAgent]
) -> None:
    plans.propose(group, uneven(group), ada)
    for columns in (
        {"approved_by": "ada", "approved_by_rule": "nights"},
        {"approved_by": "", "approved_by_rule": "nights"},
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            Plan.objects.update(**columns)


@pytest.mark.parametrize("ended", ["deactivated", "denied here", "no admin any more"])
def test_a_rule_approves_only_as_long_as_its_author_may(
    ada: By, group: Group, agents: list[FakeAgent], ended: str
) -> None:
    made, user = rule(ada), User.objects.get(username="ada")
    if ended == "deactivated":
        User.objects.update(is_active=False)
    elif ended == "denied here":
        granted(user, "approver", group.name, "deny")
    else:
        user.role_grants.all().delete()
        granted(user, "approver")
    assert plans.propose(group, uneven(group), ANN).state == "proposed"
    made.refresh_from_db()
    assert bool(approval_rules.why_idle(made)) == (ended != "denied here")


def test_a_rule_goes_with_its_author(ada: By) -> None:
    rule(ada)
    User.objects.get(username="ada").delete()
    assert not ApprovalRule.objects.exists()


# --- made -----------------------------------------------------------------------------------------


def test_rules_are_made_and_removed_on_record(ada: By) -> None:
    made = rule(ada, **NIGHT)
    with pytest.raises(Refused, match="rule 'nights' exists already"):
        rule(ada)
    approval_rules.remove(made, ada)
    entries = AuditEntry.objects.filter(actor="ada", result="done").order_by("seq")
    first, second = entries
    conditions = {
        "groups": "*", "kinds": list(EVERY_KIND), "moves_max": 1, "hours": "22:00 to 06:00 UTC",
    }  # fmt: skip
    assert (first.action, first.object, first.after) == (
        *("create approval rule", "nights"),
        conditions,
    )
    assert (second.action, second.object) == ("remove approval rule", "nights")
    assert second.before == conditions | {"author": "ada"}


def test_only_admins_of_all_groups_make_rules_and_in_their_own_name(
    ada: By, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in (by("bob", "approver"), by("carl", "admin in g*")):
        with pytest.raises(Denied, match="to manage approval rules takes the role admin"):
            rule(other)
    with pytest.raises(NeedsApproval):
        rule(by("sam", "stage admin"))
    with pytest.raises(Refused, match="'root' is no user"):
        rule(by("root", "admin"))
    monkeypatch.setattr(approval_rules, "RULES_MAX", 1)
    rule(ada)
    with pytest.raises(Refused, match="there are 1 rules already"):
        rule(ada, "another")


# --- page and API ---------------------------------------------------------------------------------


def test_the_page_makes_shows_and_removes_rules(
    ada: By, group: Group, agents: list[FakeAgent]
) -> None:
    client = logged_in(User.objects.get(username="ada"))
    form: dict[str, Any] = {"do": "create", "name": "nights", "groups": "*"}
    form |= {"kinds": ["rebalance", "scale-down"], "moves_max": "2", "begins": "22:00"}
    page = client.post("/approval-rules/", form | {"ends": "6:00"}).content.decode()
    assert "&#x27;6:00&#x27; is no time of day like 22:00" in page
    assert not ApprovalRule.objects.exists()
    assert client.post("/approval-rules/", form | {"ends": "22:00"}).status_code == 302
    page = client.get("/approval-rules/").content.decode()
    assert 'data-rule="nights"' in page and "<td>rebalance, scale-down</td>" in page
    assert "<td>all day</td>" in page and ">yes</td>" in page
    plan = plans.propose(group, uneven(group), ANN)
    shown = client.get(f"/groups/{group.name}/plans/{plan.pk}/").content.decode()
    assert "by rule nights of ada" in shown
    assert '<dd>1 move <span class="muted">of at most 2</span>' in shown
    key = ApprovalRule.objects.get().pk
    client.post("/approval-rules/", {"do": "remove", "rule": key})
    assert not ApprovalRule.objects.exists()
    assert client.post("/approval-rules/", {"do": "remove", "rule": key}).status_code == 404


def test_the_api_makes_lists_and_removes_rules(
    ada: By, group: Group, agents: list[FakeAgent]
) -> None:
    program = Program.of(User.objects.get(username="ada"))
    body = {"name": "nights", "kinds": ["rebalance"], "moves_max": 2, "begins": "22:00"}
    made = read(program.post("approval-rules", body), 201)
    assert (made["author"], made["begins"], made["ends"]) == ("ada", "22:00", "00:00")
    assert made["idle"] == ""
    assert "exists already" in problem(program.post("approval-rules", body), 409)
    for wrong in ({"begins": "9"}, {"kinds": ["odd"]}, {"kinds": []}, {"groups": "a|b"}):
        problem(program.post("approval-rules", body | {"name": "n"} | wrong), 422)
    assert read(program.get("approval-rules"))["items"] == [made]
    assert read(program.ask("DELETE", f"approval-rules/{made['id']}")) == made
    problem(program.ask("DELETE", f"approval-rules/{made['id']}"), 404)
    rule(person("zoe", "admin"), "zoes")
    plan = plans.propose(group, drafting.rebalance(group, "sticky", None), ANN)
    told = read(program.get(f"groups/{group.name}/plans/{plan.pk}"))
    assert (told["approved_by"], told["approved_by_rule"]) == ("zoe", "zoes")
    assert told["rule_values"]["moves"] == 0
