"""A thread that loads modules lets the agent's loop go first."""

import importlib
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent.coordination import loading
from agent.coordination.loading import giving_way
from agent.loop import Agent

WAIT_S = 10.0


class Rests(threading.Event):
    """Tells when somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.wanted.set()
        return super().wait(timeout)


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that nobody has loaded."""
    (tmp_path / "some_rules.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "some_rules", raising=False)
    return "some_rules"


def load(rests: threading.Event, name: str) -> threading.Thread:
    def run() -> None:
        with giving_way(rests):
            importlib.import_module(name)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_a_module_is_loaded_once_the_loop_rests(
    rules: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "GIVE_WAY_S", WAIT_S)
    rests = Rests()
    thread = load(rests, rules)
    assert rests.wanted.wait(WAIT_S)
    assert rules not in sys.modules
    rests.set()
    thread.join(WAIT_S)
    assert rules in sys.modules
    assert not any(isinstance(finder, loading.GivesWay) for finder in sys.meta_path)


def test_a_loop_that_never_rests_is_waited_for_only_so_long_in_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited_s: list[float] = []
    monkeypatch.setattr(loading, "monotonic", lambda: sum(waited_s))
    at_work = SimpleNamespace(wait=lambda timeout: waited_s.append(min(timeout, 1.5)))
    finder = loading.GivesWay(at_work)  # type: ignore[arg-type]
    for _ in range(3):
        assert finder.find_spec("numpy", None) is None
    assert waited_s == [1.5, 0.5, 0.0]


def test_the_loop_itself_waits_for_nobody(rules: str) -> None:
    rests = Rests()
    finder: list[loading.GivesWay] = []
    thread = threading.Thread(target=lambda: finder.append(loading.GivesWay(rests)))
    thread.start()
    thread.join(WAIT_S)
    assert finder[0].find_spec(rules, None) is None and not rests.wanted.is_set()


def test_the_loop_rests_while_it_waits_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Agent, "wait_ms", lambda _: 0)
    rested: list[bool] = []
    agent: Agent
    inbox = SimpleNamespace(get=lambda timeout: rested.append(agent.rests.is_set()))
    others = ("control", "membership", "session", "consumer", "clock", "note")
    agent = Agent(**dict.fromkeys(others, None), inbox=inbox)  # type: ignore[arg-type]
    agent._next_event()
    assert rested == [True]
    assert not agent.rests.is_set()
