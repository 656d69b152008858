"""POST /api/agent/v1/{group}/join, heartbeat and leave: what an agent hears, and what follows."""

import asyncio
import json
import threading
from typing import Any

import pytest

from dashboard import coordinator
from dashboard.agents import messages
from dashboard.live import connection
from dashboard.models import Group
from tests.dashboard.agents import BEAT, JOIN, SECRET, Caller

pytestmark = pytest.mark.django_db(transaction=True)


async def test_an_agent_joins_beats_gets_its_target_and_leaves(
    caller: Caller, group: Group
) -> None:
    status, joined = await caller.post("join", JOIN)
    assert (status, joined["status"], joined["want_complete"]) == (200, "ok", True)
    assert joined["settings"]["partitions"] == 4
    assert joined["incarnation"] == 1
    _, first = await caller.post("heartbeat", {**BEAT, "able": True})
    assert first["status"] == "ok"
    assert "target" not in first, "a missing target is never sent as an empty one"
    await asyncio.to_thread(coordinator.rebalance, group.name)
    _, second = await caller.post("heartbeat", {**BEAT, "sequence": 2, "able": True})
    assert second["target"]["active"] == [f"{group.stream}:{n}" for n in range(4)]
    epochs = {"target_incarnation": 1, "target_epoch": second["target_epoch"]}
    told = {"incarnation": 1, "settings_epoch": 1, **epochs}
    _, third = await caller.post("heartbeat", {**BEAT, **told, "sequence": 3, "able": True})
    assert "target" not in third and "settings" not in third
    assert third["identity"] == group.identity == joined["identity"]
    status, left = await caller.post("leave", {"member": "m1", "secret": SECRET})
    assert (status, left["status"]) == (200, "ok")
    status, after = await caller.post("heartbeat", BEAT)
    assert (status, after["status"]) == (200, "fenced")


async def test_joins_and_news_of_settings_take_the_one_connection_of_the_batch(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECTIONS_MAX", 1)
    members = [f"m{n}" for n in range(40)]
    joined = await asyncio.gather(*(caller.post("join", {**JOIN, "member": m}) for m in members))
    beats = (caller.post("heartbeat", {**BEAT, "member": m}) for m in members)
    for status, told in (*joined, *await asyncio.gather(*beats)):
        assert (status, told["settings"]["partitions"]) == (200, 4)


async def test_a_repeated_heartbeat_is_late(caller: Caller) -> None:
    await caller.post("join", JOIN)
    await caller.post("heartbeat", {**BEAT, "sequence": 5})
    status, reply = await caller.post("heartbeat", {**BEAT, "sequence": 5})
    assert (status, reply["status"]) == (200, "late")


async def test_a_change_without_its_complete_report_asks_for_one(caller: Caller) -> None:
    await caller.post("join", JOIN)
    _, reply = await caller.post("heartbeat", {**BEAT, "report": 7, "complete": False})
    assert reply["want_complete"] is True


async def test_what_changes_the_group_asks_celery_once(caller: Caller, published: Any) -> None:
    before = published()
    await caller.post("join", JOIN)
    await asyncio.gather(
        *(caller.post("join", {**JOIN, "member": f"m{n}"}) for n in range(20)),
        caller.post("heartbeat", {**BEAT, "able": True}),
    )
    while caller.api.doorbell._answering is not None:
        await asyncio.sleep(0.01)
    assert published() - before <= 1, "many triggers, one task"


async def test_large_reports_are_read_beside_the_loop(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    read = messages.read

    def noting(verb: str, body: bytes) -> Any:
        threads.append(threading.current_thread().name)
        return read(verb, body)

    monkeypatch.setattr(messages, "read", noting)
    monkeypatch.setattr(messages, "LARGE", 1_000)
    await caller.post("join", JOIN)
    for padding in (0, 2_000):
        body = json.dumps(BEAT | {"sequence": padding + 1}).encode() + b" " * padding
        assert (await caller.post("heartbeat", body))[0] == 200
    assert threads[1] == threading.current_thread().name
    assert threads[2].startswith("large-body")


async def test_an_unknown_group_is_not_found(caller: Caller) -> None:
    status, problem = await caller.post("join", JOIN, group="nowhere")
    assert (status, problem["detail"]) == (404, "there is no group 'nowhere'")


async def test_an_unknown_route_and_another_method(caller: Caller) -> None:
    assert (await caller.post("dance", {}))[0] == 404
    assert (await caller.post("join", JOIN, method="GET"))[0] == 405


async def test_a_member_id_in_use_is_refused(caller: Caller) -> None:
    await caller.post("join", JOIN)
    assert (await caller.post("join", JOIN))[0] == 200, "the same process joins anew"
    status, problem = await caller.post("join", {**JOIN, "secret": SECRET + "!"})
    assert status == 409
    assert "'m1'" in problem["detail"]
