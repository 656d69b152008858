"""Agents as processes that learn, keep replicas, and are told to leave; the test coordinates."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.state.partition import PartitionState
from agent.state.restore import restore
from agent.state.snapshots import write_snapshot
from assignment.scripts import agent_side
from assignment.scripts.agent_side import SnapshotResult
from assignment.types import Drain, HeldState, Partition, ReplicaReport, Role
from tests.agent.conftest import AgentProcess, World, until


@pytest.fixture
def stateful(world: World) -> World:
    world.dashboard.configure(world.settings(stateful=True))
    return world


def append(world: World, number: int, events: int = 1) -> None:
    for _ in range(events):
        world.store.door.ask("XADD", f"{{s-{world.group}:{number}}}", "*", "event", "1")


def partition(world: World, number: int) -> Partition:
    return Partition(world.dashboard.settings.stream, number)


def replicas(world: World, member: str) -> dict[int, ReplicaReport]:
    report = world.read().reports.get(member)
    return {p.number: replica for p, replica in report.replicas.items()} if report else {}


def two(world: World, mine: set[int]) -> tuple[AgentProcess, str, AgentProcess, str]:
    """a owns these and has committed something in each, b owns nothing."""
    first, second = world.agent("a"), world.agent("b")
    one, other = world.member("a"), world.member("b")
    world.dashboard.assign({one: mine, other: []})
    world.until_running(one, mine)
    for number in mine:
        append(world, number, 3)
    until(lambda: len(world.read().offsets) == len(mine), "a first commit in each")
    return first, one, second, other


# --- learners and standbys ------------------------------------------------------------------------


def test_a_learner_says_ready_and_takes_over_from_a_warm_replica(stateful: World) -> None:
    first, one, second, other = two(stateful, {0, 1})
    fences = stateful.running(one)
    epoch = stateful.read().meta.group_epoch
    stateful.dashboard.assign({one: [0, 1]}, learning={other: [1]})
    moved = partition(stateful, 1)
    until(lambda: stateful.read().members[other].ready == {moved}, "ready")
    report = replicas(stateful, other)[1]
    assert (report.role, report.lag, report.percent) == (Role.LEARNER, 0, 100.0)
    assert stateful.read().meta.group_epoch == epoch + 2, "one for the test, one for the learner"
    assert stateful.running(one) == fences, "the owner went on"

    stateful.dashboard.assign({one: [0], other: [1]}, standby={one: [1]})
    stateful.until_running(other, {1})
    assert stateful.running(one) == {0: fences[0]}
    until(lambda: replicas(stateful, one).get(1), "the old owner goes on as standby")
    until(lambda: replicas(stateful, one)[1].ready, "and is at the end")
    report = replicas(stateful, one)[1]
    assert (report.role, report.lag, report.why) == (Role.STANDBY, 0, "")
    until(lambda: replicas(stateful, other) == {}, "the new owner says that it learns nothing")
    assert not first.events("lost") + second.events("lost")
    last = stateful.read().offsets[moved]
    append(stateful, 1)
    until(lambda: stateful.read().offsets[moved] > last, "the new owner goes on")


def test_an_unready_learner_that_becomes_owner_is_restoring_until_it_is_restored(
    stateful: World, tmp_path: Path
) -> None:
    """Its snapshot cannot be read for now, and there is no other way."""
    first, one, second, other = two(stateful, {0})
    zero = partition(stateful, 0)
    snapshot = only_a_snapshot_leads_there(stateful, one, zero, tmp_path)
    snapshot.rename(tmp_path / "away")
    stateful.dashboard.assign({one: [0]}, learning={other: [0]})
    until(lambda: 0 in replicas(stateful, other) and replicas(stateful, other)[0].why, "said")
    assert "neither changelog nor snapshots" in replicas(stateful, other)[0].why
    stateful.dashboard.assign({other: [0], one: []})
    until(lambda: zero in stateful.store.owned(other), "acquired")
    until(lambda: second.events("restore failed"), "tried")
    assert stateful.store.owned(other)[zero].state is HeldState.RESTORING
    assert not stateful.read().members[other].ready
    (tmp_path / "away").rename(snapshot)
    stateful.until_running(other, {0})
    assert not first.events("lost") + second.events("lost")


def only_a_snapshot_leads_there(world: World, owner: str, of: Partition, folder: Path) -> Path:
    """The owner's changelog is gone up to a snapshot of all that is committed."""
    state = PartitionState.open(folder / "mine", world.group, of)
    restore(world.store, state, of)
    fence = world.store.owned(owner)[of].fence
    record = write_snapshot(state, str(world.folder / "state" / "snapshots"), world.group, fence)
    state.close()
    assert world.store.run(agent_side.snapshot(of, record, trim=False)) is SnapshotResult.DONE
    world.store.door.ask("XTRIM", world.store.keys.changelog(of), "MAXLEN", 0)
    return Path(record.url)


