"""One agent process beside one consumer process, against a real Redis."""

import os
import signal
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent.dashboard_session.route import GO_BACK_BEATS
from agent.store.door import RedisDoor, pairs
from dashboard.demo.embedded_redis import EmbeddedRedis
from tests.agent.conftest import AgentProcess, World, until
from tests.agent.tiny_dashboard import TinyDashboard


def started(world: World, numbers: range = range(4), **environ: str) -> tuple[AgentProcess, str]:
    agent = world.agent(**environ)
    member = world.member()
    world.dashboard.assign({member: numbers})
    world.until_running(member, set(numbers))
    return agent, member


def append(world: World, number: int) -> None:
    world.store.door.ask("XADD", f"{{s-{world.group}:{number}}}", "*", "event", "1")


def ended(world: World) -> set[str | None]:
    return {grant.ended for grant in world.read().grants.values()}


def test_an_agent_joins_acquires_runs_and_releases_on_sigterm(world: World) -> None:
    agent, member = started(world)
    fences = world.running(member)
    until(lambda: any(len(b.owned) == 4 for b in world.dashboard.beats), "reported")
    agent.send(signal.SIGTERM)
    assert agent.exit_code() == 0
    read = world.read()
    assert not read.members
    assert not read.locks
    assert ended(world) == {"released"}
    assert {p.number: g.fence for p, g in read.grants.items()} == fences
    assert any(beat.leaving for beat in world.dashboard.beats)


@pytest.mark.slow
def test_what_is_in_both_assignments_keeps_its_fence(world: World) -> None:
    agent, member = started(world)
    before = world.running(member)
    world.dashboard.assign({member: [1, 2]})
    until(lambda: len(agent.events("released")) == 2, "released")
    world.dashboard.assign({member: [1, 2, 3]})
    after = world.until_running(member, {1, 2, 3})
    assert {n: after[n] for n in (1, 2)} == {n: before[n] for n in (1, 2)}
    assert after[3] > before[3]


def test_a_partition_goes_over_without_an_expired_lease(world: World) -> None:
    first, member = started(world)
    second = world.agent("b")
    other = world.member("b")
    world.dashboard.assign({member: [0, 1], other: [2, 3]})
    world.until_running(other, {2, 3})
    assert world.running(member).keys() == {0, 1}
    assert ended(world) == {None}
    assert not first.events("lost") + second.events("lost")
    revoked = [e for e in first.events("released") if e["why"] == "revoked: batch finished"]
    assert len(revoked) == 2


def test_a_batch_in_hand_is_committed_before_the_release(world: World, tmp_path: Path) -> None:
    """The consumer is inside a batch while its partition is revoked."""
    agent, member = started(world, range(1), TINY_BATCH_MS="400")
    for _ in range(3):
        append(world, 0)
    until(lambda: world.read().applied, "a first commit")
    append(world, 0)
    world.dashboard.assign({member: []})
    until(lambda: agent.events("released"), "released")
    assert agent.events("released")[0]["why"] == "revoked: batch finished"
    assert world.read().meta.refused_commits == 0


@pytest.mark.slow
def test_at_the_end_of_the_grace_a_hanging_consumer_is_not_waited_for(
    world: World, tmp_path: Path
) -> None:
    hang = tmp_path / "hang"
    world.dashboard.configure(world.settings(consumer_stall_ms=60_000))
    agent, member = started(world, range(2), TINY_HANG_FILE=str(hang))
    hang.touch()
    world.dashboard.assign({member: [0]})
    until(lambda: agent.events("released"), "released")
    assert agent.events("released")[0]["why"] == "revoked: the grace is over"
    assert not agent.events("lost")
    hang.unlink()


@pytest.mark.slow
def test_given_back_while_draining_it_runs_on_with_its_fence(world: World, tmp_path: Path) -> None:
    hang = tmp_path / "hang"
    world.dashboard.configure(world.settings(consumer_stall_ms=60_000, grace_ms=20_000))
    agent, member = started(world, range(2), TINY_HANG_FILE=str(hang))
    fences = world.running(member)
    hang.touch()
    until((tmp_path / "hang.seen").exists, "a batch hangs, so nothing becomes revoked")
    world.dashboard.assign({member: [0]})
    until(lambda: agent.events("revoking"), "revoking")
    world.dashboard.assign({member: [0, 1]})
    assert world.until_running(member, {0, 1}) == fences
    hang.unlink()
    assert not agent.events("released")


def test_a_member_waits_for_an_owner_as_long_as_it_takes(world: World) -> None:
    """The owner holds its lock and hears of nothing: the other says for whom it waits."""
    first, member = started(world, range(1))
    second = world.agent("b")
    other = world.member("b")
    first.send(signal.SIGSTOP)
    world.dashboard.assign({other: [0], member: []})
    world.until_running(other, {0})
    assert second.events("waiting")[0]["why"] == f"waiting for {member}"
    first.send(signal.SIGCONT)


