"""All bugs to be planted, and how each is found: a simulation that misses one proves nothing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from tests.simulation import (
    planted,
    planted_losses,
    planted_replicas,
    planted_rounds,
    round_seeds,
    seeds,
)
from tests.simulation.outcome import Outcome

SEEDS_MAX, ROUND_SEEDS_MAX = 200, 500  # in so many each is found
SCENARIOS = [seeds.scenario_of(seed) for seed in range(SEEDS_MAX)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """`seeds` are tried until one fails; `reason` is what is said of it then."""

    plant: Callable[[pytest.MonkeyPatch], None]
    run: Callable[[int], Outcome] = seeds.run
    seeds: Sequence[int] = range(SEEDS_MAX)
    reason: str = ""

    def outcome(self) -> Outcome | None:
        """Of the first seed that fails with it; None: it is not found."""
        with pytest.MonkeyPatch.context() as patch:
            self.plant(patch)
            return next((o for seed in self.seeds if (o := self.run(seed)).broken), None)


def _shown_by(*faults: str, stateful: bool = False) -> list[int]:
    """Seeds that have one of these faults; without any, all of them."""
    shown = (s for s in SCENARIOS if not faults or {name for _, name in s.faults} & {*faults})
    return [s.seed for s in shown if s.replicas or not stateful]


def _bugs() -> Iterator[tuple[str, Bug]]:
    for name, plant in planted.PLANTED.items():
        yield name, Bug(plant=plant)
    for plant, (faults, reason) in planted_losses.PLANTED.items():
        yield plant.__name__, Bug(plant=plant, seeds=_shown_by(*faults), reason=reason)
    for name, plant in planted_replicas.PLANTED.items():
        shown_by = _shown_by(*planted_replicas.SHOWN_BY.get(name, ()), stateful=True)
        yield name, Bug(plant=plant, seeds=shown_by)
    for name, plant in planted_rounds.PLANTED.items():
        tried = range(ROUND_SEEDS_MAX)
        yield f"planner: {name}", Bug(plant=plant, run=round_seeds.run, seeds=tried)


BUGS = dict(_bugs())
