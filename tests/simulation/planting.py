"""All bugs to be planted, and how each is found: a simulation that misses one proves nothing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pytest

from tests.simulation import planted, planted_losses, planted_replicas, seeds
from tests.simulation.outcome import Outcome

SEEDS_MAX = 200  # in so many each is found
SCENARIOS = [seeds.scenario_of(seed) for seed in range(SEEDS_MAX)]
Plant = Callable[[pytest.MonkeyPatch], None]
# Each with the faults by which it is shown (only seeds that have one are tried; none: any), and
# with what is said of it.
Planted = Mapping[Plant, tuple[tuple[str, ...], str]]


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


def _shown_by(*faults: str, stateful: bool = False) -> list[int]:
    """Seeds that have one of these faults; without any, all of them."""
    shown = (s for s in SCENARIOS if not faults or {name for _, name in s.faults} & {*faults})
    return [s.seed for s in shown if s.replicas or not stateful]


def _bugs(planted: Planted, *, stateful: bool = False) -> Iterator[tuple[str, Bug]]:
    for plant, (faults, reason) in planted.items():
        shown_by = _shown_by(*faults, stateful=stateful)
        yield plant.__name__, Bug(plant=plant, seeds=shown_by, reason=reason)


BUGS = dict(
    (
        *_bugs(planted.PLANTED),
        *_bugs(planted_losses.PLANTED),
        *_bugs(planted_replicas.PLANTED, stateful=True),
    )
)
