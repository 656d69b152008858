"""/groups/<name>/settings/ and rebalance/: what changes a group, and its trace in the audit."""

import json
import re
from typing import Any

import pytest
from django.test import Client

from assignment.strategies import NAMES
from assignment.wire import GroupKeys
from dashboard import coordinator
from dashboard.actions import groups
from dashboard.live import watching
from dashboard.models import AuditEntry, Group, Plan, RebalanceRequest
from dashboard.push import frames
from dashboard.records.audit import By
from tests.dashboard.agents import FakeAgent
from tests.dashboard.scenes import settle


def sent(group: Group, **changes: object) -> dict[str, object]:
    """The settings form as a browser sends it."""
    values = {k: v for k, v in group.settings.items() if k not in ("stream", "partitions")}
    values |= {"strategy_parameters": ""} | changes
    return {k: v for k, v in values.items() if v is not False and v is not None}


def test_settings_are_saved_and_audited(visitor: Client, group: Group) -> None:
    address = f"/groups/{group.name}/settings/"
    answer = visitor.post(address, sent(group, strategy="averagely", reason="even blocks"))
    assert (answer.status_code, answer["Location"]) == (302, address)
    group.refresh_from_db()
    assert group.values.strategy == "averagely"
    entry = AuditEntry.objects.get(action="change settings")
    assert (entry.actor, entry.reason, entry.source) == ("ann", "even blocks", "page")
    assert (entry.before, entry.after) == ({"strategy": "sticky"}, {"strategy": "averagely"})
    plan = Plan.objects.get()
    assert (plan.kind, plan.state, plan.proposed_by) == ("strategy change", "running", "ann")


def test_a_strategy_is_saved_with_its_parameters(visitor: Client, group: Group) -> None:
    ring = {"strategy": "consistent_hash", "strategy_parameters": '{"virtual_nodes": 50}'}
    address = f"/groups/{group.name}/settings/"
    visitor.post(address, sent(group, **ring))
    group.refresh_from_db()
    assert group.values.strategy_parameters == {"virtual_nodes": 50}
    entry = AuditEntry.objects.get(action="change settings")
    assert entry.before == {"strategy": "sticky", "strategy_parameters": {}}
    assert entry.after["strategy_parameters"] == {"virtual_nodes": 50}
    page = visitor.get(address).content.decode()
    assert "{&quot;virtual_nodes&quot;: 50}</textarea>" in page


@pytest.mark.parametrize("page", ["/new-group/", "/groups/{}/settings/", "/groups/{}/rebalance/"])
def test_every_strategy_is_explained_where_it_is_chosen(
    visitor: Client, group: Group, agents: list[FakeAgent], page: str
) -> None:
    shown = visitor.get(page.format(group.name)).content.decode()
    table = shown[shown.index('id="strategies"') :]
    assert all(f"<td>{name}</td>" in table for name in NAMES)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"strategy": "config"}, "config: parameter config_map is missing"),
        ({"strategy_parameters": "{"}, "what was typed is not JSON"),
        (
            {"strategy_parameters": '{"virtual_nodes": 3}'},
            "sticky: parameter &#x27;virtual_nodes&#x27; is not known; this strategy takes none",
        ),
    ],
)
def test_wrong_parameters_are_told_beside_their_field(
    visitor: Client, group: Group, changes: dict[str, object], said: str
) -> None:
    before = group.settings
    answer = visitor.post(f"/groups/{group.name}/settings/", sent(group, **changes))
    page = answer.content.decode()
    assert f'</textarea><ul class="errors" id="id_strategy_parameters_errors"><li>{said}' in page
    group.refresh_from_db()
    assert group.settings == before


