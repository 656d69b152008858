"""`evenkeel-agent scale-down`: members of a group without a dashboard are told to leave."""

import os
import re
import signal
import subprocess
import sys

import pytest

from agent import scale_down
from assignment.scripts.dashboard_side import configure, set_drain, set_mode
from assignment.types import Coordination, Drain, Reason
from tests.agent.conftest import PATIENCE_S, ROOT, World, until
from tests.agent.test_client_coordination import client_group, ended, until_shared


@pytest.fixture
def world(world: World) -> World:
    """A stateful group whose agents coordinate."""
    world.store.door.ask("DEL", world.store.keys.meta)
    client_group(world, stateful=True)
    return world


def started(world: World, *options: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "agent", "scale-down", "--group", world.group]
    return subprocess.Popen(
        [*command, "--redis-url", world.redis_url, *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def answer(world: World, *options: str) -> tuple[int, str]:
    process = started(world, *options)
    said, _ = process.communicate(timeout=2 * PATIENCE_S)
    return process.returncode, said


def drains(world: World) -> dict[str, Drain]:
    return {m: row.drain for m, row in world.read().members.items()}


def test_members_leave_when_others_have_learned_what_they_own(world: World) -> None:
    agents = {"a": world.alone("a"), "b": world.alone("b")}
    a, b = world.member("a"), world.member("b")
    until_shared(world, a, b)
    held = {m: world.running(m) for m in (a, b)}
    code, said = answer(world, "--percent", "50")
    assert code == 0, said
    (gone,) = re.findall(r"2 members: 1 stay, told to leave: (\S+)", said)
    (stays,) = {a, b} - {gone}
    assert f"{gone}: clean" in said
    assert f"{gone} holds 2, " in said
    assert agents[gone[0]].exit_code() == 0
    assert list(world.read().members) == [stays]
    kept = world.until_running(stays, {0, 1, 2, 3})
    assert held[stays].items() <= kept.items(), "what it had keeps its fence"
    assert ended(world) == {None}


def test_a_member_is_named(world: World) -> None:
    world.alone("a")
    second = world.alone("b")
    a, b = world.member("a"), world.member("b")
    until_shared(world, a, b)
    assert answer(world, "--member", b, "--dry-run") == (
        0, f"2 members: 1 stay, would leave: {b}\n",
    )  # fmt: skip
    assert set(drains(world).values()) == {Drain.NONE}
    code, said = answer(world, "--member", b)
    assert code == 0, said
    assert second.exit_code() == 0
    world.until_running(a, {0, 1, 2, 3})


def test_ended_early_it_leaves_who_was_told_and_cancel_takes_it_back(world: World) -> None:
    """Nobody could take over from the only member."""
    world.alone("a")
    a = world.member("a")
    fences = world.until_running(a, {0, 1, 2, 3})
    process = started(world, "--member", a, "--force")
    until(lambda: drains(world)[a] is Drain.LEAVING, "told to leave")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert f"still told to leave: {a}" in said
    assert drains(world)[a] is Drain.LEAVING
    assert answer(world, "--cancel") == (0, f"told to stay: {a}\n")
    assert drains(world)[a] is Drain.NONE
    assert answer(world, "--cancel") == (0, "told to stay: nobody, none was leaving\n")
    assert world.running(a) == fences


def test_when_the_time_is_up_who_is_left_goes_at_once(world: World) -> None:
    agent = world.alone("a")
    a = world.member("a")
    world.until_running(a, {0, 1, 2, 3})
    code, said = answer(world, "--member", a, "--force", "--timeout", "1")
    assert (code, f"{a}: forced" in said) == (0, True), said
    assert agent.exit_code() == 0
    assert not world.read().members


def test_or_stays(world: World) -> None:
    world.alone("a")
    a = world.member("a")
    fences = world.until_running(a, {0, 1, 2, 3})
    how = ("--force", "--timeout", "1", "--abort-at-timeout")
    code, said = answer(world, "--member", a, *how)
    assert (code, f"{a}: cancelled" in said) == (3, True), said
    assert drains(world)[a] is Drain.NONE
    assert world.running(a) == fences


def test_what_somebody_else_takes_back_is_not_told_again(world: World) -> None:
    """As a dashboard does that has this group, and no record of the scale-down."""
    world.alone("a")
    a = world.member("a")
    world.until_running(a, {0, 1, 2, 3})
    process = started(world, "--member", a, "--force")
    assert process.stdout is not None
    until(lambda: "holds 4" in process.stdout.readline(), "seen to be leaving")
    version = world.read().meta.drain_version
    world.store.run(set_drain(Drain.NONE, [a], version))
    said, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, "somebody else took it back" in said) == (3, True), said
    assert drains(world)[a] is Drain.NONE


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        ((), 2, "neither a percentage nor members were given"),
        (("--percent", "0"), 2, "percent 0 is not within 1 and 100"),
        (("--percent", "some"), 2, "'some' is not a whole number"),
        (("--percent", "50", "--timeout", "-1"), 2, "timeout -1 is below 0"),
        (("--percent", "50", "--abort-at-timeout"), 2, "needs a --timeout"),
        (("--percent", "50", "--cancel"), 2, "--cancel takes everything back"),
        (("--percent", "50", "--soon"), 2, "--soon"),
        (("--percent", "50", "--redis-url", "redis://127.0.0.1:1"), 4, "127.0.0.1:1"),
        (("--percent", "50", "--group", "nobody"), 3, "group nobody is not in this Redis"),
        (("--percent", "50"), 3, "no live member"),
        (("--member", "x"), 3, "no live member"),
    ],
)
def test_what_cannot_be_is_refused_with_one_sentence(
    world: World,
    options: tuple[str, ...],
    code: int,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address = ("--group", world.group, "--redis-url", world.redis_url)
    found, said = scale_down.main([*address, *options]), capsys.readouterr().err
    assert (found, said.count("\n")) == (code, 1), said
    assert sentence in said


def test_who_is_there_decides_what_is_refused(world: World) -> None:
    world.alone("a")
    a = world.member("a")
    world.until_running(a, {0, 1, 2, 3})
    refused = {
        ("--member", "x"): "no such member: x",
        ("--member", a): "all members would leave: that must be forced",
    }
    for options, sentence in refused.items():
        assert answer(world, *options) == (3, f"evenkeel-agent: {sentence}\n")
    assert drains(world) == {a: Drain.NONE}


def test_a_group_of_a_dashboard_is_scaled_down_there(world: World) -> None:
    settings = world.settings(stateful=True)
    call = configure(settings, Reason.SETTINGS, rebalance_due=False, identity="of a dashboard")
    world.store.run(call)
    assert "no live member" in answer(world, "--percent", "50")[1]
    meta = world.read().meta
    world.store.run(set_mode(meta.mode, Coordination.SERVER, "ann", "a test"))
    code, said = answer(world, "--percent", "50")
    assert (code, "has a dashboard: scale it down there" in said) == (3, True)


def test_a_group_without_state_has_nothing_to_wait_for(world: World) -> None:
    settings = world.settings(stateful=False)
    world.store.run(configure(settings, Reason.SETTINGS, rebalance_due=False))
    assert answer(world, "--percent", "50")[0] == 3
