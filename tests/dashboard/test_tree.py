"""The supervised tree, with small programs in the place of the real ones."""

import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
import pytest

from dashboard.demo import logs, processes, tree
from dashboard.demo.embedded_redis import EmbeddedRedis, wheel_binary
from dashboard.demo.parts import RedisPart

ROOT = Path(__file__).resolve().parent.parent.parent
DEADLINE_S = 20.0
SLEEPS = "import time; time.sleep(600)"
IGNORES = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}"
# A parent with a child in a session of its own, as an agent has its consumer.
FAMILY = (
    "import subprocess, sys, time;"
    f"subprocess.Popen([sys.executable, '-c', {SLEEPS!r}], start_new_session=True);"
    "time.sleep(600)"
)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.02)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def grown(said: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[tree.Tree]:
    monkeypatch.delenv(processes.MARK, raising=False)
    monkeypatch.setattr(tree, "SWEEP_GRACE_S", 0.2)
    made = tree.Tree(said.append, mark=secrets.token_hex(8))
    yield made
    made.stop()
    assert processes.marked(made.mark) == []


def part(tmp_path: Path, code: str, name: str = "part", **options: object) -> tree.Process:
    return tree.Process(
        name=name,
        command=(sys.executable, "-c", code),
        log=tmp_path / "logs" / f"{name}.log",
        **options,  # type: ignore[arg-type]
    )


def test_parts_end_in_reverse_order(grown: tree.Tree, tmp_path: Path, said: list[str]) -> None:
    grown.start(part(tmp_path, SLEEPS, "first", layer=0))
    grown.start(part(tmp_path, SLEEPS, "second", layer=1))
    grown.stop()
    assert said[-2:] == ["stopping second", "stopping first"]


def test_children_in_other_sessions_end_too(grown: tree.Tree, tmp_path: Path) -> None:
    grown.start(part(tmp_path, FAMILY))
    wait_until(lambda: len(processes.marked(grown.mark)) == 2)
    grown.stop()
    assert processes.marked(grown.mark) == []


def test_part_that_ignores_sigterm_is_killed(grown: tree.Tree, tmp_path: Path) -> None:
    log = tmp_path / "up"
    stubborn = part(
        tmp_path, f"open({str(log)!r}, 'w'); {IGNORES}", stop_s=0.2, is_ready=log.exists
    )
    grown.start(stubborn)
    grown.stop()
    assert stubborn.exit_code() is None and stubborn.popen is None


def test_dead_part_is_restarted(grown: tree.Tree, tmp_path: Path, said: list[str]) -> None:
    dying = part(tmp_path, SLEEPS)
    grown.start(dying)
    first = dying.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: grown.turn() is None and dying.pid not in (None, first))
    assert re.fullmatch(r"part: restarting in 0\.\d s, for it ended with -9", said[-1])


FAILS = """
import sys
print("ERROR broker: no such thing: 17")
print(". maxinterval -> 1.00 second (1s)")
sys.exit(1)
"""


def test_only_what_is_essential_ends_the_tree_and_its_last_error_is_said(
    grown: tree.Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "RESTART_MIN_S", 0.001)
    dying = part(tmp_path, FAILS, is_ready=lambda: False)
    with pytest.raises(tree.TreeFailed, match=r"ended while starting: ERROR broker: no such thing"):
        grown.start(dying)
    wait_until(lambda: grown.turn() is None and grown.records["part"].deaths > tree.RESTARTS_MAX)
    dying.essential = True
    with pytest.raises(tree.TreeFailed, match=r"part died \d times.*: ERROR broker: no such thing"):
        grown.wait(lambda: False, DEADLINE_S, "it lived")