def test_a_suspended_member_drops_everything_and_joins_anew(world: World) -> None:
    first, member = started(world, range(2))
    world.agent("b")
    other = world.member("b")
    group = os.getpgid(first.consumer_pid)
    os.killpg(group, signal.SIGSTOP)
    first.send(signal.SIGSTOP)
    world.dashboard.evict(member)
    world.dashboard.assign({other: [0, 1]})
    theirs = world.until_running(other, {0, 1})
    first.send(signal.SIGCONT)
    os.killpg(group, signal.SIGCONT)
    assert world.member("a") == member
    until(lambda: len(first.events("joined")) == 2, "joined anew")
    assert len(first.events("lost")) == 2
    assert world.running(member) == {}
    assert world.running(other) == theirs
    assert len(first.events("consumer started")) == 1


def test_a_killed_consumer_is_started_again_and_the_member_is_not_able_meanwhile(
    world: World,
) -> None:
    agent, member = started(world)
    fences = world.running(member)
    os.killpg(os.getpgid(agent.consumer_pid), signal.SIGKILL)
    until(lambda: len(agent.events("consumer started")) == 2, "started again")
    until(lambda: len(agent.events("able")) == 2, "able again")
    why = [e["why"] for e in agent.events("unable")]
    told = [one for one, _ in groupby(why)]  # it hangs up before its end is taken, or not
    assert told == ["consumer starting", "consumer dead", "consumer starting"]
    assert world.running(member) == fences  # nobody took them away


def test_a_consumer_that_ends_by_its_own_fault_leaves_the_batch_in_hand_as_suspects(
    world: World,
) -> None:
    agent = world.agent("a", TINY_CRASHES="1")
    world.dashboard.assign({world.member("a", able=False): [0, 1]})
    until(lambda: agent.events("crash with a batch in hand"), "it is told")
    assert agent.events("crash with a batch in hand")[0]["why"] == "the consumer ended with code 13"
    suspects = world.store.door.ask("HGETALL", world.store.keys.suspects)
    assert dict(pairs(suspects)).keys() <= {f"s-{world.group}:{n}".encode() for n in (0, 1)}
    assert suspects


@pytest.mark.slow
def test_what_a_dead_consumer_held_is_released_at_once(world: World) -> None:
    agent, member = started(world, TINY_BATCH_MS="10")
    os.killpg(os.getpgid(agent.consumer_pid), signal.SIGKILL)
    until(lambda: not world.read().members[member].able, "unable")
    world.dashboard.assign({member: []})
    until(lambda: len(agent.events("released")) == 4, "released")
    assert {e["why"] for e in agent.events("released")} <= {
        "revoked: its consumer is dead",
        "revoked: batch finished",
    }


def test_a_consumer_whose_agent_is_killed_ends_itself(world: World) -> None:
    agent, _ = started(world)
    consumer = psutil.Process(agent.consumer_pid)
    agent.process.kill()
    until(lambda: not consumer.is_running() or consumer.status() == psutil.STATUS_ZOMBIE, "gone")


def test_a_stalled_consumer_is_restarted_and_able_again(world: World, tmp_path: Path) -> None:
    hang = tmp_path / "hang"
    agent, _ = started(world, range(1), TINY_HANG_FILE=str(hang))
    hang.touch()
    append(world, 0)
    until(lambda: agent.events("consumer restarted"), "stalled")
    hang.unlink()
    until(lambda: len(agent.events("able")) == 2, "able again")
    assert "no batch finished" in agent.events("consumer restarted")[0]["why"]
    until(lambda: world.read().applied, "the event is processed")


@pytest.mark.slow
def test_an_idle_consumer_does_not_stall(world: World) -> None:
    agent, _ = started(world, range(1))
    append(world, 0)
    beats = len(world.dashboard.beats)
    until(lambda: len(world.dashboard.beats) > beats + 8, "eight quiet beats")
    assert not agent.events("consumer restarted")


def test_while_the_dashboard_is_away_nothing_stops_and_redis_is_followed(world: World) -> None:
    agent, member = started(world)
    fences = world.running(member)
    world.dashboard.stop()
    until(lambda: agent.events("dashboard away"), "noticed")
    world.dashboard.assign({member: [0, 1]})
    until(lambda: set(world.running(member)) == {0, 1}, "followed the target in Redis")
    world.dashboard.start()
    until(lambda: agent.events("dashboard back"), "back")
    assert world.running(member) == {n: fences[n] for n in (0, 1)}
    assert len(agent.events("joined")) == 1
    assert not agent.events("lost")


@pytest.mark.slow
def test_a_slow_dashboard_delays_no_renew(world: World) -> None:
    agent, member = started(world)
    fences = world.running(member)
    world.dashboard.answers.clear()
    until(lambda: agent.events("dashboard away"), "a request timed out")  # after two leases
    world.dashboard.answers.set()
    assert world.running(member) == fences
    assert not agent.events("lost")


