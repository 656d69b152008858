"""Tokens of agents: refused when missing, wrong, expired, revoked or of another group, and good
while the database is away.
"""

import asyncio
import threading
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import InternalError, OperationalError
from django.db.models import QuerySet
from django.utils import timezone

from dashboard.actions import groups
from dashboard.agents import known_tokens, tokens
from dashboard.models import AgentToken, AuditEntry, AuditSource, Group
from dashboard.records.audit import By
from tests.dashboard.agents import BEAT, JOIN, Caller, make_group, noted_in_time, token_of
from tests.dashboard.served import until

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_missing_or_wrong_token_is_refused(caller: Caller) -> None:
    assert (await caller.post("join", JOIN, token=""))[0] == 401
    status, problem = await caller.post("join", JOIN, token="ekt_wrong")
    assert status == 401
    assert "wrong, expired or revoked" in problem["detail"]


async def test_an_expired_token_is_refused(caller: Caller, group: Group) -> None:
    def expired() -> str:
        text = token_of(group, expires_at=timezone.now() + timedelta(hours=1))
        past = timezone.now() - timedelta(seconds=1)
        AgentToken.objects.filter(digest=tokens.digest_of(text)).update(expires_at=past)
        return text

    assert (await caller.post("join", JOIN, token=await asyncio.to_thread(expired)))[0] == 401


async def test_a_revoked_token_is_refused_within_a_second_though_it_is_remembered(
    caller: Caller, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], time=lambda: now[0])
    monkeypatch.setattr(known_tokens, "time", clock)
    monkeypatch.setattr(tokens, "REMEMBERED_S", 3_600.0)
    assert tokens.LOOK_EVERY_S + tokens.LOOK_WAIT_S < 1
    monkeypatch.setattr(tokens, "LOOK_WAIT_S", 30.0)  # this machine's database may be slow
    assert (await caller.post("join", JOIN))[0] == 200
    token = await asyncio.to_thread(group.tokens.get)
    await asyncio.to_thread(lambda: groups.revoke_token(token, by=By("ann", AuditSource.PAGE)))
    now[0] += tokens.LOOK_EVERY_S
    for _ in range(2):
        assert (await caller.post("join", JOIN))[0] == 401
    entry = await noted_in_time(lambda: AuditEntry.objects.filter(action="use token").first())
    assert entry.result == "denied: the token is revoked"
    assert entry.actor == f"token {group.name}/{token.name}"


async def test_a_token_of_another_group_is_refused(caller: Caller, group: Group) -> None:
    other = await asyncio.to_thread(make_group, f"{group.name}-b")
    status, problem = await caller.post("join", JOIN, group=other.name)
    assert status == 403
    assert group.name in problem["detail"]
    entry = await asyncio.to_thread(AuditEntry.objects.get, action="use token")
    assert (entry.group, entry.result[:7]) == (other.name, "denied:")


async def test_a_token_that_was_known_is_good_while_the_database_is_away(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, asked = [100.0], []
    monkeypatch.setattr(tokens, "time", SimpleNamespace(monotonic=lambda: now[0]))
    await caller.post("join", JOIN)

    def away(*_: Any) -> tokens.Read:
        asked.append(now[0])
        raise OperationalError("no connection")

    async def status_after(seconds: float) -> int:
        now[0] += seconds
        return (await caller.post("heartbeat", {**BEAT, "sequence": int(now[0])}))[0]

    monkeypatch.setattr(tokens, "read", away)
    monkeypatch.setattr(known_tokens, "GATHER_S", 0.0)
    assert await status_after(tokens.REMEMBERED_S + 1) == 200
    await until(lambda: asked)
    assert await status_after(1) == 200
    assert len(asked) == 1, "the database is asked again only after a while"
    assert await status_after(tokens.REMEMBERED_S) == 200
    await until(lambda: len(asked) == 2)
    assert await status_after(tokens.OUTAGE_S) == 503


async def test_one_thread_at_most_waits_for_what_was_revoked(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go_on = [], threading.Event()

    def slow() -> list[str]:
        asked.append("")
        go_on.wait(30)
        return []

    monkeypatch.setattr(tokens, "revoked_lately", slow)
    monkeypatch.setattr(tokens, "LOOK_EVERY_S", 0)
    monkeypatch.setattr(tokens, "LOOK_WAIT_S", 0.01)
    answers = [(await caller.post("join", JOIN))[0] for _ in range(3)]
    go_on.set()
    assert (answers, len(asked)) == ([200] * 3, 1)


async def test_a_database_that_refuses_writes_refuses_no_token(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> int:
        raise InternalError("cannot execute UPDATE in a read-only transaction")

    monkeypatch.setattr(QuerySet, "update", refused)
    assert (await caller.post("join", JOIN))[0] == 200
