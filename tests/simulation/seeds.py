"""A seed -> a scenario -> a run of it: faults, then healing, and what must be true then."""

import gc
import multiprocessing
import random
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.replicas.replica import RETRY_MS
from assignment.scripts import dashboard_side
from assignment.types import Coordination, TargetRow
from tests.simulation import checks, targets
from tests.simulation.agents import SimAgent
from tests.simulation.faults import FAULTS, OF_DASHBOARD, coordination_switch, heal
from tests.simulation.instance_faults import INSTANCE_FAULTS
from tests.simulation.ledger import Broken, demand
from tests.simulation.network import Network
from tests.simulation.outcome import Outcome, Summary
from tests.simulation.replica_faults import REPLICA_FAULTS
from tests.simulation.world import FAST, World, simulated

SLOW = {
    "lease_ms": 10_000, "renew_ms": 3_333, "session_timeout_ms": 10_000, "heartbeat_ms": 3_000,
    "grace_ms": 8_000, "consumer_stall_ms": 20_000,
}  # fmt: skip
GAP_MS = (20, 1_400)  # between two faults
QUIET_MS = 1_500
ASKED_MS = 3_000  # a tick finds at last that somebody asked
# The members that come back late share in it later than that: a join is tried again after 5 s, a
# consumer is restarted after 2 s when it has failed twice, a restore tried again after 1 s.
RETURN_MS = 8_000
LAG_MS = 6_000
TRACE_LINES = 60
AT_ONCE = 10  # seeds that a process takes
LARGE_EVERY, LARGE = 200, 199  # seeds; one costs as much CPU as fifty small ones
STATEFUL_EVERY, STATEFUL = 4, 1
REPLICA_FAULT_CHANCE = 0.65  # of each fault of a stateful group
CLIENT_SHARE = 0.35  # of groups whose agents coordinate
ALONE_SHARE = 0.15  # of those without a dashboard
LEARN_MS = 1_000  # a round of learners, when no disk is slow any more
SWITCH, SWITCH_SHARE = coordination_switch.__name__, 0.25  # of runs
NEED_DASHBOARD = {*OF_DASHBOARD, SWITCH, "change_of_replicas", "lost_events_come_again"}
INSTANCES_EVERY, INSTANCES = 5, 3  # seeds; most of their members have an instance name
INSTANCE_SHARE = 0.7
INSTANCE_FAULT_CHANCE = 0.5
ALL_FAULTS = FAULTS | REPLICA_FAULTS | INSTANCE_FAULTS | {SWITCH: coordination_switch}
DRAWN = tuple(FAULTS)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    seed: int
    members: int
    partitions: int
    strategy: str
    coordinators: int
    coordination: Coordination
    network: Network
    timings: Mapping[str, int]
    faults: tuple[tuple[int, str], ...]  # pause before it, name
    settled_first: bool
    replicas: Mapping[str, Any]  # settings of a stateful group
    instances: float = 0.0


def scenario_of(seed: int) -> Scenario:
    """Most are small, so that there can be many; a few have hundreds of members."""
    draw = random.Random(seed)
    large, stateful = seed % LARGE_EVERY == LARGE, seed % STATEFUL_EVERY == STATEFUL
    names = _names(draw) if stateful else []
    if stateful:
        members, partitions, count = draw.randint(1, 5), draw.randint(1, 10), 0
    elif large:
        members, partitions, count = draw.randint(100, 200), draw.randint(50, 200), 2
    elif draw.random() < 0.04:
        members, partitions, count = draw.randint(7, 14), draw.randint(4, 24), 4
    else:
        members, partitions, count = draw.randint(1, 5), draw.randint(1, 12), draw.randint(2, 6)
    coordination, alone = _coordination(seed)
    by_planner = stateful or draw.random() >= 0.6
    scenario = Scenario(
        seed=seed,
        members=members,
        partitions=partitions,
        strategy="sticky" if by_planner else draw.choice(targets.BALANCED),
        coordinators=draw.choice((1, 1, 2, 3)) * (not alone),
        coordination=coordination,
        network=draw.choice((Network(), Network(0.01, 0.01, 0.01, 0.02, 0.3, (1, 60)))),
        timings=SLOW if large else FAST,
        faults=tuple(
            (draw.randint(*GAP_MS) * (5 if large else 1), name or draw.choice(DRAWN))
            for name in names or [""] * count
        ),
        settled_first=draw.random() < 0.7,
        replicas=_replicas(draw) if stateful else {},
    )
    if seed % INSTANCES_EVERY == INSTANCES:
        scenario = _with_instances(scenario)
    return _with_switches(scenario)


