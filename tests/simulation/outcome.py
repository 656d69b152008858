"""What came of one seed, and of many."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

COUNTED = ("faults", "idle", "struck", "reached")
SUMMED = ("passed", "vacuous", "steps", "cpu_ms", "destroyed")


@dataclass(kw_only=True)
class Sums:
    steps: int = 0
    destroyed: int = 0  # events without an effect, which Redis lost
    cpu_ms: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    idle: Counter[str] = field(default_factory=Counter)  # faults that did nothing to be seen
    struck: Counter[str] = field(default_factory=Counter)  # what was lost, refused, left undone
    reached: Counter[str] = field(default_factory=Counter)  # what a stateful group came to


@dataclass(kw_only=True)
class Outcome(Sums):
    """`scenario`: what was drawn from the seed."""

    seed: int
    scenario: Any
    members: int = 0
    owned_ms: int = 0  # after healing, until everything was owned
    settled_ms: int = 0
    broken: str = ""
    trace: str = ""

    @property
    def vacuous(self) -> bool:
        """Nothing that its faults did could be seen, so that it proves nothing."""
        return not self.broken and self.faults == self.idle and not self.struck.total()

    @property
    def passed(self) -> bool:
        return not self.broken and not self.vacuous


@dataclass(kw_only=True)
class Summary(Sums):
    """Over runs, one of each seed. `broken` is the first that failed."""

    runs: int = 0
    passed: int = 0
    vacuous: int = 0
    members_max: int = 0
    settled_ms_max: int = 0
    wall_s: float = 0.0
    broken: Outcome | None = None

    @property
    def runs_per_s(self) -> float:
        return self.runs / self.wall_s if self.wall_s else 0.0

    @property
    def runs_per_cpu_s(self) -> float:
        return 1_000 * self.runs / self.cpu_ms if self.cpu_ms else 0.0

    def add(self, outcome: Outcome) -> None:
        self.runs += 1
        for name in SUMMED:
            setattr(self, name, getattr(self, name) + getattr(outcome, name))
        for name in COUNTED:
            getattr(self, name).update(getattr(outcome, name))
        self.members_max = max(self.members_max, outcome.members)
        self.settled_ms_max = max(self.settled_ms_max, outcome.settled_ms)
        if outcome.broken:
            self.broken = outcome