def test_each_death_in_a_row_doubles_the_pause_and_a_quiet_time_ends_the_row(
    grown: tree.Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = [tree.restart_pause_s(deaths) for deaths in range(1, 10)]
    assert all(0.5 * 2**n / 2 <= pause <= 0.5 * 2**n for n, pause in enumerate(pauses[:6]))
    assert max(pauses) <= tree.RESTART_MAX_S
    grown.start(part(tmp_path, "", is_ready=lambda: False), wait=False)
    wait_until(lambda: grown.turn() is None and grown.records["part"].deaths == 2)
    monkeypatch.setattr(tree, "QUIET_S", 0.0)
    wait_until(lambda: grown.turn() is None and grown.records["part"].deaths == 1)


@pytest.mark.parametrize("code", [SLEEPS, ""])
def test_a_log_is_bounded_while_its_writer_has_it_open_and_when_it_keeps_dying(
    grown: tree.Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr(logs, "BYTES_MAX", 100)
    monkeypatch.setattr(tree, "HEALTH_EVERY_S", 0.0)
    monkeypatch.setattr(tree, "RESTART_MIN_S", 600.0)
    chatter = part(tmp_path, f"print('x' * 200, flush=True); {code}")
    grown.start(chatter, wait=False)
    wait_until(lambda: grown.turn() is None and chatter.log.with_suffix(".log.1").exists())
    assert chatter.log.stat().st_size == 0
    assert chatter.log.with_suffix(".log.1").stat().st_size == 201


def test_part_that_may_end_is_done(grown: tree.Tree, tmp_path: Path, said: list[str]) -> None:
    ending = part(tmp_path, "print('all is sent')", may_end=tree.without_error)
    grown.start(ending)
    wait_until(lambda: grown.turn() is None and ending not in grown.parts)
    assert said[-1].startswith("part: done: all is sent (log: ")


def test_part_whose_end_is_not_judged_yet_is_asked_again(
    grown: tree.Tree, tmp_path: Path, said: list[str]
) -> None:
    answers: list[bool | None] = [None]
    ended = part(tmp_path, "print('nothing is left')", may_end=lambda code: answers[0])
    grown.start(ended, wait=False)
    wait_until(lambda: grown.turn() is None and ended.exit_code() == 0)
    grown.turn()
    assert grown.parts == [ended] and said == ["part: starting"]
    answers[0] = True
    grown.turn()
    assert grown.parts == []
    assert said[-1].startswith("part: done: nothing is left (log: ")


def test_part_that_may_not_end_is_restarted(
    grown: tree.Tree, tmp_path: Path, said: list[str]
) -> None:
    ended = part(tmp_path, "", may_end=lambda code: False)
    grown.start(ended, wait=False)
    wait_until(lambda: grown.turn() is None and len(said) > 1)
    assert re.fullmatch(r"part: restarting in 0\.\d s, for it ended with 0", said[-1])


def test_part_that_ends_while_it_is_waited_for_is_judged(
    grown: tree.Tree, tmp_path: Path, said: list[str]
) -> None:
    answers: list[bool | None] = [None] * 3 + [True] * 3
    grown.start(
        part(tmp_path, "", is_ready=lambda: False, may_end=lambda code: answers.pop(0)),
    )
    assert said[-1].startswith("part: ready after")


def test_part_that_does_not_answer_is_restarted(
    grown: tree.Tree, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "HEALTH_EVERY_S", 0.0)
    grown.start(part(tmp_path, SLEEPS, is_healthy=lambda: False))
    wait_until(lambda: grown.turn() is None and "does not answer" in said[-1])


def test_part_that_is_never_ready_names_itself(grown: tree.Tree, tmp_path: Path) -> None:
    with pytest.raises(tree.TreeFailed, match="part was not ready within 0 s"):
        grown.start(part(tmp_path, SLEEPS, is_ready=lambda: False, ready_s=0.0))


def test_watchdog_is_watched(grown: tree.Tree, said: list[str]) -> None:
    first = grown.watchdog
    first.kill()
    wait_until(lambda: grown.turn() is None and grown.watchdog is not first)
    assert said == ["watchdog: ended, restarting"]
    assert grown.watchdog.pid not in [process.pid for process in processes.marked(grown.mark)]


def test_what_a_tree_and_its_watchdog_left_is_ended_by_the_next_one(
    grown: tree.Tree, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "ORPHANS_GRACE_S", 0.2)
    server = EmbeddedRedis(tmp_path / "redis", binary=wheel_binary())
    grown.start(RedisPart(server))
    first, url = server.pid, server.url
    assert [process.pid for process in processes.marked(grown.mark)] == [first]
    grown.watchdog.kill()  # the first tree is not asked anything any more
    following = tree.Tree(said.append, grown.mark)
    assert said[-1] == "ending what an earlier start left behind"
    wait_until(lambda: server.pid is None)
    following.start(RedisPart(EmbeddedRedis(tmp_path / "redis", binary=wheel_binary())))
    assert following.parts[0].server.url == url  # type: ignore[attr-defined]
    following.stop()


def test_killed_supervisor_leaves_nothing(tmp_path: Path) -> None:
    """The watchdog's work: neither the tree nor what its parts started outlives a SIGKILL."""
    code = f"""
import sys
from pathlib import Path
from dashboard.demo import tree
tree.ORPHANS_GRACE_S = 0.2
grown = tree.Tree(lambda line: None, "{secrets.token_hex(8)}")
grown.start(tree.Process(name="part", command=(sys.executable, "-c", {FAMILY!r}),
                         log=Path({str(tmp_path / "log")!r})))
print(grown.mark, grown.watchdog.pid, flush=True)
while True:
    grown.turn()
"""
    supervisor = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert supervisor.stdout is not None
    mark, watchdog = supervisor.stdout.readline().split()
    wait_until(lambda: len(processes.marked(mark)) == 2)
    supervisor.kill()
    supervisor.wait()
    supervisor.stdout.close()
    wait_until(lambda: not processes.marked(mark) and not psutil.pid_exists(int(watchdog)))


@contextmanager
def after_instructions(number: int, act: Callable[[], None]) -> Iterator[list[int]]:
    """Acts before that instruction of what runs within; what is given has an entry for each."""
    ran: list[int] = []

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        frame.f_trace_opcodes = True
        ran.append(frame.f_lineno)
        if len(ran) == number:
            act()
        return trace

    sys.settrace(trace)
    try:
        yield ran
    finally:
        sys.settrace(None)


def test_a_signal_may_come_at_any_moment_of_a_turn(
    grown: tree.Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while it waits for nothing but time: an Event's lock was held there."""
    monkeypatch.setattr(tree, "POLL_S", 0.0)
    for number in count(1):
        grown.stopping = False
        with suppress(tree.Stopped), after_instructions(number, grown._on_signal) as ran:
            grown.turn()
        if len(ran) < number:
            break
    assert number > 50
