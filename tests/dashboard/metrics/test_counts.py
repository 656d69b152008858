"""What a web process counts of itself."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from dashboard.actions import groups as group_actions
from dashboard.agents.routes import AgentApi
from dashboard.live.connection import close_async_client
from dashboard.models import AuditSource, Group
from dashboard.push.hub import WAITING_MAX, Hub
from dashboard.records.audit import By
from dashboard.web.counts import Counts, counts
from tests.dashboard.agents import SECRET


@pytest.mark.django_db(transaction=True)
async def test_heartbeats_are_counted_by_how_they_are_answered(group: Group) -> None:
    made = await sync_to_async(group_actions.create_token)(group, by=By("ann", AuditSource.PAGE))
    api, name = AgentApi(), group.name

    async def say(verb: str, token: str, body: bytes) -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: dict[str, Any]) -> None:
            pass

        scope = {"type": "http", "method": "POST", "path": f"/api/agent/v1/{name}/{verb}"}
        headers = [(b"authorization", f"Bearer {token}".encode())]
        await api(scope | {"headers": headers, "state": {}}, receive, send)

    member = {"member": "m1", "secret": SECRET}
    beat = json.dumps(member | {"sequence": 1, "report": 1, "complete": True, "owned": {}}).encode()
    await say("heartbeat", made.text, beat)
    await say("join", made.text, json.dumps(member).encode())
    await say("heartbeat", made.text, beat)
    await say("heartbeat", made.text, b"{")
    await say("heartbeat", "ekt_wrong", beat)
    await say("join", "ekt_wrong", beat)
    assert counts.heartbeats == {
        (name, "fenced"): 1,
        (name, "ok"): 1,
        (name, "invalid"): 1,
        ("", "unauthorized"): 1,
    }
    await close_async_client()


async def test_open_sockets_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub("g", asyncio.Semaphore(1))
    monkeypatch.setattr(hub, "_run", _nothing)
    first, second = hub.join(), hub.join()
    assert counts.sockets["g"] == 2
    hub.part(second)
    hub.part(second)
    assert counts.sockets["g"] == 1
    hub.part(first)
    assert counts.sockets["g"] == 0


async def test_frames_and_resyncs_are_counted_by_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub("g", asyncio.Semaphore(1))
    monkeypatch.setattr(hub, "_run", _nothing)
    quick, slow = hub.join(), hub.join()
    for _ in range(WAITING_MAX):
        quick.waiting.get_nowait()
        hub._changes = changes(is_too_much=False)
        await hub._tell()
    assert counts.frames["g"] == 2 * WAITING_MAX - 1, "the last had no room at one of them"
    assert counts.resyncs == {("g", "slow_browser"): 1}
    hub._changes = changes(is_too_much=True)
    await hub._tell()
    assert counts.resyncs == {("g", "slow_browser"): 1, ("g", "many_changes"): 2}
    hub.part(quick)
    hub.part(slow)


def changes(*, is_too_much: bool) -> Any:
    told = {"is_too_much": is_too_much, "at_ms": 1, "is_owners_told": True}
    return SimpleNamespace(**told, forget=lambda: None, frame=lambda: {"type": "delta"}, marks=dict)


async def _nothing() -> None:
    pass


def test_counts_of_groups_that_are_gone_are_dropped() -> None:
    of = Counts()
    for group in ("a", "b", ""):
        of.heartbeat(group, "ok")
        of.opened(group, 1)
        of.told(group, 1)
        of.resynced(group, "many_changes", 1)
        of.differed(group, 1)
    of.keep({"a"})
    assert set(of.heartbeats) == {("a", "ok"), ("", "ok")}
    assert set(of.sockets) == set(of.frames) == set(of.differences) == {"a"}
