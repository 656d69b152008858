"""What machines a load takes, and which limit it meets first. Pure."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from assignment.names import PARTITIONS_MAX
from assignment.sizes import members_max
from dashboard.evaluation.capacity.formulas import (
    DAY_S,
    EVENTS,
    FORMULAS,
    SAMPLING,
    Constants,
    Load,
    predicted,
    sample_s,
    sampled,
    terms,
)

BUSY = 0.6  # of a core or of a memory that may be used all day: the rest is for joins and faults
MIB_A_GIB = 1024
CHILDREN = 4  # of a worker: dashboard/celery.py
WEB_PROCESSES_MAX = 10_000  # far above what one system is asked for
REDIS_CLIENTS_MAX = 10_000  # Redis' default of `maxclients`
AGENT_RATE = 8_000  # requests a second of one token: EVENKEEL_AGENT_RATE
TRIMMED_S = 10.0  # dashboard/celery.py: so long an event stays that all have committed
SAMPLES_KEPT_DAYS = 7  # dashboard/coordinator/sampling.py
PARTS = ("web", "worker", "redis")
DAILY = ("database_bytes", "database_rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`empty_groups`: of the groups, those without members. `rebalances_a_day`: of each group with
    members, one member joins in each. `moved`: share of a group's partitions that each gives to
    others. `events`: a second. `goal_s`: latency_goal_ms. `cores`, `memory_gib`: of one machine.
    """

    agents: int
    groups: int
    partitions: int
    beat_s: float
    rebalances_a_day: float
    moved: float
    cores: int
    memory_gib: float
    empty_groups: int = 0
    events: float = 0.0
    goal_s: float = 1.0

    @property
    def with_members(self) -> int:
        return min(self.groups - self.empty_groups, self.agents)

    def load(self, constants: Constants, seconds: float) -> Load:
        """What is there, and what happens in so many seconds."""
        rebalances = self.with_members * self.rebalances_a_day * seconds / DAY_S
        there = Load(
            members=self.agents, groups=self.groups, with_members=self.with_members,
            partitions=self.partitions, beat_s=self.beat_s, joins=rebalances,
            rebalances=rebalances, grants=rebalances * self.partitions / self.groups * self.moved,
            events=self.events, goal_s=self.goal_s,
        )  # fmt: skip
        return sampled(constants, there, seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Each:
    """`connections`: an agent's to Redis. `connection_mib`: what one takes in Redis. `dashboard`:
    connections of web process, worker and beat to Redis. `rows`: that the database takes in a
    second, each in a transaction of its own.
    """

    connections: float
    connection_mib: float
    dashboard: float
    rows: float


def refusal_of(asked: Asked) -> str:
    """Why no group could be so, in one sentence; "" when it could."""
    each = asked.partitions // asked.groups
    most = members_max(each)
    if asked.partitions < asked.groups:
        return f"--partitions {asked.partitions} is less than one for each of {asked.groups} groups"
    if asked.partitions > PARTITIONS_MAX * asked.groups:
        return f"--partitions {asked.partitions} is more than {PARTITIONS_MAX} for each group"
    if asked.empty_groups > asked.groups - bool(asked.agents):
        return f"--empty-groups {asked.empty_groups} leaves no group for {asked.agents} agents"
    if asked.agents > most * asked.with_members:
        return f"--agents {asked.agents} is more than {most} for each group of {each} partitions"
    return ""


def sized(constants: Constants, each: Each, asked: Asked) -> dict[str, Any]:
    """Figures with their terms, what is needed, the limits by how near they are."""
    needs = _needs(constants, each, asked)
    loads = {False: _second(constants, asked, needs["web_processes"])}
    loads[True] = asked.load(constants, DAY_S)
    figures = {name: _figure(constants, name, loads[name in DAILY]) for name in FORMULAS}
    found = [one.as_values() for one in limits(constants, each, asked)]
    names = ("agents", "groups", "empty_groups", "partitions", "events")
    return {
        **{name: getattr(asked, name) for name in names},
        "machine": {"cores": asked.cores, "memory_gib": asked.memory_gib},
        "needs": needs,
        "first_limit": found[0],
        "limits": found,
        "figures": figures,
    }


def _figure(constants: Constants, name: str, load: Load) -> dict[str, Any]:
    of = terms(constants, name, load)
    return {"value": sum(of.values()), "unit": FORMULAS[name].unit, "terms": of}


def cores(constants: Constants, part: str, load: Load) -> float:
    """Of a second in which that load's changes and events happen."""
    figures = [f"{part}_cores", f"{part}_change_s"]
    figures += [name for name in EVENTS if name == f"{part}_event_s"]
    return sum(predicted(constants, name, load) for name in figures)


def clients(each: Each, asked: Asked) -> float:
    return asked.agents * each.connections + each.dashboard


def redis_mib(constants: Constants, each: Each, asked: Asked) -> float:
    load = asked.load(constants, 1.0)
    of_events = predicted(constants, "redis_event_bytes", load) * (TRIMMED_S + asked.goal_s)
    connections = asked.agents * each.connections * each.connection_mib
    return predicted(constants, "redis_mib", load) + connections + of_events / 2**20


def nothing(load: Load) -> Load:
    return Load(members=0, groups=0, with_members=0, partitions=0, beat_s=load.beat_s)


# --- what is needed


def _second(constants: Constants, asked: Asked, web_processes: int) -> Load:
    return replace(asked.load(constants, 1.0), web_processes=web_processes)


def web(constants: Constants, asked: Asked) -> tuple[int, float]:
    """Processes, and what all of them take: each has its own trips, and what it takes idle."""
    idle = predicted(constants, "web_cores", nothing(asked.load(constants, 1.0)))
    number, taken = 0, math.inf
    while taken > BUSY * number and number < WEB_PROCESSES_MAX:
        number += 1
        taken = cores(constants, "web", _second(constants, asked, number)) + (number - 1) * idle
    return number, taken


def _needs(constants: Constants, each: Each, asked: Asked) -> dict[str, Any]:
    load, (processes, of_web) = asked.load(constants, 1.0), web(constants, asked)
    of = {part: cores(constants, part, load) for part in PARTS} | {"web": of_web}
    workers = max(1, math.ceil(of["worker"] / BUSY / CHILDREN))  # a ticker beside each
    workers = max(workers, math.ceil(_ticks(constants, load) / BUSY))
    memory = redis_mib(constants, each, asked)
    usable_mib = asked.memory_gib * MIB_A_GIB * BUSY
    nodes = {
        "cpu": math.ceil(of["redis"] / BUSY),
        "memory": math.ceil(memory / usable_mib),
        "connections": math.ceil(clients(each, asked) / REDIS_CLIENTS_MAX),
    }
    mib = {
        "web": _mib_of(constants, "web_mib", load, processes),
        "worker": _mib_of(constants, "worker_mib", load, workers),
        "redis": memory,
    }
    return {
        "machines": max(
            math.ceil(sum(of.values()) / BUSY / asked.cores),
            math.ceil(sum(mib.values()) / usable_mib),
        ),
        "web_processes": processes,
        "workers": workers,
        "redis_nodes": max(nodes.values()),
        "redis_nodes_by": nodes,
        "redis_connections": round(clients(each, asked)),
        "cores": {part: round(value, 3) for part, value in of.items()},
        "mib": {part: round(value, 1) for part, value in mib.items()},
        **_stored(constants, asked.load(constants, DAY_S)),
        "events_mib_an_hour": round(
            predicted(constants, "redis_event_bytes", load) * DAY_S / 24 / 2**20, 1
        ),
    }


def _mib_of(constants: Constants, figure: str, load: Load, processes: int) -> float:
    idle = predicted(constants, figure, nothing(load))
    return predicted(constants, figure, load) + (processes - 1) * idle


def _stored(constants: Constants, day: Load) -> dict[str, float]:
    kept = replace(day, joins=0, grants=0, rebalances=0)
    grows, samples = (predicted(constants, "database_bytes", one) / 2**20 for one in (day, kept))
    return {
        "database_mib_a_day": round(grows, 1),
        "samples_mib_kept": round(SAMPLES_KEPT_DAYS * samples, 1),
    }


# --- limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """`most`: of `value`, and `at_nothing` of it without any load. `beyond`: what helps then."""

    name: str
    value: float
    most: float
    unit: str
    beyond: str
    at_nothing: float = 0.0

    @property
    def used(self) -> float:
        """1 is the limit."""
        return self.value / self.most

    @property
    def times(self) -> float | None:
        """That this load could be larger, all of it alike, until it is met; None: it never is."""
        grows = self.value - self.at_nothing
        return None if grows <= 0 else max(0.0, self.most - self.at_nothing) / grows

    def as_values(self) -> dict[str, Any]:
        times = None if self.times is None else round(self.times, 2)
        return {
            "name": self.name, "value": round(self.value, 3), "limit": round(self.most, 3),
            "unit": self.unit, "used": round(self.used, 4), "times": times, "beyond": self.beyond,
        }  # fmt: skip


def limits(constants: Constants, each: Each, asked: Asked) -> list[Limit]:
    """The nearest first."""
    found = (
        *_of_cores(constants, asked),
        *_of_stores(constants, each, asked),
        *_of_groups(asked.load(constants, 1.0)),
    )
    return sorted(found, key=lambda one: -one.used)


def _ticks(constants: Constants, load: Load) -> float:
    """Cores that all tickers take together, without what they take when there is nothing."""
    of_load, idle = (
        predicted(constants, "worker_cores", replace(one, samples=0.0))
        for one in (load, nothing(load))
    )
    return of_load - idle


def _of_cores(constants: Constants, asked: Asked) -> Iterator[Limit]:
    load = asked.load(constants, 1.0)
    of_load, of_none = (
        {part: cores(constants, part, one) for part in PARTS} for one in (load, nothing(load))
    )
    samples = SAMPLING.late_rate(load) * sample_s(constants, load)
    for name, value, at_nothing, most, beyond in (
        ("CPU of one web process", of_load["web"], of_none["web"], BUSY, "more web processes"),
        ("CPU of one Redis", of_load["redis"], of_none["redis"], BUSY, "a cluster of more nodes"),
        (
            "CPU of one ticker", _ticks(constants, load), 0.0, BUSY,
            "more workers: each has a ticker, and they share the groups",
        ),
        (
            f"samples each {SAMPLING.longest_s:g} s, one at a time", samples, 0.0,
            SAMPLING.late_share, "none: charts and attention are older then",
        ),
        (
            "cores of one machine", sum(of_load.values()), sum(of_none.values()),
            BUSY * asked.cores, "more machines",
        ),
    ):  # fmt: skip
        yield Limit(
            name=name, value=value, most=most, unit="cores", beyond=beyond, at_nothing=at_nothing
        )


def _of_stores(constants: Constants, each: Each, asked: Asked) -> Iterator[Limit]:
    load = asked.load(constants, 1.0)
    yield Limit(
        name="memory of one Redis", value=redis_mib(constants, each, asked),
        most=asked.memory_gib * MIB_A_GIB * BUSY, unit="MiB",
        beyond="a larger machine, or a cluster",
        at_nothing=predicted(constants, "redis_mib", nothing(load)),
    )  # fmt: skip
    yield Limit(
        name="connections of one Redis", value=clients(each, asked), most=REDIS_CLIENTS_MAX,
        unit="connections", beyond="a higher `maxclients`, or a cluster", at_nothing=each.dashboard,
    )  # fmt: skip
    yield Limit(
        name="writes to the database", value=predicted(constants, "database_rows", load),
        most=BUSY * each.rows, unit="rows/s", beyond="PostgreSQL, or fewer groups",
    )  # fmt: skip


def _of_groups(load: Load) -> Iterator[Limit]:
    partitions, members = load.partitions_a_group, load.members_a_group
    for name, value, most, unit, beyond in (
        ("requests of one token", members / load.beat_s, AGENT_RATE, "1/s", "EVENKEEL_AGENT_RATE"),
        ("partitions of one group", partitions, PARTITIONS_MAX, "partitions", "more groups"),
        ("members of one group", members, members_max(int(partitions)), "members", "more groups"),
    ):
        yield Limit(name=name, value=value, most=most, unit=unit, beyond=beyond)
