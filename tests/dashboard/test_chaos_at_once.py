"""Two coordinators that compute at once: they really do, and one target at most is stored."""

import random
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from assignment.scripts.dashboard_side import request_rebalance
from assignment.types import Reason
from dashboard import coordinator
from dashboard.demo.tree import TreeFailed
from dashboard.evaluation.chaos import at_once
from dashboard.evaluation.chaos.at_once import Meeting, compute
from dashboard.evaluation.chaos.on_members import BOTH
from dashboard.evaluation.chaos.strikes import KNOWN, Strike
from dashboard.evaluation.chaos.world import World
from dashboard.live.scripts import run
from dashboard.models import Group, Rebalance
from tests.dashboard.agents import FakeAgent


@pytest.mark.django_db
def test_of_two_that_computed_before_either_stored_one_stores(
    group: Group, agent: FakeAgent
) -> None:
    agent.start()
    run(request_rebalance(Reason.MANUAL), group.name)
    second: list[bool | None] = []
    first = compute(group, lambda: second.append(compute(group, lambda: None)))
    assert (first, second) == (False, [True])
    assert Rebalance.objects.count() == 1
    assert compute(group, lambda: pytest.fail("nothing is due")) is None


@pytest.mark.django_db
def test_the_first_has_the_groups_run_meanwhile(group: Group) -> None:
    with at_once.having_run(group.name):
        assert coordinator.rebalance(group.name) == "another run has it"
    assert coordinator.rebalance(group.name) != "another run has it"


def test_one_waits_until_the_other_has_got_there(tmp_path: Path) -> None:
    first, second = (Meeting(tmp_path, me) for me in BOTH)
    thread = threading.Thread(target=second.wait, args=("computed", "ended"))
    second.note("computed")
    thread.start()
    thread.join(0.1)
    assert thread.is_alive(), "its own note is not the other one's"
    first.note("ended")
    thread.join(10)
    assert not thread.is_alive() and second.others() == {"ended"}


def struck_with(answers: Sequence[dict[str, bool]], folder: Path) -> Strike:
    world = SimpleNamespace(folder=folder, ask_together=lambda act, *each: list(answers))
    one = Strike(name="double-rebalance", world=cast(World, world), dice=random.Random(1))
    with KNOWN["double-rebalance"](one):
        pass
    return one


@pytest.mark.parametrize(
    ("met", "stored", "worked", "wrong"),
    [
        ((True, True), (True, False), True, 0),
        ((True, True), (False, False), True, 0),
        ((True, True), (True, True), True, 1),
        ((False, False), (False, False), False, 0),
    ],
)
def test_only_two_that_met_have_shown_something(
    met: Sequence[bool], stored: Sequence[bool], worked: bool, wrong: int, tmp_path: Path
) -> None:
    answers = [{"met": m, "stored": s} for m, s in zip(met, stored, strict=True)]
    one = struck_with(answers, tmp_path)
    assert (one.worked, len(one.wrong)) == (worked, wrong)


def asking(program: str, happens: Callable[..., Any]) -> tuple[World, list[Any]]:
    begun: list[Any] = []

    def begin(act: str, *arguments: str, answer: int) -> Any:
        command = [sys.executable, "-c", program, *arguments]
        begun.append(subprocess.Popen(command, stdout=answer, stderr=answer))
        return begun[-1]

    return cast(World, SimpleNamespace(begin=begin, wait=happens)), begun


def ended(condition: Callable[[], bool], seconds: float, failed: str) -> None:
    waiting = threading.Event()
    while not condition():
        waiting.wait(0.01)


def test_both_are_heard(tmp_path: Path) -> None:
    world, _ = asking("import sys; print('noise'); print(sys.argv[1])", ended)
    assert World.ask_together(world, "act", ["1"], ["2"]) == [1, 2]
    world, _ = asking("import sys; sys.exit(f'broken {sys.argv[1]}')", ended)
    with pytest.raises(TreeFailed, match="act ended with 1: broken 1"):
        World.ask_together(world, "act", ["1"], ["2"])


def test_none_is_left_when_they_are_not_waited_for_any_longer() -> None:
    def too_long(*_: Any) -> None:
        raise TreeFailed("act was not done within 120 s")

    world, begun = asking("import time; time.sleep(600)", too_long)
    with pytest.raises(TreeFailed, match="was not done"):
        World.ask_together(world, "act", ["1"], ["2"])
    assert [process.returncode for process in begun] == [-9, -9]
