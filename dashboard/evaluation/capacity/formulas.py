"""What a system takes, as formulas of its sizes: each figure is a sum of terms, each term a number
of the load times a measured constant. Pure: the constants and the loads are given.

Which term a figure has follows from what the code does: web processes answer beats, by trips to
Redis; ticks glance at each group; samples read a whole group that has members, as often as their
share of a processor allows; members renew their locks; and so on.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

DAY_S = 86_400.0
# As dashboard/live/batch.py gathers calls for one trip to Redis: so long, and so many times that,
# where others came meanwhile, until there are enough.
GATHER_S, GATHERED_MAX, ENOUGH = 0.008, 5, 60
TRIP_S = 0.001  # itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How often groups are sampled: SAMPLES of dashboard/coordinator/sampling.py. `share`,
    `late_share`: of a processor. `at_least`: samples a second, whatever they take.
    """

    period_s: float = 5.0
    quiet_s: float = 300.0
    share: float = 0.03
    late_s: float = 25.0
    late_share: float = 0.8
    at_least: float = 10.0

    def rate(self, load: "Load", one_s: float) -> float:
        """Samples a second, of which one takes `one_s` of CPU. What is late gets more time."""
        groups = load.with_members
        wished, late = groups / self.period_s, self.late_rate(load)
        if one_s:
            late = min(late, self.late_share / one_s)
            wished = min(wished, max(self.share / one_s, self.at_least, late))
        return wished + QUIET_RATE * (load.groups - groups) / self.quiet_s

    def late_rate(self, load: "Load") -> float:
        """At which no group is ever late for longer than one run."""
        return load.with_members / self.longest_s

    @property
    def longest_s(self) -> float:
        """From one sample of a group to the next, but for the length of a run."""
        return self.period_s + self.late_s


