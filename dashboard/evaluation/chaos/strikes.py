"""The faults: each is a context that strikes when it is entered and heals when it is left.

Who is struck is drawn from the run's seed, among the processes that the run started.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assignment.errors import InvalidInput
from dashboard.evaluation.chaos.asked import SCOPES
from dashboard.evaluation.chaos.history import Struck
from dashboard.evaluation.system import now_ms

if TYPE_CHECKING:
    from dashboard.evaluation.chaos.world import World


@dataclass(slots=True, kw_only=True)
class Strike:
    """One fault of a run. `worked` None: not known yet; `is_over`: it has ended by itself, so that
    nothing is waited for before the heal.
    """

    name: str
    world: "World"
    dice: random.Random
    victims: tuple[str, ...] = ()
    at_ms: int = 0
    healed_ms: int | None = None
    hurt: list[str] = field(default_factory=list)
    worked: bool | None = None
    is_over: bool = False
    how: str = ""
    wrong: list[str] = field(default_factory=list)

    def noted(self) -> Struck:
        return Struck(
            name=self.name,
            victims=self.victims,
            at_ms=self.at_ms,
            healed_ms=self.healed_ms,
            hurt=tuple(self.hurt),
            worked=self.worked,
            how=self.how,
            wrong=tuple(self.wrong),
        )


Fault = Callable[[Strike], AbstractContextManager[None]]
KNOWN: dict[str, Fault] = {}  # name without its scope


def fault(*names: str) -> Callable[[Callable[[Strike], Iterator[None]]], None]:
    def noted(strikes: Callable[[Strike], Iterator[None]]) -> None:
        KNOWN.update(dict.fromkeys(names, contextmanager(strikes)))

    return noted


def unscoped(name: str) -> tuple[str, str]:
    """Scope, "" for none, and what is done."""
    scope, _, rest = name.partition("-")
    return (scope, rest) if scope in SCOPES else ("", name)


def drawn(scope: str, names: Sequence[str], dice: random.Random, fixed: Sequence[str]) -> list[str]:
    """Victims: minor is below half and at least one, major above half, random any number."""
    if scope == "fixed":
        return list(fixed)
    half = len(names) / 2
    counts = {
        "minor": [n for n in range(1, len(names) + 1) if n < half] or [1],
        "major": [n for n in range(1, len(names) + 1) if n > half],
        "random": list(range(1, len(names) + 1)),
    }[scope]
    return sorted(dice.sample(list(names), dice.choice(counts)))


def strike(name: str, world: "World", dice: random.Random) -> Strike:
    """Not struck yet. Raises InvalidInput: it cannot be done here."""
    scope, what = unscoped(name)
    if what not in KNOWN:
        raise InvalidInput(f"the fault {name} cannot be struck here yet")
    names = world.asked.names
    victims = drawn(scope, names, dice, world.asked.victims) if scope else ()
    return Strike(name=name, world=world, dice=dice, victims=tuple(victims))


@contextmanager
def struck(one: Strike) -> Iterator[None]:
    """Healed whatever happens; `healed_ms` is set only when that worked."""
    what = unscoped(one.name)[1]
    who = f" {', '.join(one.victims)}" if one.victims else ""
    one.world.say(f"striking: {one.name}{who}")
    one.at_ms = now_ms()
    with KNOWN[what](one):
        yield
        one.world.say(f"healing: {one.name}")
    one.healed_ms = now_ms()
