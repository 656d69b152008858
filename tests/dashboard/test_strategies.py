"""Strategies with parameters: kept with the group, used by its rebalances, refused in words."""

from typing import Any

import pytest
from django.core.management import CommandError, call_command

from assignment.errors import InvalidInput
from assignment.scripts.group_read import Purpose
from assignment.strategies import KINDS, NAMES, get
from assignment.wire import GroupKeys
from dashboard import coordinator
from dashboard.actions import at_once, groups
from dashboard.live import groups as live_groups
from dashboard.models import AuditEntry, AuditSource, Group, Plan, Rebalance
from dashboard.pages import parameters
from dashboard.records.audit import By
from tests.dashboard.agents import FakeAgent, tick
from tests.dashboard.scenes import settle, staffed

pytestmark = pytest.mark.django_db
BY = By("ann", AuditSource.PAGE)


def config(**owned: list[Any]) -> dict[str, Any]:
    return {"strategy": "config", "strategy_parameters": {"config_map": owned}}


def last(group: Group) -> Rebalance:
    row = group.rebalances.first()
    assert row is not None
    return row


# --- what people are told -------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_example_may_be_typed_as_it_stands(name: str) -> None:
    kind = KINDS[name]
    example = parameters.parse(kind.example)
    get(name, example)
    assert kind.rule
    assert bool(kind.parameters.NAMES) == bool(example)
    assert set(example) <= set(kind.parameters.NAMES)
    assert all(taken in kind.takes for taken in kind.parameters.NAMES)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "what was typed is not JSON"),
        ("[1]", "not a JSON object"),
        ("null", "not a JSON object"),
        ('{"a": 1, "a": 2}', "'a' is there twice"),
        ('{"a": NaN}', "NaN is not a number"),
        (" " * 10 + "1" * 70_000, "above 65536"),
    ],
)
def test_what_is_no_object_is_refused_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        parameters.parse(text)


def test_nothing_typed_is_no_parameters_and_is_shown_as_nothing() -> None:
    assert parameters.parse(" ") == {}
    assert parameters.shown({}) == ""
    assert parameters.parse(parameters.shown({"weights": [1, 2]})) == {"weights": [1, 2]}


# --- kept with the group --------------------------------------------------------------------------


