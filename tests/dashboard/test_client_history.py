"""A group whose agents coordinate has the same history, and people the same means."""

from pathlib import Path
from typing import Any

import pytest

from agent.coordination.effects import RedisEffects
from agent.coordination.memory import Memory
from agent.store.door import RedisDoor
from agent.store.group import GroupStore
from assignment.coordinator.rebalance import rebalance
from assignment.types import Coordination
from dashboard import coordinator
from dashboard.actions import at_once, coordination
from dashboard.models import AuditSource, Group, Rebalance, RebalanceOutcome
from dashboard.records.audit import By
from tests.dashboard.agents import FakeAgent, tick


@pytest.fixture
def agents_coordinate(group: Group) -> None:
    by = By("ann", AuditSource.PAGE, "to see it")
    assert coordination.switch(group, Coordination.CLIENT, by)


def by_agent(group: Group, redis_url: str, folder: Path) -> str:
    store = GroupStore(RedisDoor(redis_url), group.name)
    memory = Memory(str(folder), group.name)
    return RedisEffects(store, "a", lambda *_, **__: None, memory).carry_out(
        rebalance(Coordination.CLIENT)
    )


@pytest.mark.usefixtures("agents_coordinate")
def test_what_agents_compute_becomes_history(
    group: Group, agent: FakeAgent, redis_url: str, tmp_path: Path
) -> None:
    agent.start()
    assert coordinator.rebalance(group.name) == "coordination is client"
    assert by_agent(group, redis_url, tmp_path).startswith("epoch")
    agent.follow()
    tick()
    row = Rebalance.objects.get()
    assert row.outcome == RebalanceOutcome.DONE
    assert (row.cause, row.celery_worker, row.celery_task_id) == ("join", "a", "")
    assert (row.owners(), row.owners_before()) == (["a"] * 4, [None] * 4)
    group.refresh_from_db()
    assert group.coordination == Coordination.CLIENT


@pytest.mark.usefixtures("agents_coordinate")
def test_rounds_that_agents_compute_are_of_one_rebalance(
    group: Group, agent: FakeAgent, redis_url: str, tmp_path: Path
) -> None:
    agent.join()
    agent.beat(able=False)
    by_agent(group, redis_url, tmp_path)
    coordinator.tick()
    agent.beat()
    by_agent(group, redis_url, tmp_path)
    agent.follow()
    coordinator.tick()
    able, join = Rebalance.objects.all()
    assert (able.cause, able.first, join.first) == ("able", join, None)
    assert join.ended_at_ms == able.finished_at_ms


@pytest.mark.usefixtures("agents_coordinate")
def test_what_a_person_asks_for_is_computed_here(group: Group, agent: FakeAgent) -> None:
    agent.start()
    by = By("ann", AuditSource.PAGE, "too sticky")
    request = at_once.rebalance(group, by, strategy="averagely").request
    assert coordinator.rebalance(group.name).startswith("epoch")
    request.refresh_from_db()
    assert (request.state, Rebalance.objects.get().strategy) == ("done", "averagely")


@pytest.mark.usefixtures("agents_coordinate")
def test_a_tick_asks_for_no_rebalance_of_its_own(
    group: Group, agent: FakeAgent, published: Any
) -> None:
    agent.start()
    tick()
    assert published() == 0
    at_once.rebalance(group, By("ann", AuditSource.PAGE, ""), strategy="sticky")
    tick()
    assert published() == 1
