"""Agents that coordinate themselves: Redis, agents and their consumers, nothing else."""

import signal
from itertools import chain

import pytest

from assignment.scripts.dashboard_side import configure, set_incarnation, set_mode
from assignment.types import Coordination, Epoch, Reason
from tests.agent.conftest import World, until


@pytest.fixture
def world(world: World) -> World:
    """Redis does not have the group."""
    world.store.door.ask("DEL", world.store.keys.meta)
    return world


def client_group(world: World, **settings: object) -> None:
    """With quick timings, which no flag says."""
    call = configure(
        world.settings(**settings),
        Reason.SETTINGS,
        rebalance_due=False,
        coordination=Coordination.CLIENT,
    )
    world.store.run(call)


def ended(world: World) -> set[str | None]:
    return {grant.ended for grant in world.read().grants.values()}


def owned(world: World, *members: str) -> list[list[int]]:
    return [sorted(world.running(member)) for member in members]


def until_shared(world: World, *members: str) -> list[list[int]]:
    """Every partition runs, and nobody has more than one more than another."""

    def fair() -> bool:
        counts = [len(numbers) for numbers in owned(world, *members)]
        return sum(counts) == 4 and max(counts) - min(counts) <= 1

    until(fair, f"{members} share all partitions")
    return owned(world, *members)


def test_agents_alone_share_the_partitions_and_one_takes_over(world: World) -> None:
    client_group(world)
    first = world.alone("a")
    a = world.member("a")
    world.until_running(a, {0, 1, 2, 3})
    second = world.alone("b")
    b = world.member("b")
    before = until_shared(world, a, b)
    assert sorted(chain(*before)) == [0, 1, 2, 3]
    assert not first.events("lost") + second.events("lost")

    first.process.kill()
    world.until_running(b, {0, 1, 2, 3})
    assert list(world.read().members) == [b]
    second.send(signal.SIGTERM)
    assert second.exit_code() == 0
    assert not world.read().members


def test_one_of_them_computes_for_all(world: World) -> None:
    client_group(world)
    first, a = world.alone("a"), world.member("a")
    second, b = world.alone("b"), world.member("b")
    until_shared(world, a, b)
    assert first.events("coordinates") and first.events("rebalance")
    assert not second.events("coordinates") + second.events("rebalance")
    first.send(signal.SIGTERM)
    assert first.exit_code() == 0
    world.until_running(b, {0, 1, 2, 3})
    until(lambda: bool(second.events("coordinates")), "the other one computes")
    assert "expired" not in ended(world)


def test_a_group_is_made_by_the_first_agent_and_as_its_flags_say(world: World) -> None:
    stream = ("--stream", f"s-{world.group}", "--partitions", "4")
    agent = world.alone("a", *stream)
    member = world.member("a")
    meta = world.read().meta
    assert meta.settings is not None
    assert (meta.coordination, meta.settings.partitions) == (Coordination.CLIENT, 4)
    world.until_running(member, {0, 1, 2, 3})
    agent.send(signal.SIGTERM)
    assert agent.exit_code() == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--partitions", "5"), "--partitions 5 was given, and it is 4"),
        (("--stateful",), "--stateful True was given, and it is False"),
        (("--strategy", "averagely"), "--strategy averagely was given, and it is sticky"),
    ],
)
def test_flags_that_contradict_the_group_are_refused(
    world: World, options: tuple[str, ...], sentence: str
) -> None:
    client_group(world)
    agent = world.alone("a", *options)
    assert agent.exit_code() == 3
    assert sentence in agent.log.read_text()


def test_an_agent_that_is_started_again_after_a_switch_joins_with_its_old_flags(
    world: World,
) -> None:
    client_group(world, strategy="sticky")
    world.store.run(set_incarnation(1))
    assert world.store.run(set_mode(Epoch(1, 1), Coordination.SERVER, "ann", "test")).done
    agent = world.alone("a")
    world.member("a", able=False)
    [said] = agent.events("the group was changed since, and counts")
    assert said["flags"] == "--coordination client was given, and it is server"


def test_a_group_that_is_missing_needs_stream_and_partitions(world: World) -> None:
    agent = world.alone("a", "--partitions", "4")
    assert agent.exit_code() == 2
    assert "to make it, give --stream" in agent.log.read_text()