def test_a_group_is_made_stateful_and_its_limit_is_taken_back(
    visitor: Client, group: Group
) -> None:
    address = f"/groups/{group.name}/settings/"
    page = visitor.get(address).content.decode()
    for name in ("stateful", "standby_replicas", "learners_max", "acceptable_lag_records"):
        assert f'name="{name}"' in page
    assert "Empty: no limit. 0: at once." in page
    visitor.post(address, sent(group, stateful="on", scale_down_timeout_ms="60000"))
    group.refresh_from_db()
    assert (group.values.stateful, group.values.scale_down_timeout_ms) == (True, 60_000)
    visitor.post(address, sent(group, scale_down_timeout_ms="", learn_partial_rebalance="False"))
    group.refresh_from_db()
    assert group.values.scale_down_timeout_ms is None
    assert group.values.learn_partial_rebalance is False


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"standby_replicas": ""}, "This field is required"),
        ({"learners_max": -1}, "&#x27;-1&#x27; is no whole number like 500"),
        ({"scale_down_timeout_ms": 2_592_000_001}, "&#x27;2592000001&#x27;: must be 30 d or less"),
        ({"renew_ms": 9_000}, "lease_ms 10000 is below three times renew_ms 9000"),
        ({"session_timeout_ms": 20_000}, "session_timeout_ms 20000 is above lease_ms 10000"),
        ({"lease_ms": "0.01 s"}, "&#x27;0.01 s&#x27;: must be 50 ms or more"),
        ({"strategy": "random"}, "random is not one of the available choices"),
        ({"lease_ms": ""}, "This field is required"),
    ],
)
def test_wrong_settings_are_named_and_nothing_changes(
    visitor: Client, group: Group, changes: dict[str, object], said: str
) -> None:
    before = group.settings
    answer = visitor.post(f"/groups/{group.name}/settings/", sent(group, **changes))
    assert answer.status_code == 200
    assert said in answer.content.decode()
    group.refresh_from_db()
    assert group.settings == before


def moves(page: str) -> dict[str, int]:
    found = re.findall(r'<tr data-strategy="(\w+)">.*?data-moves="(\d+)"', page)
    return {name: int(count) for name, count in found}