def test_parameters_are_kept_audited_and_told_to_redis(group: Group, agent: FakeAgent) -> None:
    agent.start()
    settle(group, [agent])
    groups.change_settings(group, config(a=["0-3"]), by=BY)
    stored = live_groups.read(group.name, Purpose.LOOK).meta.settings
    assert stored is not None
    assert stored.strategy_parameters == {"config_map": {"a": ["0-3"]}}
    entry = AuditEntry.objects.get(action="change settings")
    assert entry.before == {"strategy": "sticky", "strategy_parameters": {}}
    assert entry.after == config(a=["0-3"])
    settle(group, [agent])
    assert (last(group).strategy, last(group).cause) == ("config", "strategy")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"strategy": "config"}, "config: parameter config_map is missing"),
        ({"strategy_parameters": {"weights": {}}}, "sticky: parameter 'weights' is not known"),
        ({"strategy_parameters": [1]}, "is no object"),
        ({"strategy_parameters": {"weights": ["x" * 70_000]}}, "above 65536"),
        ({"strategy_parameters": {"x": float("nan")}}, "cannot be written"),
        ({"strategy_parameters": {"x": {1}}}, "cannot be written"),
    ],
)
def test_wrong_parameters_change_nothing(group: Group, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        groups.change_settings(group, changes, by=BY)
    group.refresh_from_db()
    assert (group.values.strategy, group.values.strategy_parameters) == ("sticky", {})


def test_changed_parameters_alone_are_a_reason_to_rebalance(group: Group, agent: FakeAgent) -> None:
    groups.change_settings(group, {"strategy": "consistent_hash"}, by=BY)
    agent.start()
    settle(group, [agent])
    before = last(group).target_epoch
    group.refresh_from_db()
    groups.change_settings(group, {"strategy_parameters": {"virtual_nodes": 50}}, by=BY)
    settle(group, [agent])
    assert (last(group).cause, last(group).actor) == ("strategy", "ann")
    assert last(group).target_epoch > before


def test_the_command_takes_them_too(store: Any, group_name: str) -> None:
    ring = {"strategy": "consistent_hash", "strategy_parameters": '{"virtual_nodes": 7}'}
    call_command("create_group", group_name, stream=group_name, partitions=2, **ring)
    assert Group.objects.get().values.strategy_parameters == {"virtual_nodes": 7}
    with pytest.raises(CommandError, match="what was typed is not JSON"):
        call_command(
            "create_group", "b", stream="b", partitions=2, strategy_parameters="virtual_nodes"
        )


# --- a strategy that does not fit -----------------------------------------------------------------


def test_a_map_that_does_not_fit_moves_nothing_and_says_so_once(group: Group) -> None:
    agents = staffed(group, "a", "b")
    before = [dict(agent.held) for agent in agents]
    epoch = last(group).target_epoch
    groups.change_settings(group, config(a=["0-1"], b=[2], c=[3]), by=BY)
    for _ in range(3):
        said = coordinator.rebalance(group.name)
        tick()
    assert said.startswith("config cannot be used: config_map does not fit: member 'c' is not")
    assert (last(group).target_epoch, [dict(a.held) for a in agents]) == (epoch, before)
    entry = AuditEntry.objects.get(action="rebalance refused")
    assert (entry.actor, entry.result) == ("evenkeel", "refused")
    assert "member 'c' is not there" in entry.reason


def test_once_it_fits_it_is_applied(group: Group) -> None:
    agents = staffed(group, "a", "b")
    groups.change_settings(group, config(a=["0-1"], b=[2], c=[3]), by=BY)
    coordinator.rebalance(group.name)
    agents.append(FakeAgent(group, "c"))
    agents[-1].start()
    settle(group, agents)
    assert [sorted(p.number for p in agent.held) for agent in agents] == [[0, 1], [2], [3]]


def test_a_rebalance_that_does_not_fit_is_refused_at_once(group: Group) -> None:
    staffed(group, "a", "b")
    with pytest.raises(InvalidInput, match="config_map"):
        at_once.rebalance(group, BY, strategy="config", parameters={"config_map": {"z": ["0-3"]}})
    assert not Plan.objects.exists()
    entry = AuditEntry.objects.get(action="rebalance", result__startswith="refused")
    assert (entry.actor, entry.group) == ("ann", group.name)


def test_a_rebalance_runs_with_its_own_parameters_this_once(group: Group) -> None:
    agents = staffed(group, "a", "b")
    own = {"config_map": {"a": [0], "b": ["1-3"]}}
    plan = at_once.rebalance(group, BY, strategy="config", parameters=own)
    settle(group, agents)
    assert (last(group).strategy, last(group).planned) == ("config", True)
    assert [len(agent.held) for agent in agents] == [1, 3]
    assert plan.content.inputs["parameters"] == own


# --- weights --------------------------------------------------------------------------------------


def weigh(group: Group, store: Any, *totals: int) -> None:
    """Events applied so far, by partition."""
    for number, total in enumerate(totals):
        store.hset(GroupKeys(group.name).applied, f"{group.stream}:{number}", f"{total} 1000")


def test_measured_weights_are_the_events_so_far(group: Group, store: Any) -> None:
    agents = staffed(group, "a", "b")
    weigh(group, store, 900, 100, 100, 100)
    measured = {"strategy": "weighted_sticky", "strategy_parameters": {"weights": "measured"}}
    groups.change_settings(group, measured, by=BY)
    settle(group, agents)
    assert sorted(sorted(p.number for p in agent.held) for agent in agents) == [[0], [1, 2, 3]]
    assert (last(group).avoidable, last(group).stickiness_best) == (None, None)


def test_a_capped_change_goes_on_by_itself_until_it_is_whole(group: Group) -> None:
    agents = staffed(group, "a")
    capped = {"strategy": "weighted_sticky", "strategy_parameters": {"moves_max": 1}}
    groups.change_settings(group, capped, by=BY)
    settle(group, agents)
    agents.append(FakeAgent(group, "b"))
    agents[-1].start()
    for _ in range(3):
        settle(group, agents)
    assert [len(agent.held) for agent in agents] == [2, 2]
    moved = list(group.rebalances.values_list("cause", "moved")[:2])
    assert moved in ([("next round", 1), ("join", 1)], [("next round", 1), ("able", 1)])
    settle(group, agents)
    assert last(group).moved == 1, "no round more than it needs"