def test_a_replica_goes_on_while_the_dashboard_is_away(stateful: World) -> None:
    _, one, second, other = two(stateful, {0})
    stateful.dashboard.stop()
    until(lambda: second.events("dashboard away"), "noticed")
    stateful.dashboard.assign({one: [0]}, standby={other: [0]})
    until(lambda: second.events("replica caught up"), "it follows the target in Redis")
    stateful.dashboard.start()
    until(lambda: replicas(stateful, other).get(0), "told when it is back")


# --- told to leave --------------------------------------------------------------------------------


def test_a_member_told_to_leave_goes_on_until_it_owns_nothing_and_ends_with_0(
    world: World,
) -> None:
    agent = world.agent("a")
    member = world.member("a")
    world.dashboard.assign({member: [0, 1]})
    fences = world.until_running(member, {0, 1})
    world.dashboard.mark(Drain.LEAVING, member)
    until(lambda: agent.events("told to leave"), "told")
    world.dashboard.assign({member: [1]})
    until(lambda: set(world.running(member)) == {1}, "one is gone")
    assert world.running(member) == {1: fences[1]}
    assert agent.process.poll() is None
    world.dashboard.assign({member: []})
    assert agent.exit_code() == 0
    read = world.read()
    assert not read.members and not read.locks
    assert {grant.ended for grant in read.grants.values()} == {"released"}
    assert not any(beat.leaving for beat in world.dashboard.beats)
    assert agent.events("leaving")[0]["why"] == "scale-down: it owns nothing any more"
    assert agent.events("consumer ended")[0]["code"] == 0


def test_a_member_whose_time_is_over_goes_at_once_and_ends_with_0(world: World) -> None:
    agent = world.agent("a")
    member = world.member("a")
    world.dashboard.assign({member: range(4)})
    world.until_running(member, {0, 1, 2, 3})
    world.dashboard.mark(Drain.FORCED, member)
    assert agent.exit_code() == 0
    assert {g.ended for g in world.read().grants.values()} == {"released"}
    assert not world.read().members
    assert agent.events("leaving")[0]["why"] == "scale-down: its time is over"


def test_told_to_leave_while_the_dashboard_is_away_it_hears_of_it_in_redis(world: World) -> None:
    agent = world.agent("a")
    member = world.member("a")
    world.dashboard.assign({member: [0]})
    world.until_running(member, {0})
    world.dashboard.stop()
    until(lambda: agent.events("dashboard away"), "noticed")
    world.dashboard.mark(Drain.LEAVING, member)
    until(lambda: agent.events("told to leave"), "told")
    world.dashboard.assign({member: []})
    assert agent.exit_code() == 0
    assert not world.read().locks


def told_to_leave(world: World) -> tuple[AgentProcess, str]:
    """One that runs a partition meanwhile, and its member id."""
    agent = world.agent("a")
    member = world.member("a")
    world.dashboard.assign({member: [0]})
    world.until_running(member, {0})
    world.dashboard.mark(Drain.LEAVING, member)
    until(lambda: agent.events("told to leave"), "told")
    return agent, member


def test_a_scale_down_that_was_cancelled_lets_it_stay(world: World) -> None:
    agent, member = told_to_leave(world)
    world.dashboard.mark(Drain.NONE, member)
    until(lambda: agent.events("told to stay"), "told")
    world.dashboard.assign({member: []})
    until(lambda: agent.events("released"), "released")
    world.dashboard.assign({member: [1]})
    world.until_running(member, {1})


@pytest.mark.slow
def test_a_signal_after_the_word_to_leave_waits_for_no_learner(world: World) -> None:
    agent, _ = told_to_leave(world)
    agent.send(signal.SIGTERM)
    assert agent.exit_code() == 0
    assert any(beat.leaving for beat in world.dashboard.beats)


# --- a full disk ----------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Two MiB. Only root may mount it: skipped for others, and a failure where CI is set."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        if os.environ.get("CI"):
            pytest.fail(f"no small disk: {getattr(error, 'stderr', b'') or error}")
        pytest.skip("a full disk is a small tmpfs here, and only root may mount one")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=False)


def test_a_full_disk_is_said_and_nothing_ends(stateful: World, small_disk: Path) -> None:
    first = stateful.agent("a")
    second = stateful.agent("b", "--state-dir", str(small_disk))
    one, other = stateful.member("a"), stateful.member("b")
    stateful.dashboard.assign({one: [0]})
    stateful.until_running(one, {0})
    until(lambda: second.events("able"), "able")
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * (2 * 2**20 - 2**16))
    append(stateful, 0, 3)
    stateful.dashboard.assign({one: [0]}, learning={other: [0]})
    why = until(lambda: 0 in replicas(stateful, other) and replicas(stateful, other)[0].why, "said")
    assert "no space left" in why
    assert not replicas(stateful, other)[0].ready
    ballast.unlink()
    until(lambda: replicas(stateful, other)[0].ready, "learned once there is room")
    assert replicas(stateful, other)[0].why == ""
    assert not first.events("lost") + second.events("lost")