def test_the_preview_is_the_cores_own_answer(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    page = visitor.get(f"/groups/{group.name}/rebalance/").content.decode()
    found = moves(page)
    assert found["sticky"] == 0
    assert found["averagely"] > 0
    assert page.index("sticky") < page.index("recommended")
    assert set(found) == set(NAMES) - {"config", "zone", "zone_nearby"}
    assert next(iter(found)) == "sticky"
    assert "cannot be used now: config: parameter config_map is missing" in page


def test_what_was_previewed_is_what_runs(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    address = f"/groups/{group.name}/rebalance/"
    predicted = moves(visitor.get(address).content.decode())["averagely"]
    answer = visitor.post(address, {"strategy": "averagely", "reason": "blocks for the night"})
    assert answer["Location"] == f"/groups/{group.name}/plans/{Plan.objects.get().pk}/"
    settle(group, agents)
    last = group.rebalances.first()
    assert last is not None
    assert (last.moved, last.planned, last.actor) == (predicted, True, "ann")
    assert (last.strategy, last.reason) == ("averagely", "blocks for the night")
    page = visitor.get(f"/groups/{group.name}/history/").content.decode()
    assert "blocks for the night" in page


def test_a_strategy_can_be_looked_at_with_parameters_before_it_runs(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    address = f"/groups/{group.name}/rebalance/"
    typed = {
        "strategy": "config",
        "strategy_parameters": json.dumps({"config_map": {agents[0].member: ["0-99"]}}),
    }
    page = visitor.post(address, typed | {"preview": "1"}).content.decode()
    assert "config_map does not fit" in page and 'role="alert"' not in page
    every = {"config_map": {agents[0].member: [f"0-{group.partitions - 1}"]}}
    typed["strategy_parameters"] = json.dumps(every)
    found = moves(visitor.post(address, typed | {"preview": "1"}).content.decode())
    assert found["config"] == len(agents[1].held)
    assert not RebalanceRequest.objects.exists()
    visitor.post(address, typed | {"reason": "one for all"})
    asked = RebalanceRequest.objects.get()
    assert (asked.strategy, asked.parameters) == ("config", every)
    settle(group, agents)
    assert len(agents[0].held) == group.partitions


def test_parameters_that_are_wrong_are_told_beside_the_field_of_the_preview(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    typed = {"strategy": "sticky", "strategy_parameters": "{", "preview": "1"}
    page = visitor.post(f"/groups/{group.name}/rebalance/", typed).content.decode()
    assert '</textarea><ul class="errors"><li>what was typed is not JSON' in page


def test_the_groups_own_parameters_are_used_where_none_are_typed(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    first, second = (agent.member for agent in agents)
    own = {"config_map": {first: [0], second: [f"1-{group.partitions - 1}"]}}
    changes = {"strategy": "config", "strategy_parameters": own}
    groups.change_settings(group, changes, by=By("ann", "page"))
    address = f"/groups/{group.name}/rebalance/"
    assert moves(visitor.get(address).content.decode())["config"] == 1
    visitor.post(address, {"strategy": "config", "reason": "again"})
    assert RebalanceRequest.objects.get().parameters == own


@pytest.mark.parametrize("values", [{"strategy": "sticky"}, {"strategy": "odd", "reason": "x"}, {}])
def test_a_rebalance_needs_a_strategy_and_a_reason(
    visitor: Client, group: Group, agents: list[FakeAgent], values: dict[str, str]
) -> None:
    answer = visitor.post(f"/groups/{group.name}/rebalance/", values)
    assert answer.status_code == 200
    assert b'role="alert"' in answer.content
    assert not RebalanceRequest.objects.exists()


def run_button(page: str) -> str:
    (found,) = re.findall(r'<button class="first" id="run"([^>]*)>', page)
    return str(found)


def test_what_would_move_nothing_cannot_be_run(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    address = f"/groups/{group.name}/rebalance/"
    page = visitor.get(address).content.decode()
    assert moves(page)["sticky"] == 0
    assert " disabled" in run_button(page)
    assert '<span id="idle">Nothing would move: each partition stays with its owner.' in page
    other = visitor.post(address, {"strategy": "averagely", "preview": "1"}).content.decode()
    assert " disabled" not in run_button(other)
    assert '<span id="idle" hidden>' in other
    refused = visitor.post(address, {"strategy": "sticky", "reason": "why not"}).content.decode()
    assert "<p>Nothing would move: each partition stays with its owner.</p>" in refused
    assert not RebalanceRequest.objects.exists()


def test_a_stateful_group_has_no_strategy_to_choose_and_is_asked_when_somebody_would_learn(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    groups.change_settings(group, {"stateful": True}, by=By("ann", "page"))
    settle(group, agents)
    address = f"/groups/{group.name}/rebalance/"
    page = visitor.get(address).content.decode()
    assert 'data-strategy="planner"' in page and 'type="radio"' not in page
    chosen = re.search(r'type="hidden" name="strategy" value="(\w+)"', page)
    assert chosen is not None and " disabled" in run_button(page)
    FakeAgent(group, "c").start()
    assert " disabled" not in run_button(visitor.get(address).content.decode())
    answer = visitor.post(address, {"strategy": chosen[1], "reason": "look again"})
    assert answer["Location"] == f"/groups/{group.name}/plans/{Plan.objects.get().pk}/"
    coordinator.rebalance(group.name)
    coordinator.tick()
    last = group.rebalances.first()
    assert last is not None
    assert (last.strategy, last.planned, last.reason) == ("planner", True, "look again")


def test_looking_changes_nothing(visitor: Client, group: Group, agents: list[FakeAgent]) -> None:
    epochs = list(group.rebalances.values_list("target_epoch", flat=True))
    visitor.get(f"/groups/{group.name}/rebalance/")
    settle(group, agents)
    assert list(group.rebalances.values_list("target_epoch", flat=True)) == epochs


# --- coordination ---------------------------------------------------------------------------------


def header(visitor: Client, group: Group) -> str:
    shown = visitor.get(f"/groups/{group.name}/").content.decode()
    (found,) = re.findall(r'<span id="coordination">(.*?)</span>', shown)
    return re.sub(r"<[^>]+>", "", found)


def test_the_coordination_is_switched_with_a_reason_and_shown_on_the_header(
    visitor: Client, group: Group, store: Any
) -> None:
    assert header(visitor, group) == "server coordination mode epoch 1, by this dashboard"
    address = f"/groups/{group.name}/settings/"
    asked = visitor.get(f"{address}?do=switch").content.decode()
    assert "Switch to client coordination?" in asked
    values = dict(re.findall(r'type="hidden" name="(mode|epoch)" value="(\w+)"', asked))
    assert values == {"mode": "client", "epoch": "1"}
    without = visitor.post(f"{address}?do=switch", values).content.decode()
    assert "This field is required" in without
    answer = visitor.post(f"{address}?do=switch", values | {"reason": "no dashboard needed"})
    assert (answer.status_code, answer["Location"]) == (302, address)
    entry = AuditEntry.objects.get(action="switch coordination")
    assert (entry.actor, entry.reason, entry.source) == ("ann", "no dashboard needed", "page")
    assert entry.after == {"coordination": "client", "mode_epoch": 2}
    nobody = "mode epoch 2, by no agent at this moment"
    assert header(visitor, group) == f"client coordination {nobody}"
    store.set(GroupKeys(group.name).coordinator, "a-1f2e3d")
    assert header(visitor, group) == "client coordination mode epoch 2, by a-1f2e3d"


def test_a_switch_from_a_page_that_is_out_of_date_is_refused(visitor: Client, group: Group) -> None:
    old = {"mode": "client", "epoch": "0", "reason": "an old page"}
    shown = visitor.post(f"/groups/{group.name}/settings/?do=switch", old).content.decode()
    assert "the mode epoch is 1 (server), not 0" in shown
    entry = AuditEntry.objects.get(action="switch coordination")
    assert entry.result.startswith("refused: ") and entry.after is None


def test_a_switch_is_told_to_browsers(visitor: Client, group: Group) -> None:
    before = watching.snapshot(group.name)
    changes = frames.Changes(before)
    values = {"mode": "client", "epoch": "1", "reason": "a test"}
    visitor.post(f"/groups/{group.name}/settings/?do=switch", values)
    changes.feed(watching.snapshot(group.name))
    frame = changes.frame()
    assert frame is not None
    assert frame["coordination"]["text"] == "client coordination"


# --- durations, counts ----------------------------------------------------------------------------


def test_durations_and_counts_are_shown_and_typed_as_people_say_them(
    visitor: Client, group: Group
) -> None:
    address = f"/groups/{group.name}/settings/"
    typed = {"lease_ms": "12 s", "grace_ms": "1 min", "acceptable_lag_records": "20 000"}
    visitor.post(address, sent(group, scale_down_timeout_ms="1 h 30 min", **typed))
    group.refresh_from_db()
    values = group.values
    assert (values.lease_ms, values.grace_ms) == (12_000, 60_000)
    assert (values.acceptable_lag_records, values.scale_down_timeout_ms) == (20_000, 5_400_000)
    page = visitor.get(address).content.decode()
    shown = dict(re.findall(r'name="(\w+)" value="([^"]+)"', page))
    assert shown["lease_ms"] == "12 s"
    assert shown["scale_down_timeout_ms"] == "1 h 30 min"
    assert shown["acceptable_lag_records"] == "20\u202f000"


# --- a strategy that is not used ------------------------------------------------------------------


def test_a_stateful_group_offers_no_strategy_and_says_why(visitor: Client, group: Group) -> None:
    address = f"/groups/{group.name}/settings/"
    strategies = r'<(?:select|textarea) name="strategy(?:_parameters)?"[^>]*>'
    offered = re.findall(strategies, visitor.get(address).content.decode())
    assert [" disabled" in field for field in offered] == [False, False]
    visitor.post(address, sent(group, stateful="on"))
    group.refresh_from_db()
    page = visitor.get(address).content.decode()
    assert [" disabled" in field for field in re.findall(strategies, page)] == [True, True]
    assert "Not used while the group is stateful" in page
    values = {k: v for k, v in sent(group, stateful="on").items() if "strategy" not in k}
    visitor.post(address, values | {"lease_ms": "12 s"})
    group.refresh_from_db()
    assert (group.values.strategy, group.values.lease_ms) == ("sticky", 12_000)


def test_a_strategy_that_is_not_used_is_refused(visitor: Client, group: Group) -> None:
    address = f"/groups/{group.name}/settings/"
    visitor.post(address, sent(group, stateful="on"))
    group.refresh_from_db()
    before = group.settings
    page = visitor.post(address, sent(group, strategy="averagely", lease_ms="12 s"))
    assert "&#x27;averagely&#x27;: Not used while the group is stateful" in page.content.decode()
    group.refresh_from_db()
    assert group.settings == before
