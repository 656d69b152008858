"""A seed -> a group, what happens to it, and rounds until nothing changes any more."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from assignment.coordinator import scale_down
from assignment.coordinator.learners import view_of
from assignment.coordinator.reading import unable_members
from assignment.errors import InvalidInput
from assignment.types import Drain, GroupSettings, Partition
from tests.simulation import round_checks
from tests.simulation.actors import Actor
from tests.simulation.ledger import Broken, demand
from tests.simulation.outcome import Outcome
from tests.simulation.rounds import STREAM, Rounds

TRACE_LINES = 60
CAPACITIES = (1.0, 1.0, 2.0, 0.5, 3.0)
EVENTS = (20, 120)
QUIET_ROUNDS = 3


@dataclass(frozen=True, kw_only=True)
class RoundScenario:
    seed: int
    members: int
    settings: GroupSettings
    capacities: tuple[float, ...]
    zones: tuple[str, ...]
    events: int


def scenario_of(seed: int) -> RoundScenario:
    draw = random.Random(seed)
    stateful = draw.random() < 0.85
    return RoundScenario(
        seed=seed,
        members=draw.randint(1, 6),
        settings=GroupSettings(
            stream=STREAM,
            partitions=draw.randint(1, 14),
            stateful=stateful,
            standby_replicas=draw.choice((0, 0, 1, 2)),
            learners_max=draw.choice((0, 0, 1, 2)),
            acceptable_lag_records=draw.choice((0, 0, 10)),
            learn_partial_rebalance=draw.random() < 0.6,
        ),
        # A stateless group's strategy, sticky, knows no capacities.
        capacities=CAPACITIES if stateful and draw.random() < 0.3 else (1.0,),
        zones=draw.choice((("",), ("", "a", "b"))),
        events=draw.randint(*EVENTS),
    )


def run(seed: int, *, trace: bool = False) -> Outcome:
    """Never raises: what goes wrong is in the outcome, with the trace of the last steps."""
    scenario = scenario_of(seed)
    world = Rounds(seed, scenario.settings)
    outcome = Outcome(kind="planner", seed=seed, scenario=scenario)
    with outcome.watched(lambda: "\n".join(list(world.trace)[-TRACE_LINES:]), always=trace):
        _play(world, scenario, outcome)
    outcome.steps, outcome.members = world.steps, world.named
    return outcome


def _play(world: Rounds, scenario: RoundScenario, outcome: Outcome) -> None:
    draw = world.random
    for _ in range(scenario.members):
        _join(world, scenario)
    names = list(EVENTS_BY_NAME)
    weights = [weight for weight, _ in EVENTS_BY_NAME.values()]
    for name in draw.choices(names, weights, k=scenario.events):
        world.steps += 1
        before = world.epochs.copy(), len(world.actors), len(world.pending)
        EVENTS_BY_NAME[name][1](world, scenario)
        if name not in USUAL:
            outcome.faults[name] += 1
            outcome.idle[name] += before == (
                world.epochs, len(world.actors), len(world.pending)
            )  # fmt: skip
    outcome.struck["targets"] = world.targets
    _heal(world, scenario)
    calm = _calm_owners(world, scenario)
    _demand_convergence(world)
    if calm is not None:
        _demand_least_moves(world, calm)


# --- what happens ---------------------------------------------------------------------------------


def _somebody(world: Rounds) -> str | None:
    return world.random.choice(sorted(world.actors)) if world.actors else None


def _some(world: Rounds) -> list[str]:
    there = sorted(world.actors)
    return world.random.sample(there, world.random.randint(0, len(there)))


def _arrive(world: Rounds, scenario: RoundScenario) -> None:
    there = sorted(world.in_flight)
    for member in world.random.sample(there, world.random.randint(0, len(there))):
        world.arrive(member)


def _store(world: Rounds, scenario: RoundScenario) -> None:
    """Of several coordinators one comes first, whichever."""
    if world.pending:
        world.store(world.random.choice(world.pending))


def _join(world: Rounds, scenario: RoundScenario) -> None:
    draw = world.random
    world.join(zone=draw.choice(scenario.zones), capacity=draw.choice(scenario.capacities))


def _crash(world: Rounds, scenario: RoundScenario) -> None:
    if member := _somebody(world):
        world.crash(member)


def _session_ends(world: Rounds, scenario: RoundScenario) -> None:
    for member in world.ghosts():
        world.evict(member)


def _able(world: Rounds, scenario: RoundScenario) -> None:
    if member := _somebody(world):
        world.actors[member].able = not world.actors[member].able


def _terminate(world: Rounds, scenario: RoundScenario) -> None:
    if member := _somebody(world):
        world.actors[member].terminated = True


def _scale_down(world: Rounds, scenario: RoundScenario) -> None:
    """By percentage or by name; one at a time, and never all (S1, S3)."""
    if world.record.leavers or not world.rows:
        return
    view = world.view()
    planned = view_of(view, unable_members(view))
    try:
        if world.random.random() < 0.5:
            leavers = scale_down.leavers_by_percent(planned, world.random.randint(1, 100))
        else:
            leavers = scale_down.leavers_by_name(planned, _some(world))
    except InvalidInput:
        return
    world.tell(Drain.LEAVING, list(leavers))


def _cancel(world: Rounds, scenario: RoundScenario) -> None:
    world.tell(Drain.NONE, sorted(world.record.leavers))
    world.record.leavers.clear()


def _settings(world: Rounds, scenario: RoundScenario) -> None:
    draw = world.random
    change = draw.choice(
        (
            {"standby_replicas": draw.randint(0, 2)},
            {"learners_max": draw.randint(0, 2)},
            {"partitions": min(20, world.settings.partitions + draw.randint(1, 3))},
            {"learn_partial_rebalance": draw.random() < 0.5},
        )
    )
    world.settings = replace(world.settings, **change)
    world.changed(f"settings {change}")


def _to_some(happens: Callable[[Rounds, Actor], None]) -> "Happening":
    def happening(world: Rounds, scenario: RoundScenario) -> None:
        for member in _some(world):
            happens(world, world.actors[member])

    return happening


Happening = Callable[[Rounds, RoundScenario], None]
USUAL = ("hear", "act", "learn", "send", "arrive", "compute", "store")
EVENTS_BY_NAME: dict[str, tuple[float, Happening]] = {
    "hear": (8, _to_some(Rounds.hear)),
    "act": (8, _to_some(Rounds.act)),
    "learn": (6, _to_some(lambda world, actor: actor.learn(world.random, world.locks))),
    "send": (8, _to_some(Rounds.send)),
    "arrive": (8, _arrive),
    "compute": (8, lambda world, scenario: world.compute()),
    "store": (8, _store),
    "lose reports": (1, lambda world, scenario: world.in_flight.clear()),
    "coordinator dies": (2, lambda world, scenario: world.pending.clear()),
    "join": (2, _join),
    "crash": (1, _crash),
    "session ends": (1.5, _session_ends),
    "able or not": (1, _able),
    "terminate": (0.5, _terminate),
    "scale down": (1.5, _scale_down),
    "time is up": (
        0.5,
        lambda world, scenario: world.tell(Drain.FORCED, sorted(world.record.leavers)),
    ),
    "cancel": (0.5, _cancel),
    "settings": (1, _settings),
    "request_rebalance": (1, lambda world, scenario: world.changed("a person asked")),
}


# --- and then -------------------------------------------------------------------------------------


def _heal(world: Rounds, scenario: RoundScenario) -> None:
    """Nobody crashes any more, sessions end, all consumers are ready, reports arrive."""
    world.note("HEALED")
    world.in_flight.clear()
    _session_ends(world, scenario)
    for actor in world.actors.values():
        actor.able = True
    if all(actor.terminated for actor in world.actors.values()):
        _join(world, scenario)


def _round(world: Rounds) -> None:
    """Everybody does what it is to do, in any order; who learns gets somewhat further."""
    for member in world.random.sample(sorted(world.actors), len(world.actors)):
        actor = world.actors[member]
        actor.learn(world.random, world.locks)
        world.send(actor)
        world.arrive(member)
        world.hear(actor)
        world.act(actor)
    while world.pending:
        world.store(world.random.choice(world.pending))
    if world.epochs["group"] > world.epochs["target"]:
        world.compute()


def _demand_convergence(world: Rounds) -> None:
    """By the usual triggers alone: no person asks, and no tick helps."""
    rounds_max = 60 + 12 * len(world.partitions)
    quiet, before = 0, None
    for _ in range(rounds_max):
        world.steps += 1
        round_checks.flags_follow_the_record(world)
        _round(world)
        now = (world.epochs.copy(), dict(world.locks.holder))
        quiet = quiet + 1 if now == before else 0
        before = now
        if quiet >= QUIET_ROUNDS and not round_checks.unfinished(world):
            break
    else:
        raise Broken(f"not within {rounds_max} rounds: {round_checks.unfinished(world)}")
    _demand_fixed_point(world)


def _calm_owners(world: Rounds, scenario: RoundScenario) -> dict[Partition, str] | None:
    """Who owns what, when nothing is under way that would move more; None when something is."""
    held = {p: m for p, (m, _) in world.locks.holder.items()}
    owners = {p: m for m, row in world.target.items() for p in row.active}
    learners = any(row.learning for row in world.target.values())
    ready = any(row.ready for row in world.rows.values())
    unowned = len(held) < len(world.partitions)
    unable = not all(row.able for row in world.rows.values())
    capacities = len(scenario.capacities) > 1
    hasty = any(
        a.terminated or world.rows[m].drain is Drain.FORCED for m, a in world.actors.items()
    )
    if learners or ready or unowned or unable or capacities or hasty or held != owners:
        return None
    return held


def _demand_least_moves(world: Rounds, before: dict[Partition, str]) -> None:
    staying = [actor.member_id for actor in world.staying]
    if not staying:
        return
    after = {p: m for p, (m, _) in world.locks.holder.items()}
    kept = {p: m for p, m in before.items() if m in staying}
    moved = sum(after[p] != m for p, m in kept.items())
    least = round_checks.least_moves(kept, staying, len(world.partitions))
    demand(moved == least, f"{moved} moved from members that stay, {least} suffice")


def _demand_fixed_point(world: Rounds) -> None:
    """Asked again without a cause, nothing is different (L8)."""
    before = {m: replace(row, target_epoch=0) for m, row in world.target.items()}
    world.changed("asked again")
    world.compute()
    world.store(world.pending[-1])
    after = {m: replace(row, target_epoch=0) for m, row in world.target.items()}
    demand(after == before, f"asked again, {before} became {after}")
