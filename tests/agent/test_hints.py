"""Whoever listens for hints goes on, whatever the server answers."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from agent.hints import Hinted, HintListener
from agent.store.group import GroupStore
from tests.failover import PATIENCE_S, until
from tests.fakes import FakeDoor, FakeRedis
from tests.fakes.server import LOADING, MASTERDOWN


@pytest.mark.parametrize("text", [LOADING, MASTERDOWN, "ODD what nobody has heard of", "ERR odd"])
def test_no_state_of_a_server_ends_whoever_listens(
    text: str, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.hints.AWAY_S", 0.01)
    server = FakeRedis()
    server.refuse(text, for_ms=1_000)
    asked: list[object] = []
    door = FakeDoor(server)
    monkeypatch.setattr(door, "wait", lambda *_: threading.Event().wait(PATIENCE_S))
    monkeypatch.setattr(server, "_demand_ready", watched(server._demand_ready, asked))
    heard: list[Hinted | BaseException] = []
    listener = HintListener(GroupStore(door, group_name), "a", heard.append, lambda _: None)
    listener.start()
    until(lambda: len(asked) >= 3)
    assert heard == []
    server.advance(1_000)
    until(lambda: heard)
    listener.close()
    assert isinstance(heard[0], Hinted)


def watched(function: Callable[..., None], asked: list[object]) -> Callable[..., None]:
    def call(*arguments: Any) -> None:
        asked.append(arguments)
        function(*arguments)

    return call