def _with_switches(scenario: Scenario) -> Scenario:
    """One or two among the faults, by a die of its own."""
    draw, faults = random.Random(f"{scenario.seed} switches"), list(scenario.faults)
    if draw.random() < SWITCH_SHARE:
        for _ in range(draw.randint(1, 2)):
            fault = draw.randint(*GAP_MS), SWITCH
            faults.insert(draw.randint(0, len(faults)), fault)
    return replace(scenario, faults=tuple(faults))


def _with_instances(scenario: Scenario) -> Scenario:
    draw, names = random.Random(~scenario.seed), tuple(INSTANCE_FAULTS)
    faults = tuple(
        (pause_ms, draw.choice(names) if draw.random() < INSTANCE_FAULT_CHANCE else name)
        for pause_ms, name in scenario.faults
    )
    return replace(scenario, faults=faults, instances=INSTANCE_SHARE)


def _coordination(seed: int) -> tuple[Coordination, bool]:
    """(who computes, whether there is no dashboard), by a die of its own: what else is drawn stays
    as it was.
    """
    drawn = random.Random(f"{seed} coordination").random()
    return Coordination.CLIENT if drawn < CLIENT_SHARE else Coordination.SERVER, drawn < ALONE_SHARE


def _names(draw: random.Random) -> list[str]:
    return [
        draw.choice(tuple(REPLICA_FAULTS if draw.random() < REPLICA_FAULT_CHANCE else DRAWN))
        for _ in range(draw.randint(2, 6))
    ]


def _replicas(draw: random.Random) -> Mapping[str, Any]:
    return {
        "stateful": True,
        "standby_replicas": draw.choice((0, 0, 1, 2)),
        "learners_max": draw.choice((0, 0, 1, 2)),
        "acceptable_lag_records": draw.choice((0, 0, 5)),
        "learn_partial_rebalance": draw.random() < 0.6,
    }


def run(seed: int, *, trace: bool = False) -> Outcome:
    """Never raises: what goes wrong is in the outcome, with the trace of the last steps."""
    scenario = scenario_of(seed)
    world = World(
        seed, coordinators=scenario.coordinators, coordination=scenario.coordination, trace=trace,
        partitions=scenario.partitions, strategy=scenario.strategy, instances=scenario.instances,
        **scenario.timings, **scenario.replicas,
    )  # fmt: skip
    outcome = Outcome(seed=seed, scenario=scenario, struck=world.struck, reached=world.reached)
    began_s = time.process_time()
    gc.disable()  # what a run leaves behind is found after it; looking all the time is dear
    try:
        with simulated():
            _play(world, scenario, outcome)
    except Exception as error:
        outcome.broken = f"{type(error).__name__}: {error}"
        bug = "" if isinstance(error, Broken) else traceback.format_exc()
        outcome.trace = world.story(TRACE_LINES) + bug
    else:
        outcome.trace = world.story(TRACE_LINES) if trace else ""
    gc.enable()
    outcome.cpu_ms = (time.process_time() - began_s) * 1_000
    outcome.steps, outcome.members = world.agenda.steps, len(world.agents)
    return outcome


def _play(world: World, scenario: Scenario, outcome: Outcome) -> None:
    world.network = scenario.network
    for _ in range(scenario.members):
        world.add_one()
    if scenario.settled_first:
        bound_ms = 12 * world.settings.lease_ms + _learning_ms(world)
        if world.settings.stateful:
            bound_ms += RETRY_MS[-1]  # a replica that failed again and again is left alone for long
        world.run_until(checks.settled, bound_ms, "settled at the start")
        world.struck.clear()
    _strike_all(world, scenario, outcome)
    heal(world)
    _demand_after_heal(world, outcome)


