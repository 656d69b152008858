"""What agents hear when the group is full or damaged, when they ask too much, and when Redis or the
database is away.
"""

import os
import signal
from typing import Any

import pytest
from django.db import OperationalError
from pytest_django.fixtures import Settings

from assignment import sizes
from assignment.wire import GroupKeys
from dashboard.agents import tokens
from dashboard.demo.embedded_redis import EmbeddedRedis
from dashboard.live import deadline
from dashboard.models import Group
from tests.dashboard.agents import BEAT, JOIN, SECRET, Caller, make_group, token_of

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_group_that_is_full_takes_a_member_later(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await caller.post("join", JOIN)
    monkeypatch.setattr(sizes, "MEMBERS_LEAST", 1)
    monkeypatch.setattr(sizes, "MEMBERS_MAX", 1)
    status, problem = await caller.post("join", JOIN | {"member": "m2"})
    assert (status, problem["title"]) == (429, "Too many members")
    assert (await caller.post("join", JOIN))[0] == 200
    await caller.post("leave", {"member": "m1", "secret": SECRET})
    assert (await caller.post("join", JOIN | {"member": "m2"}))[0] == 200


@pytest.mark.parametrize("field", ["group_epoch", "incarnation", "settings"])
async def test_a_group_whose_records_are_damaged_is_told_to_be_repaired(
    caller: Caller, group: Group, store: Any, field: str
) -> None:
    await caller.post("join", JOIN)
    store.hset(GroupKeys(group.name).meta, field, "{many")
    answers = [await caller.post("heartbeat", BEAT), await caller.post("join", JOIN)]
    assert all(status in (200, 503) for status, _ in answers), answers
    damaged = [told for status, told in answers if status == 503]
    assert {told["title"] for told in damaged} == {"Group damaged"}


async def test_more_than_all_members_may_say_is_not_kept(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await caller.post("join", JOIN)
    monkeypatch.setattr(sizes, "reports_max", lambda partitions: 20)
    status, problem = await caller.post("heartbeat", {**BEAT, "sequence": 1})
    assert (status, problem["title"]) == (429, "Too much reported")


async def test_too_many_requests_of_a_token_are_refused(caller: Caller, settings: Settings) -> None:
    settings.AGENT_RATE_PER_SECOND = 3
    await caller.post("join", JOIN)
    answers = [(await caller.post("heartbeat", {**BEAT, "sequence": n}))[0] for n in range(1, 10)]
    assert 429 in answers


async def test_redis_away_is_said(caller: Caller, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    status, problem = await caller.post("join", JOIN)
    assert (status, problem["title"]) == (503, "Redis is away")


@pytest.fixture
def own_caller(own_redis: EmbeddedRedis, point_at: Any, group_name: str, db: None) -> Caller:
    point_at(own_redis.url)
    return Caller(group_name, token_of(make_group(group_name)))


async def test_a_hung_redis_costs_one_deadline_and_hears_of_nothing_given_up(
    own_caller: Caller, own_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent is carried out when it goes on; what waited behind it is not."""
    await own_caller.post("join", JOIN)
    monkeypatch.setattr(deadline, "REQUEST_S", 0.2)
    assert own_redis.pid
    os.kill(own_redis.pid, signal.SIGSTOP)
    try:
        for sequence in (1, 9):
            status, problem = await own_caller.post("heartbeat", {**BEAT, "sequence": sequence})
            assert (status, problem["title"]) == (503, "Not answered in time")
    finally:
        os.kill(own_redis.pid, signal.SIGCONT)
    monkeypatch.setattr(deadline, "REQUEST_S", 60.0)
    _, reply = await own_caller.post("heartbeat", {**BEAT, "sequence": 2})
    assert reply["status"] == "ok"


async def test_database_away_is_said(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> tokens.Read:
        raise OperationalError("no connection")

    monkeypatch.setattr(tokens, "read", away)
    status, problem = await caller.post("join", JOIN)
    assert (status, problem["title"]) == (503, "Database is away")


async def test_a_group_that_redis_lost_is_tried_again(
    caller: Caller, group: Group, store: Any
) -> None:
    store.delete(GroupKeys(group.name).meta)
    status, problem = await caller.post("join", JOIN)
    assert status == 503
    assert "not yet set up" in problem["detail"]
