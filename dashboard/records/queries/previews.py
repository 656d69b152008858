"""What a rebalance would do now, per strategy: the core's own answer, computed on the live view."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from assignment import strategies
from assignment.coordinator.planning import PLANNER, Planning, target_of
from assignment.coordinator.reading import settings_of
from assignment.coordinator.record import Change
from assignment.coordinator.what_if import imagined
from assignment.errors import InvalidInput
from assignment.scripts.group_read import GroupRead, Purpose
from dashboard.live import groups as live_groups

RULE = "the most even; of those, the one with the fewest moves"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """`change` is None where the strategy cannot be used now; `problem` says why."""

    strategy: str
    change: Change | None
    recommended: bool = False
    problem: str = ""

    @property
    def is_idle(self) -> bool:
        """Whether to run it would leave each partition where it is, and nobody would learn."""
        found = self.change
        return found is not None and not (found.moves or found.learning or found.waiting)


@dataclass(frozen=True, slots=True, kw_only=True)
class Previews:
    """Of a stateful group there is one only: the planner's, which has no strategy to choose.
    `view`: from which they were computed, with whoever was added or removed in thought.
    """

    stateful: bool
    every: list[Preview]
    view: GroupRead

    def chosen(self, strategy: str) -> Preview:
        """The one of that name; the recommended one without a name, or where there is no choice."""
        named = [preview for preview in self.every if preview.strategy == strategy]
        return (named or self.every)[0]


def of_group(
    name: str,
    strategy: str = "",
    parameters: Mapping[str, Any] | None = None,
    *,
    add: int = 0,
    remove: Collection[str] = (),
) -> Previews:
    """The recommended one first, those that cannot be used last. `strategy` is shown with these
    parameters, the group's own with the group's own; `add` and `remove`: members in thought.
    Raises StoreUnavailable, and InvalidInput when the group cannot be read or has no such member.
    """
    view = imagined(live_groups.read(name, Purpose.LOOK), add=add, remove=remove)
    stateful = settings_of(view).stateful
    if stateful:
        found = [_looked(PLANNER, lambda: target_of(view).change)]
    else:
        planning = Planning(view)
        found = [
            _looked(n, partial(planning.change, n, parameters if n == strategy else None))
            for n in strategies.NAMES
        ]
    best = min(found, key=_order)
    return Previews(
        stateful=stateful,
        every=[replace(p, recommended=p is best) for p in sorted(found, key=_order)],
        view=view,
    )


def _looked(strategy: str, change: Callable[[], Change]) -> Preview:
    try:
        return Preview(strategy=strategy, change=change())
    except InvalidInput as error:
        return Preview(strategy=strategy, change=None, problem=str(error))


def _order(preview: Preview) -> tuple[bool, int, int, int, bool, str]:
    """RULE. Whether loads differ by one or none does not matter; what is unowned does most."""
    change = preview.change
    if change is None:
        return True, 0, 0, 0, False, preview.strategy
    uneven = max(1, change.max_minus_min or 0)
    unowned = -sum(change.loads.values())
    moves = len(change.moves)
    return False, unowned, uneven, moves, preview.strategy != strategies.DEFAULT, preview.strategy