SAMPLING = Sampling()
# Of groups that are quiet: their periods are spread evenly from a half of `quiet_s` to all of it.
QUIET_RATE = 2 * math.log(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is there, and what happens: `joins`, `grants`, `rebalances` and `samples` within the
    time that is looked at, a second, a day, or until a run has joined. `with_members`: of the
    groups. `events`: appended and applied in a second. `goal_s`: latency_goal_ms of the groups.
    """

    members: int
    groups: int
    with_members: int
    partitions: int
    beat_s: float
    web_processes: int = 1
    joins: float = 0.0
    grants: float = 0.0
    rebalances: float = 0.0
    samples: float = 0.0
    events: float = 0.0
    goal_s: float = 1.0

    @property
    def partitions_a_group(self) -> float:
        return self.partitions / self.groups if self.groups else 0.0

    @property
    def members_a_group(self) -> float:
        return self.members / self.with_members if self.with_members else 0.0

    @property
    def owned(self) -> float:
        """Partitions of groups that have members."""
        return self.partitions_a_group * self.with_members

    @property
    def trips(self) -> float:
        """Of beats, in a second, of all web processes."""
        of_each = self.members / self.beat_s / self.web_processes
        return self.web_processes * gathered(of_each, TRIP_S + waited_s(of_each))

    @property
    def commits(self) -> float:
        """In a second: a commit of a partition has all events since the one before."""
        if not self.owned:
            return 0.0
        return self.owned * gathered(self.events / self.owned, self.goal_s)


def waited_s(rate: float) -> float:
    """How long the first call of a trip waits for others, of so many a second."""
    if not rate:
        return GATHER_S
    until_enough_s = min(max(GATHER_S, ENOUGH / rate), GATHERED_MAX * GATHER_S)
    is_alone = math.exp(-rate * GATHER_S)  # how often it is, after the first time
    return GATHER_S + (1.0 - is_alone) * (until_enough_s - GATHER_S)


def gathered(rate: float, wait_s: float) -> float:
    """How often in a second something goes that waits so long from the first that comes, and takes
    with it what comes meanwhile.
    """
    return rate / (1.0 + rate * wait_s)


Value = Callable[[Load], float]
TERMS: Mapping[str, Value] = {
    "one": lambda load: 1.0,
    "group": lambda load: load.groups,
    "group with members": lambda load: load.with_members,
    "member": lambda load: load.members,
    "beat a second": lambda load: load.members / load.beat_s,
    "trip a second": lambda load: load.trips,
    "owned partition": lambda load: load.owned,
    "join": lambda load: load.joins,
    "grant": lambda load: load.grants,
    "rebalance": lambda load: load.rebalances,
    "partition of a rebalance": lambda load: load.rebalances * load.partitions_a_group,
    "sample": lambda load: load.samples,
    "member of a sample": lambda load: load.samples * load.members_a_group,
    "partition of a sample": lambda load: load.samples * load.partitions_a_group,
    "event": lambda load: load.events,
    "commit": lambda load: load.commits,
}


@dataclass(frozen=True, slots=True)
class Formula:
    """`unit`: of the figure; a constant's is that for one of its term."""

    unit: str
    terms: tuple[str, ...]
    of: str


_GROUPS = ("one", "group", "group with members")
_SIZES = (*_GROUPS, "member", "owned partition")
_SAMPLE = ("sample", "member of a sample", "partition of a sample")
_CHANGES = ("join", "grant", "rebalance", "partition of a rebalance")
_EVENTS = ("event", "commit")
STEADY: Mapping[str, Formula] = {
    "web_cores": Formula(
        "cores", (*_GROUPS, "beat a second", "trip a second"), "CPU of web processes"
    ),
    "worker_cores": Formula("cores", (*_GROUPS, *_SAMPLE), "CPU of Celery: worker and beat"),
    "redis_cores": Formula("cores", (*_SIZES, "trip a second"), "CPU of Redis"),
    "redis_ops": Formula("1/s", _SIZES, "commands of Redis, those of scripts included"),
    "web_mib": Formula("MiB", (*_GROUPS, "member"), "memory of one web process"),
    "worker_mib": Formula("MiB", _SIZES, "memory of a worker and beat"),
    "redis_mib": Formula("MiB", _SIZES, "memory of Redis, without streams of events"),
}
CHANGES: Mapping[str, Formula] = {
    "web_change_s": Formula("CPU s", ("join", "grant"), "web processes, of what changes"),
    "worker_change_s": Formula("CPU s", _CHANGES, "Celery, of what changes"),
    "redis_change_s": Formula("CPU s", _CHANGES, "Redis, of what changes"),
    "database_bytes": Formula("bytes", ("sample", *_CHANGES), "the database grows by"),
    "database_rows": Formula("rows", ("sample", *_CHANGES), "rows that are added to it"),
}
EVENTS: Mapping[str, Formula] = {
    "redis_event_s": Formula("CPU s", _EVENTS, "Redis, of events that are appended and applied"),
    "redis_event_ops": Formula("commands", _EVENTS, "commands of Redis for these"),
    "redis_event_bytes": Formula("bytes", ("event",), "memory of Redis, until they are trimmed"),
}
CPU = ("cores", "CPU s")  # units
OF_RUNS: Mapping[str, Formula] = {**STEADY, **CHANGES}
FORMULAS: Mapping[str, Formula] = {**OF_RUNS, **EVENTS}
# Differences of a few seconds of joining and what the same time costs steadily: at sizes that are
# measured they are too small to be told from the noise, so predictions of them are told alone.
NOT_JUDGED = frozenset(("web_change_s", "worker_change_s", "redis_change_s"))

Constants = Mapping[str, Mapping[str, float]]  # figure -> term -> for one of it


def terms(constants: Constants, figure: str, load: Load) -> dict[str, float]:
    """What each term adds to the figure."""
    return {term: one * TERMS[term](load) for term, one in constants[figure].items()}


def predicted(constants: Constants, figure: str, load: Load) -> float:
    return sum(terms(constants, figure, load).values())


def sample_s(constants: Constants, load: Load) -> float:
    """CPU of one sample."""
    one = replace(load, samples=1.0)
    return sum(constants["worker_cores"][term] * TERMS[term](one) for term in _SAMPLE)


def sampled(constants: Constants, load: Load, seconds: float = 1.0) -> Load:
    """That load with the samples that are taken in so many seconds."""
    return replace(load, samples=seconds * SAMPLING.rate(load, sample_s(constants, load)))


def at_pace(constants: Constants, pace: float) -> Constants:
    """Those of an hour in which the same takes so many times the CPU."""
    return {
        figure: {
            term: value * (pace if FORMULAS[figure].unit in CPU else 1)
            for term, value in of.items()
        }
        for figure, of in constants.items()
    }


# --- how constants come out of measurements

Measured = tuple[Load, Mapping[str, float]]  # figure -> value


def fitted(measured: Sequence[Measured]) -> dict[str, dict[str, float]]:
    """Constants of OF_RUNS, none below 0, by least squares of relative errors: a small size counts
    as much as a large one. What nobody measured (0: below the clock's resolution) is left out.
    """
    found = {}
    for figure, formula in OF_RUNS.items():
        rows = [(load, of[figure]) for load, of in measured if of.get(figure, 0.0) > 0]
        matrix = np.array([[TERMS[term](load) for term in formula.terms] for load, _ in rows])
        values = np.array([value for _, value in rows])
        weighted = matrix.reshape(len(rows), len(formula.terms)) / values[:, None]
        found[figure] = dict(zip(formula.terms, _not_negative(weighted), strict=True))
    return found


def _not_negative(matrix: "np.ndarray") -> list[float]:
    """x >= 0 with the least |matrix x - 1|: the best of all choices of terms that are not 0, which
    are 2^6 at most.
    """
    count = matrix.shape[1]
    best, least = np.zeros(count), float(len(matrix))
    for choice in range(1, 2**count):
        chosen = [n for n in range(count) if choice >> n & 1]
        solved, *_ = np.linalg.lstsq(matrix[:, chosen], np.ones(len(matrix)), rcond=None)
        left = float(np.sum((matrix[:, chosen] @ solved - 1.0) ** 2))
        if (solved >= 0).all() and left < least:
            best, least = np.zeros(count), left
            best[chosen] = solved
    return [float(one) for one in best]
