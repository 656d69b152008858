"""Whoever listens for hints goes on, whatever the server answers."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from agent.hints import Hinted, HintListener
from agent.store.group import GroupStore, Hints
from assignment.member import pacing
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


def test_who_hears_what_all_were_told_acts_when_its_turn_is(
    group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever computes for the others acts at once."""
    waits: list[float] = []
    store = GroupStore(FakeDoor(FakeRedis()), group_name)
    told = iter([(9_000, "target"), (0, "drain")])

    def heard_next(after: Any, _: int) -> Hints:
        members, reason = next(told, (0, ""))
        return Hints(after, frozenset({reason} - {""}), members)

    monkeypatch.setattr(store, "wait_hints", heard_next)
    heard: list[Any] = []
    listener = HintListener(store, "a", heard.append, heard.append)
    monkeypatch.setattr(listener._closed, "wait", waits.append)
    thread = threading.Thread(target=listener._listen)
    thread.start()
    until(lambda: len(heard) >= 5)
    listener.close()
    thread.join()
    assert heard[1:] == [
        frozenset({"target"}), Hinted(frozenset({"target"})),
        frozenset({"drain"}), Hinted(frozenset({"drain"})),
    ]  # fmt: skip
    assert waits[:2] == [pacing.called_ms(9_000, pacing.phase_of("a")) / 1e3, 0.0]
    assert waits[0] > 0
