"""A ticker's processes for looks that take much CPU: real ones, on this test's database."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from assignment.scripts.group_read import Purpose
from dashboard.coordinator import lookers
from dashboard.coordinator.lookers import Lookers
from dashboard.live import groups as live_groups
from dashboard.live import health
from dashboard.models import Group
from tests.dashboard.agents import FakeAgent, until
from tests.dashboard.environments import own_environment

pytestmark = pytest.mark.django_db(transaction=True)
PROGRAM = """
import django
django.setup()
from dashboard.coordinator.lookers import Lookers
made = Lookers()
made.want({group!r})
input()
"""


@pytest.fixture
def at(
    store: Any, redis_url: str, group_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that are started here are of this test's dashboard."""
    for name, value in own_environment(redis_url, group_name, tmp_path).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def made(at: None) -> Iterator[Lookers]:
    one = Lookers()
    yield one
    one.close()
    until(lambda: not children())


@pytest.fixture
def busy(group: Group) -> Group:
    """Due at every tick: its member waits for a target."""
    FakeAgent(group, "a").start()
    return group


def children() -> list[psutil.Process]:
    return [one for one in psutil.Process().children() if is_looker(one)]


def is_looker(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return lookers.PROGRAM in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE
    return False


def ticked_ms(group: Group) -> int:
    return live_groups.read(group.name, Purpose.LOOK).meta.tick_ms


def looked(made: Lookers, group: Group) -> None:
    """Until it was looked at once more, and no look goes on."""
    before_ms = ticked_ms(group)

    def is_seen() -> bool:
        made.want(group.name)
        return ticked_ms(group) > before_ms

    until(is_seen, 30)
    until(lambda: not made._wanted)


def stopped_in_a_look(made: Lookers, group: Group) -> psutil.Process:
    """It does not move any more, and is asked for one."""
    [victim] = children()
    os.kill(victim.pid, signal.SIGSTOP)

    def is_asked() -> bool:
        made.want(group.name)
        return bool(made._busy)

    until(is_asked)
    return victim


def test_a_process_that_looks_is_started_once_and_looks_again(made: Lookers, busy: Group) -> None:
    looked(made, busy)
    [first] = children()
    looked(made, busy)
    assert children() == [first]
    made.close()
    until(lambda: not children())
    made.want(busy.name)  # nobody looks any more
    assert not made._wanted


@dataclass
class Held:
    """Looks that begin, and go on until told."""

    begun: list[str] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)

    def __call__(self, group: str) -> float:
        """Of all but `long` it is told that they took little."""
        self.begun.append(group)
        self.go_on.wait(20)
        return 60.0 if group == "long" else 0.05


@pytest.fixture
def held(made: Lookers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    looks = Held()
    monkeypatch.setattr(made, "_look", looks)
    yield looks
    looks.go_on.set()


def test_a_group_is_looked_at_once_at_a_time_and_its_looks_have_a_share(
    made: Lookers, held: Held
) -> None:
    for _ in range(3):
        made.want("a")
        made.want("long")
    until(lambda: sorted(held.begun) == ["a", "long"])
    before_s = time.monotonic()
    held.go_on.set()
    until(lambda: not made._wanted)
    pauses = {group: next_s - before_s for group, next_s in made._next_s.items()}
    assert 0.05 / lookers.SHARE <= pauses["a"] < lookers.PAUSE_MAX_S <= pauses["long"]
    made.want("long")
    assert len(held.begun) == 2
    until(lambda: time.monotonic() > made._next_s["a"])
    made.want("a")
    until(lambda: len(held.begun) == 3)
    until(lambda: not made._wanted)
    assert held.begun.count("long") == 1


def test_as_many_groups_as_there_are_lookers_are_looked_at_at_once(
    made: Lookers, held: Held
) -> None:
    for n in range(lookers.LOOKERS + 2):
        made.want(f"g{n}")
    until(lambda: len(held.begun) == lookers.LOOKERS)
    held.go_on.set()
    until(lambda: len(held.begun) == lookers.LOOKERS + 2)


def test_one_that_is_killed_in_its_look_is_told_and_another_one_begun(
    made: Lookers, busy: Group
) -> None:
    looked(made, busy)
    victim = stopped_in_a_look(made, busy)
    victim.kill()
    until(lambda: busy.name in health.look().failing_named)
    looked(made, busy)
    assert victim not in children()
    until(lambda: busy.name not in health.look().failing_named)


def test_one_that_hangs_is_killed(
    made: Lookers, busy: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked(made, busy)
    monkeypatch.setattr(lookers, "HUNG_S", 0.2)
    victim = stopped_in_a_look(made, busy)
    until(lambda: busy.name in health.look().failing_named)
    until(lambda: victim not in children())


def test_one_that_ended_in_between_is_not_asked(
    made: Lookers, busy: Group, caplog: pytest.LogCaptureFixture
) -> None:
    looked(made, busy)
    [first] = children()
    first.kill()
    until(lambda: not children())
    looked(made, busy)
    assert "its process ended" not in caplog.text


def test_where_no_process_can_be_started_the_ticker_looks(
    made: Lookers, busy: Group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lookers.sys, "executable", "/nowhere")
    looked(made, busy)
    assert not children()
    assert f"no process to look at group={busy.name}" in caplog.text


def test_only_their_ticker_ends_them(made: Lookers, busy: Group) -> None:
    """What ends a service asks all of its processes at once."""
    looked(made, busy)
    [first] = children()
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(first.pid, number)
    until(lambda: time.monotonic() > made._next_s[busy.name])
    looked(made, busy)
    assert children() == [first]


def test_they_end_with_their_ticker_however_it_ends(at: None, busy: Group) -> None:
    ticker = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(group=busy.name)], stdin=subprocess.PIPE
    )
    try:
        of = psutil.Process(ticker.pid)
        until(lambda: any(map(is_looker, of.children())), 30)
        [looker] = of.children()
    finally:
        ticker.kill()
        ticker.wait()
    until(lambda: not is_looker(looker), 30)
