"""Another value for each setting of a group, made of its declaration: nothing is listed by name."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from assignment import strategies
from assignment.errors import InvalidInput
from assignment.setting import (
    Choice,
    Count,
    Flag,
    Names,
    Parameters,
    Setting,
    StrategyName,
)
from assignment.settings import SETTINGS, GroupSettings


def others_than(settings: GroupSettings) -> dict[str, Any]:
    """By name: of those that are changed together, as JSON has them."""
    values = settings.values()
    return {
        name: other_value(setting, values[name])
        for name, setting in SETTINGS.items()
        if setting.is_changed_with_others
    }


def other_value(setting: Setting, value: Any) -> Any:
    """A timing is one less, so that they fit each other as before."""
    if isinstance(setting, Count):
        fewer = value - 1 if value else setting.least + 1
        return max(setting.least, fewer)
    return OTHERS[type(setting)](setting, value)


OTHERS: dict[type[Setting], Callable[[Any, Any], Any]] = {
    Flag: lambda _, value: not value,
    Choice: lambda setting, value: next(one for one in setting.options if one != value),
    Names: lambda *_: ["one", "two"],
    StrategyName: lambda _, value: next(name for name in plain_strategies() if name != value),
    Parameters: lambda _, value: dict(value),  # which every strategy takes that is drawn
}


def plain_strategies() -> Iterator[str]:
    """Those that need no parameters."""
    for name in strategies.NAMES:
        with suppress(InvalidInput):
            strategies.get(name)
            yield name
