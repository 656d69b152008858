"""Many seeds, one after the other or over some processes, until the first that fails."""

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.simulation import seeds
from tests.simulation.outcome import Outcome

AT_ONCE = 10  # seeds that a process takes
Progress = Callable[["Summary"], None]


@dataclass(kw_only=True)
class Summary:
    """Sums over runs, one of each seed. `broken` is the first that failed."""

    runs: int = 0
    passed: int = 0
    vacuous: int = 0
    steps: int = 0
    cpu_ms: float = 0.0
    members_max: int = 0
    settled_ms_max: int = 0
    destroyed: int = 0
    wall_s: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    idle: Counter[str] = field(default_factory=Counter)
    struck: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    broken: Outcome | None = None

    @property
    def runs_per_s(self) -> float:
        return self.runs / self.wall_s if self.wall_s else 0.0

    @property
    def runs_per_cpu_s(self) -> float:
        return 1_000 * self.runs / self.cpu_ms if self.cpu_ms else 0.0

    def add(self, outcome: Outcome) -> None:
        self.runs += 1
        self.passed += outcome.passed
        self.vacuous += outcome.vacuous
        self.steps += outcome.steps
        self.cpu_ms += outcome.cpu_ms
        self.destroyed += outcome.destroyed
        self.members_max = max(self.members_max, outcome.members)
        self.settled_ms_max = max(self.settled_ms_max, outcome.settled_ms)
        self.faults.update(outcome.faults)
        self.idle.update(outcome.idle)
        self.struck.update(outcome.struck)
        self.reached.update(outcome.reached)
        if outcome.broken:
            self.broken = outcome


def run_many(
    chosen: Sequence[int],
    *,
    jobs: int = 1,
    progress: Progress = lambda summary: None,
) -> Summary:
    """In the order of the seeds, whatever `jobs` is, so that the first failure is the same."""
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
        yield from map(seeds.run, chosen)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(seeds.run, chosen, chunksize=AT_ONCE)
