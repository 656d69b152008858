"""Strategies by name: who should own what, given the members and what they hold already.

`get(name)` is the one way in. A strategy is a function from `StrategyInput` to `Assigned`; it is
deterministic and gives each partition of a subscribed topic to exactly one subscribed member.
"""

from collections.abc import Callable, Mapping

from assignment.errors import InvalidInput
from assignment.strategies import averagely, sticky
from assignment.strategies.given import Assigned, StrategyInput

Strategy = Callable[[StrategyInput], Assigned]

_STRATEGIES: Mapping[str, Strategy] = {"averagely": averagely.assign, "sticky": sticky.assign}
NAMES = tuple(sorted(_STRATEGIES))


def get(name: str) -> Strategy:
    """InvalidInput names an unknown strategy and the known ones."""
    try:
        return _STRATEGIES[name]
    except KeyError:
        known = ", ".join(NAMES)
        raise InvalidInput(f"strategy {name!r} is not known; known are {known}") from None


__all__ = ["NAMES", "Assigned", "Strategy", "StrategyInput", "get"]
