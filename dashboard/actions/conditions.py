"""When a plan may be approved without a person looking at it: the conditions of a rule, decided by
values alone. Knows no database.
"""

import re
from dataclasses import dataclass
from typing import Any

from assignment.errors import InvalidInput
from assignment.types import PARTITIONS_MAX
from dashboard.actions.roles import EVERY_GROUP, Grant, Role
from dashboard.records.planned import PlanKind

DAY_MINUTES = 24 * 60
CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")


def minute_of(text: str) -> int:
    """Of the day. Raises InvalidInput."""
    found = CLOCK.fullmatch(text.strip())
    if not found:
        raise InvalidInput(f"{text!r} is no time of day like 22:00")
    return 60 * int(found[1]) + int(found[2])


def clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """`begins`, `ends`: minutes of the UTC day, the last one not included; over midnight when it
    ends before it begins, all day when they are equal. Raises InvalidInput.
    """

    kinds: tuple[str, ...]
    moves_max: int
    pattern: str = EVERY_GROUP
    begins: int = 0
    ends: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "pattern", self._grant.pattern)
        unknown = sorted(set(self.kinds) - set(PlanKind.values))
        if unknown or not self.kinds:
            named = f"there is no kind {unknown[0]!r}" if unknown else "no kind of plan is named"
            raise InvalidInput(f"{named}: {', '.join(PlanKind.values)}")
        ordered = tuple(kind for kind in PlanKind.values if kind in self.kinds)
        object.__setattr__(self, "kinds", ordered)
        if not 0 <= self.moves_max <= PARTITIONS_MAX:
            raise InvalidInput(f"moves_max {self.moves_max} is not within 0 and {PARTITIONS_MAX}")
        for minute in (self.begins, self.ends):
            if not 0 <= minute < DAY_MINUTES:
                raise InvalidInput(f"minute {minute} is not within 0 and {DAY_MINUTES - 1}")

    @property
    def _grant(self) -> Grant:
        """Patterns of groups' names are those of grants."""
        return Grant(role=Role.APPROVER, pattern=self.pattern)

    @property
    def hours(self) -> str:
        if self.begins == self.ends:
            return "all day"
        return f"{clock(self.begins)} to {clock(self.ends)} UTC"

    def is_hour(self, minute: int) -> bool:
        if self.begins <= self.ends:
            return self.begins == self.ends or self.begins <= minute < self.ends
        return minute >= self.begins or minute < self.ends

    def are_met(self, *, group: str, kind: str, moves: int, minute: int) -> bool:
        return (
            kind in self.kinds
            and moves <= self.moves_max
            and self._grant.covers(group)
            and self.is_hour(minute)
        )

    def shown(self, *, moves: int, minute: int) -> dict[str, Any]:
        """The values that met them, each beside its condition."""
        return {
            "groups": self.pattern,
            "kinds": list(self.kinds),
            "moves": moves,
            "moves_max": self.moves_max,
            "at": f"{clock(minute)} UTC",
            "hours": self.hours,
        }
