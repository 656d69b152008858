"""How a setting of a group is declared: once, in GroupSettings (settings.py), as

    grace_ms: Annotated[int, Timing("Grace", "How long a batch in hand may take.", AGENTS)] = 8_000

Name, type and default are the dataclass's own; the kind says unit and bounds, what people read, who
goes by it and what a change causes. Checks, pages, commands, the API's schema, the text of the
audit and docs/settings.md are made of that. Knows nothing of any of them.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields
from enum import Flag as Flags
from enum import auto
from typing import Any, get_args, get_type_hints

from assignment.errors import InvalidInput
from assignment.names import NAME_MAX, valid_name
from assignment.reasons import Reason

PARAMETERS_MAX = 65_536  # characters: they ride in the settings that every agent is told
TIMING_MIN_MS = 50
TIMING_MAX_MS = 3_600_000
NAMES_MAX = 100  # of one setting, for the same reason


class User(Flags):
    """Who goes by a setting."""

    COORDINATOR = auto()  # who computes targets, the dashboard or an agent
    AGENTS = auto()
    CONSUMERS = auto()
    DASHBOARD = auto()


COORDINATOR, AGENTS, CONSUMERS, DASHBOARD = User
EVERYBODY = COORDINATOR | AGENTS | CONSUMERS | DASHBOARD


@dataclass(frozen=True, slots=True)
class Setting(ABC):
    """`once`: said when the group is made and never changed. `of_state`: it counts in a stateful
    group only. `by_action`: an action of its own sets it, so that it stands in no form or body of
    settings. `may_be_none`: None is a value, as the help says. `cause`: what a rebalance is called
    that a change makes due; None: no plan depends on it.
    """

    label: str
    help: str
    users: User
    _: KW_ONLY
    once: bool = False
    of_state: bool = False
    by_action: bool = False
    may_be_none: bool = False
    cause: Reason | None = None

    @property
    def is_changed_with_others(self) -> bool:
        return not (self.once or self.by_action)

    def check(self, name: str, value: Any) -> None:
        """Raises InvalidInput that names the setting and the value."""
        if value is not None or not self.may_be_none:
            self.check_value(name, value)

    @abstractmethod
    def check_value(self, name: str, value: Any) -> None:
        """As `check`, of a value that is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Name(Setting):
    def check_value(self, name: str, value: Any) -> None:
        if not isinstance(value, str):
            raise InvalidInput(f"{name} {value!r} is no text")
        valid_name(name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyName(Setting):
    """Which there are, `strategies.get` says: it loads numpy, which not every reader has."""

    def check_value(self, name: str, value: Any) -> None:
        if not isinstance(value, str):
            raise InvalidInput(f"{name} {value!r} is no text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters(Setting):
    """Of the strategy; their form only: what they mean is the strategy's to say."""

    def check_value(self, name: str, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise InvalidInput(f"{name} {value!r} is no object")
        try:
            size = len(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInput(f"{name} cannot be written: {error}") from error
        if size > PARAMETERS_MAX:
            raise InvalidInput(f"{name} has {size} characters, above {PARAMETERS_MAX}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag(Setting):
    """`on`, `off`: what either is called; a choice where it is more than yes and no."""

    on: str = "yes"
    off: str = "no"

    def said(self, value: bool) -> str:
        return self.on if value else self.off

    def check_value(self, name: str, value: Any) -> None:
        if not isinstance(value, bool):
            raise InvalidInput(f"{name} {value!r} is neither true nor false")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Setting):
    options: tuple[str, ...]

    def check_value(self, name: str, value: Any) -> None:
        if value not in self.options:
            raise InvalidInput(f"{name} {value!r} is not one of {self.options}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Setting):
    """A whole number from `least` to `most`, both included."""

    least: int = 0
    most: int

    def check_value(self, name: str, value: Any) -> None:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or not self.least <= value <= self.most:
            raise InvalidInput(
                f"{name} {value!r} is not a whole number within {self.least} and {self.most}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Size(Count):
    """Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration(Count):
    """In `unit_ms`, which the setting's name ends with: 1 for `_ms`, 1,000 for `_seconds`."""

    unit_ms: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing(Duration):
    """Of locks and beats: long enough to be kept, short enough to be waited for."""

    least: int = TIMING_MIN_MS
    most: int = TIMING_MAX_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Names(Setting):
    """Texts in a tuple, each once and at most NAME_MAX characters long."""

    def check_value(self, name: str, value: Any) -> None:
        if not isinstance(value, tuple) or len(value) > NAMES_MAX:
            raise InvalidInput(f"{name} {value!r:.200} is no list of at most {NAMES_MAX} names")
        for one in value:
            if not isinstance(one, str) or not 1 <= len(one) <= NAME_MAX:
                raise InvalidInput(
                    f"{name}: {one!r:.200} is no name of at most {NAME_MAX} characters"
                )
        if len(set(value)) < len(value):
            raise InvalidInput(f"{name} {value!r:.200} has a name twice")


def declared(kind: type) -> dict[str, Setting]:
    """Name -> what is said of it, as the dataclass lists them. TypeError: a field lacks that."""
    hints = get_type_hints(kind, include_extras=True)
    found = {}
    for one in fields(kind):
        said = [extra for extra in get_args(hints[one.name])[1:] if isinstance(extra, Setting)]
        if len(said) != 1:
            raise TypeError(f"{kind.__name__}.{one.name} is not declared as a setting")
        found[one.name] = said[0]
    return found
