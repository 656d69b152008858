"""Faults of membership, and what people plan: who comes, who goes, other rules."""

import time
from collections.abc import Iterable, Iterator, Sequence

from assignment import strategies
from dashboard.evaluation.chaos.strikes import Strike, fault

LEAVE_S = 30.0
DRAIN_S = 120.0
COME_S = 300.0  # a consumer with Spark
FLAPS = 3
BOTH = ("first", "second")  # see at_once
BY_POSITION = [n for n, kind in strategies.KINDS.items() if kind.is_even and not kind.keeps]


def leave(one: Strike, names: Sequence[str]) -> None:
    """SIGTERM, and wait for its end."""
    world = one.world
    world.struck.update(names)
    for name in names:
        world.agents[name].part.ask_to_end()
    wait_ended(one, names, LEAVE_S)


def wait_ended(one: Strike, names: Iterable[str], seconds: float) -> None:
    agents = [one.world.agents[name] for name in names]
    one.world.wait(
        lambda: all(agent.part.exit_code() is not None for agent in agents),
        seconds,
        f"{', '.join(agent.name for agent in agents)} did not leave",
    )


def come(one: Strike, names: Sequence[str]) -> None:
    one.world.start_agents(names)
    one.world.wait_able(names)


def until_they_come(one: Strike) -> Iterator[None]:
    """The victims are away as long as the fault lasts."""
    try:
        yield
    finally:
        come(one, one.victims)


def further(one: Strike, count: int) -> tuple[str, ...]:
    """Names of agents that are not here yet."""
    asked, there = one.world.asked, len(one.world.agents)
    return tuple(f"{asked.consumer}-{number}" for number in range(there + 1, there + count + 1))


def some(one: Strike, most: int) -> tuple[str, ...]:
    names = one.world.asked.names
    return tuple(sorted(one.dice.sample(names, one.dice.randint(1, max(1, most)))))


@fault("join-many")
def join_many(one: Strike) -> Iterator[None]:
    one.hurt += further(one, one.dice.randint(1, one.world.asked.agents))
    come(one, one.hurt)
    one.worked = one.is_over = True
    yield


@fault("leave-many")
def leave_many(one: Strike) -> Iterator[None]:
    one.victims = some(one, one.world.asked.agents - 1)
    leave(one, one.victims)
    one.worked = True
    yield from until_they_come(one)


@fault("flap")
def flap(one: Strike) -> Iterator[None]:
    one.victims = some(one, 1)
    for _ in range(FLAPS):
        leave(one, one.victims)
        come(one, one.victims)
    one.worked = one.is_over = True
    yield


@fault("swap")
def swap(one: Strike) -> Iterator[None]:
    """One leaves, another one joins, at once."""
    one.victims = some(one, 1)
    one.hurt += further(one, 1)
    one.world.start_agents(one.hurt)
    leave(one, one.victims)
    one.world.wait_able(one.hurt)
    one.worked = one.is_over = True
    yield


@fault("one-to-many")
def one_to_many(one: Strike) -> Iterator[None]:
    """1 -> N -> 1, then N again."""
    one.victims = one.world.asked.names[1:]
    leave(one, one.victims)
    come(one, one.victims)
    leave(one, one.victims)
    one.worked = True
    yield from until_they_come(one)


@fault("rolling-restart")
def rolling_restart(one: Strike) -> Iterator[None]:
    """All, or the victims that are named: one after the other, each once all partitions have an
    owner again: a row that waits for its next process counts as able.
    """
    world = one.world
    one.victims = world.asked.victims or world.asked.names
    for name in one.victims:
        leave(one, [name])
        come(one, [name])
        all_owned = f"what {name} had is not owned again"
        world.wait(lambda: len(world.eye.last.locks) == world.asked.partitions, COME_S, all_owned)
    one.worked = one.is_over = True
    yield


@fault("drain-one", "drain-half")
def drain(one: Strike) -> Iterator[None]:
    """Told to leave by a scale-down, once others have learned."""
    world, names = one.world, one.world.asked.names
    count = 1 if one.name == "drain-one" else len(names) // 2
    one.victims = tuple(sorted(one.dice.sample(names, count)))
    members = [member for name in one.victims if (member := world.member_of(name))]
    world.struck.update(one.victims)
    world.command("scale_down", world.group, "--members", ",".join(members), "--json")
    wait_ended(one, one.victims, DRAIN_S)
    one.worked = all(world.agents[name].part.exit_code() == 0 for name in one.victims)
    yield from until_they_come(one)


@fault("strategy-change")
def strategy_change(one: Strike) -> Iterator[None]:
    world, before = one.world, one.world.asked.strategy
    other = one.dice.choice([name for name in BY_POSITION if name != before])
    one.how = f"{before} -> {other}"
    epoch = world.eye.last.epochs[1]
    world.ask("strategy", other)
    one.worked = world.happens(lambda: world.eye.last.epochs[1] > epoch, LEAVE_S)
    try:
        yield
    finally:
        world.ask("strategy", before)


@fault("double-rebalance")
def double_rebalance(one: Strike) -> Iterator[None]:
    """Asked for by a person, and computed by two processes at once: one of them may store it."""
    meeting = one.world.folder / f"meeting-{time.monotonic_ns()}"
    meeting.mkdir()
    answers = one.world.ask_together("compute", *((str(meeting), me) for me in BOTH))
    one.worked = all(answer["met"] for answer in answers)
    if sum(answer["stored"] for answer in answers) > 1:
        one.wrong.append("both of two coordinators that computed at once stored a target")
    one.is_over = True
    yield


@fault("coordination-switch")
def coordination_switch(one: Strike) -> Iterator[None]:
    """To the other one and back. A switch under a mode_epoch of before must be refused."""
    world, mine = one.world, one.world.asked.coordination
    other = "client" if mine == "server" else "server"
    one.how = f"{mine} -> {other}"
    epoch = world.eye.last.mode_epoch
    one.worked = world.ask("switch", other) > epoch
    try:
        if world.ask("switch_late", mine, str(epoch)):
            one.wrong.append(f"a switch under mode_epoch {epoch} was not refused after another one")
        yield
    finally:
        world.ask("switch", mine)
