"""All bugs to be planted, and how each is found: a simulation that misses one proves nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest

from tests.simulation import seeds
from tests.simulation.outcome import Outcome

SEEDS_MAX = 200  # in so many each is found
SCENARIOS = [seeds.scenario_of(seed) for seed in range(SEEDS_MAX)]
Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """`seeds` are tried until one fails for its `reason`, which is part of what is said then."""

    plant: Plant
    seeds: Sequence[int]
    reason: str

    def outcome(self) -> Outcome | None:
        """Of the first seed that shows it; None: it is not found."""
        with pytest.MonkeyPatch.context() as patch:
            self.plant(patch)
            tried = map(seeds.run, self.seeds)
            return next((one for one in tried if self.reason in one.broken), None)


BUGS: dict[str, Bug] = {}


def planted(
    reason: str, *faults: str, stateful: bool = False, rare: Sequence[int] = ()
) -> Callable[[Plant], Plant]:
    """A bug that is shown by these faults (only seeds that have one are tried; none: any), and what
    is said of it. `rare`: seeds that show it, where few do.
    """
    shown = (s for s in SCENARIOS if not faults or {name for _, name in s.faults} & {*faults})
    tried = [*rare, *(s.seed for s in shown if s.replicas or not stateful)]

    def noted(plant: Plant) -> Plant:
        BUGS[plant.__name__] = Bug(plant=plant, seeds=tried, reason=reason)
        return plant

    return noted


def instead_of(owner: Any, name: str, reason: str, *faults: str, **which: Any) -> Any:
    """As `planted`: a function in the place of another one, which it is given first."""

    def noted(bug: Callable[..., Any]) -> None:
        def plant(patch: Patch) -> None:
            right = getattr(owner, name)
            patch.setattr(owner, name, lambda *args, **how: bug(right, *args, **how))

        plant.__name__ = bug.__name__
        planted(reason, *faults, **which)(plant)

    return noted


import_module("tests.simulation.planted")  # notes each in BUGS
