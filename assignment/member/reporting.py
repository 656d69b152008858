"""What a member's heartbeats say of the partitions that it owns."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from assignment import wire

Owned = Mapping[str, str]  # partition -> "fence state"


@dataclass(frozen=True, slots=True)
class Report:
    number: int
    complete: bool
    owned: Mapping[str, str | None]


@dataclass(slots=True)
class Reporter:
    """What the next heartbeat says of the owned partitions: all of them, or what changed since.

    Changes are cumulative since the last complete report that was answered; a new complete one
    after CHANGES_MAX of them, when asked, and after joining (coordination.md section 3), and when
    it is no longer than they are: then later heartbeats have nothing to say. Numbers never go back
    while the process lives.
    """

    number: int = 0
    _base: Owned = field(default_factory=dict)
    _answered: bool = False  # whether the complete report `number` is known to have arrived

    def start_anew(self) -> None:
        self._answered = False

    def next(self, owned: Owned) -> Report:
        if self._answered:
            changes = changes_since(self._base, owned)
            if not changes or len(changes) < min(len(owned), wire.CHANGES_MAX + 1):
                return Report(self.number, False, changes)
        self.number += 1
        self._base, self._answered = dict(owned), False
        return Report(self.number, True, self._base)

    def answered(self, number: int, complete: bool, want_complete: bool) -> None:
        """The dashboard's answer to that report; late ones are about another number."""
        if number != self.number:
            return
        if want_complete:
            self._answered = False
        elif complete:
            self._answered = True


def changes_since(base: Owned, owned: Owned) -> dict[str, str | None]:
    changed: dict[str, str | None] = {p: v for p, v in owned.items() if base.get(p) != v}
    return changed | {p: None for p in base if p not in owned}