def _strike_all(world: World, scenario: Scenario, outcome: Outcome) -> None:
    for pause_ms, name in scenario.faults:
        world.run_for(pause_ms)
        if not world.coordinators and name in NEED_DASHBOARD:
            continue
        before = _seen(world)
        victims = _victims(world) or [world.add_one()]
        world.note_fault(name, victims=",".join(v.name for v in victims))
        ALL_FAULTS[name](world, victims)
        world.run_for(world.random.randint(*GAP_MS) // 2)
        outcome.faults[name] += 1
        outcome.idle[name] += _seen(world) == before


def _seen(world: World) -> tuple[object, ...]:
    """What changes when a fault does something: locks, members, targets, calls and messages."""
    meta = world.server.hash(world.keys.meta)
    epochs = [meta.get(name) for name in (b"event_seq", b"group_epoch", b"target_epoch", b"run_id")]
    return *epochs, world.server.replication_id, world.redis.ahead_ms, world.struck.total()


def _victims(world: World) -> list[SimAgent]:
    """Minor: below half, at least one; major: above half; random: any number."""
    living = world.living()
    if not living:
        return []
    half, any_number = len(living) // 2, world.random.randint(1, len(living))
    count = world.random.choice((1, max(1, half // 2), half + 1, any_number))
    return world.random.sample(living, min(count, len(living)))


def heal_ms(world: World) -> int:
    """Within this everything is owned after the last fault has ended (evaluation.md)."""
    s = world.settings
    awaited_ms = s.instance_timeout_ms if any(a.instance for a in world.agents) else 0
    return s.lease_ms + s.session_timeout_ms + 2 * s.heartbeat_ms + 2_000 + awaited_ms


def _joining_ms(world: World) -> int:
    """What those wait who asked to join in vain: seconds, however short the group's times are."""
    out = [a for a in world.living() if not a.membership.state.joined]
    return max((a.agent.session.next_join_ms - a.clock() for a in out), default=0)


def _learning_ms(world: World) -> int:
    """What handovers and standbys take beyond that, in as many rounds as there are partitions; a
    replica that failed waits before it is tried again.
    """
    if not world.settings.stateful:
        return 0
    waits_ms = [agent.manager.waits_ms() for agent in world.living() if agent.manager]
    return max(waits_ms, default=0) + world.settings.partitions * LEARN_MS


def _demand_after_heal(world: World, outcome: Outcome) -> None:
    began_ms, bound_ms = world.now_ms, heal_ms(world) + max(0, _joining_ms(world))
    learning_ms = _learning_ms(world)
    calm, troubled = checks.calm_owners(world), world.reached["planned in trouble"]
    outcome.owned_ms = world.run_until(checks.all_owned, bound_ms, "every partition is owned")
    world.end_misfits()
    world.database.refuses = False
    while True:
        left_ms = began_ms + bound_ms + RETURN_MS + learning_ms - world.now_ms
        world.run_until(checks.settled, max(left_ms, 0), "held = target")
        outcome.settled_ms = world.now_ms - began_ms
        quiet = world.fences(), _target(world)
        world.run_for(QUIET_MS)
        if (world.fences(), _target(world)) == quiet:
            break  # else what the faults began has ended only now: again, within the same bound
        world.note("SEED", "not quiet yet", was=quiet)
    members = sorted(world.read().members)
    # What a lost owner had goes to whoever has its state, and from there to where it is even.
    stayed = {*(calm or {}).values()} <= {*members}
    if calm and stayed and world.reached["planned in trouble"] == troubled:
        owners = {p: lock.member_id for p, lock in world.read().locks.items()}
        targets.moves_are_least(calm, owners, members)
        world.reached["moves compared after calm"] += 1
    if world.settings.stateful:
        _demand_fixed_point(world)
    if world.coordinators and not world.struck["database restored"]:
        world.run_until(checks.target_is_recorded, ASKED_MS, "the target has a record")
    world.producing = False
    world.run_until(lambda w: checks.lag(w) == 0, LAG_MS, "lag returns to 0")
    outcome.destroyed = world.ledger.destroyed()
    checks.history_is_whole(world)
    for agent in world.living():
        checks.replicas_are_right(world, agent)


def _demand_fixed_point(world: World) -> None:
    """Asked again without a cause, nothing is different (L8)."""
    before = _target(world)
    world.run(dashboard_side.request_rebalance("manual"))
    world.run_until(checks.is_planned, ASKED_MS, "a target for who asked")
    after = _target(world)
    demand(after == before, f"asked again, {before} became {after}")


def _target(world: World) -> dict[str, TargetRow]:
    return {
        m: replace(row, target_epoch=0, incarnation=0) for m, row in world.read().target.items()
    }


# --- many of them ---------------------------------------------------------------------------------


def run_many(
    chosen: Sequence[int],
    *,
    jobs: int = 1,
    progress: Callable[[Summary], None] = lambda summary: None,
) -> Summary:
    """Until the first that fails; in their order, whatever `jobs` is, so that it is the same."""
    summary, began_s = Summary(), time.monotonic()
    for outcome in _outcomes(chosen, jobs):
        summary.add(outcome)
        summary.wall_s = time.monotonic() - began_s
        if summary.broken:
            break
        progress(summary)
    return summary


def _outcomes(chosen: Sequence[int], jobs: int) -> Iterator[Outcome]:
    if jobs == 1:
        yield from map(run, chosen)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(run, chosen, chunksize=AT_ONCE)