@pytest.mark.slow
def test_the_first_dashboard_that_answers_is_used_and_gone_back_to_after_ten_beats(
    world: World,
) -> None:
    first, second = world.dashboard, TinyDashboard(world.store, world.dashboard.settings)
    agent = world.agent("a", "--dashboard", f"{first.url},{second.url}")
    world.member()
    assert not second.beats
    first.stop()
    until(lambda: second.beats, "the second is asked")
    assert not agent.events("dashboard away")
    first.start()
    heard_first, heard_second = len(first.beats), len(second.beats)

    def told_first_alone() -> bool:
        news = first.beats[heard_first:]
        return bool(news) and news[-1].sequence > second.beats[-1].sequence

    until(told_first_alone, "it goes back")
    assert len(second.beats) - heard_second >= GO_BACK_BEATS - 1  # one came while it started
    second.stop()


def test_a_fenced_member_joins_anew_with_the_same_id(world: World) -> None:
    agent, member = started(world)
    before = world.running(member)
    world.dashboard.evict(member)
    assert world.member() == member
    world.dashboard.assign({member: range(4)})
    after = world.until_running(member, {0, 1, 2, 3})
    assert all(after[n] > before[n] for n in before)
    assert len(agent.events("lost")) == 4
    assert len({beat.secret for beat in world.dashboard.beats}) == 1


def test_a_second_sigterm_waits_for_nothing(world: World, tmp_path: Path) -> None:
    hang = tmp_path / "hang"
    world.dashboard.configure(
        world.settings(grace_ms=60_000, consumer_stall_ms=60_000),
    )
    agent, _ = started(world, TINY_HANG_FILE=str(hang))
    hang.touch()
    agent.send(signal.SIGTERM)
    until(lambda: agent.events("leaving"), "leaving")
    agent.send(signal.SIGTERM)
    assert agent.exit_code() == 5
    assert ended(world) == {"released"}
    assert not world.read().members


@pytest.mark.slow
def test_a_consumer_that_does_not_end_is_killed_within_the_grace(
    world: World, tmp_path: Path
) -> None:
    hang = tmp_path / "hang"
    world.dashboard.configure(world.settings(consumer_stall_ms=60_000))
    agent, _ = started(world, TINY_HANG_FILE=str(hang))
    hang.touch()
    until((tmp_path / "hang.seen").exists, "it hangs")
    agent.send(signal.SIGTERM)
    assert agent.exit_code() == 0
    assert agent.events("consumer killed")[0]["why"] == "the grace is over"
    assert ended(world) == {"released"}


def test_more_members_than_partitions_is_said_and_no_error(world: World) -> None:
    world.dashboard.configure(world.settings(partitions=1))
    world.agent("a")
    second = world.agent("b")
    first_id, second_id = world.member("a"), world.member("b")
    world.dashboard.assign({first_id: [0], second_id: []})
    until(lambda: second.events("idle: 1 partitions, 2 members"), "idle")


@pytest.mark.slow
def test_new_settings_reach_the_agent(world: World) -> None:
    started(world)
    world.dashboard.configure(world.settings(heartbeat_ms=100))
    epoch = world.read().meta.settings_epoch
    until(lambda: world.dashboard.beats[-1].settings_epoch == epoch, "settings taken")


def test_an_attached_consumer_is_steered_and_let_go(world: World, tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    agent = world.agent("a", "--attach", "--socket", str(path))
    until(path.exists, "the socket")
    consumer = subprocess.Popen(
        [sys.executable, "-m", "tests.agent.tiny_consumer"],
        env={**os.environ, "EVENKEEL_AGENT_SOCKET": str(path)},
    )
    member = world.member()
    world.dashboard.assign({member: range(2)})
    world.until_running(member, {0, 1})
    agent.send(signal.SIGTERM)
    assert agent.exit_code() == 0
    assert consumer.wait(10) == 0
    assert {e["why"] for e in agent.events("released")} == {"leaving: batch finished"}


@pytest.mark.parametrize("kill", [False, True])
def test_redis_goes_away_and_comes_back(
    tmp_path: Path, own_redis: EmbeddedRedis, group_name: str, kill: bool
) -> None:
    world = World(tmp_path, own_redis.url, group_name)
    try:
        agent, member = started(world)
        own_redis.kill() if kill else own_redis.stop()
        until(lambda: agent.events("Redis away"), "noticed")
        own_redis.start()
        until(lambda: agent.events("Redis back"), "back")
        assert ready(world)
        world.dashboard.set_incarnation(2)
        if not world.read().members:
            until(lambda: len(agent.events("joined")) == 2, "joined anew")
        world.dashboard.assign({member: range(4)})
        world.until_running(member, {0, 1, 2, 3})
        assert agent.process.poll() is None
    finally:
        world.close()


def ready(world: World) -> Any:
    return until(
        lambda: RedisDoor(world.redis_url).is_appendonly() is not None,
        "Redis",
    )
