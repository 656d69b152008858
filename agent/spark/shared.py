"""A few facts that the driver and Spark's planner process share: both live on the driver's machine.

Numbers lie in a mapped file (each is one aligned word with one writer); what is not to be planned
and the plan lie in JSON files that are replaced as a whole.
"""

import json
import mmap
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from assignment.troubles import Halted, read_trouble, trouble_values

_NAMES = (
    *("lease_end_ms", "stopping", "planned", "finished", "polls", "events_max", "warm_up"),
    *("latency_goal_ms", "batch_ms"),
)
_SIZE = 8 * len(_NAMES)


class Troubles(NamedTuple):
    """What keeps partitions from being planned: passing trouble as text, and what is halted."""

    why: tuple[str, ...] = ()
    halted: tuple[Halted, ...] = ()


class Shared:
    """`lease_end_ms`, `stopping`, `finished`, `events_max`, `latency_goal_ms` and `warm_up`
    (batches that are wanted first and not committed) are the driver's, the others the planner's:
    number of the last plan it made, how often it was asked, how long the last batch took.
    """

    def __init__(self, folder: Path) -> None:
        self._plan = folder / "plan.json"
        self._held_back = folder / "held_back.json"
        self._troubles = folder / "troubles.json"
        self._told = Troubles()
        self._seen: tuple[int, frozenset[tuple[str, int]], str] = (0, frozenset(), "keep")
        with (folder / "numbers").open("r+b") as file:
            self._words = mmap.mmap(file.fileno(), _SIZE)

    @classmethod
    def create(cls, folder: Path) -> Self:
        (folder / "numbers").write_bytes(bytes(_SIZE))
        return cls(folder)

    def get(self, name: str) -> int:
        (value,) = struct.unpack_from("<q", self._words, 8 * _NAMES.index(name))
        return int(value)

    def set(self, name: str, value: int) -> None:
        struct.pack_into("<q", self._words, 8 * _NAMES.index(name), value)

    def write_plan(self, number: int, plan: Mapping[str, Any]) -> None:
        """The plan that Spark gets now; of no use unless the tasks that read it say its number."""
        _replace(self._plan, plan)
        self.set("planned", number)

    def read_plan(self) -> dict[str, Any]:
        plan: dict[str, Any] = json.loads(self._plan.read_text())
        return plan

    def hold_back(self, claims: Iterable[tuple[str, int]], dead_letters: str) -> None:
        """(partition, fence) pairs that must not be planned, and what a malformed entry does."""
        _replace(self._held_back, {"claims": sorted(claims), "dead_letters": dead_letters})

    def tell(self, troubles: Troubles) -> None:
        """The planner's word to the driver, which says it to others."""
        if troubles != self._told:
            halted = [trouble_values(one) for one in troubles.halted]
            _replace(self._troubles, {"why": troubles.why, "halted": halted})
            self._told = troubles

    def troubles(self) -> Troubles:
        try:
            told = json.loads(self._troubles.read_text())
        except FileNotFoundError:
            return Troubles()
        halted = tuple(read_trouble(Halted, one) for one in told["halted"])
        return Troubles(tuple(told["why"]), halted)

    def held_back(self) -> tuple[frozenset[tuple[str, int]], str]:
        try:
            changed = self._held_back.stat().st_ino
        except FileNotFoundError:
            return frozenset(), "keep"
        if changed != self._seen[0]:
            values = json.loads(self._held_back.read_text())
            claims = frozenset((p, f) for p, f in values["claims"])
            self._seen = (changed, claims, values["dead_letters"])
        return self._seen[1], self._seen[2]


def _replace(file: Path, content: Any) -> None:
    fresh = file.with_suffix(".fresh")
    fresh.write_text(json.dumps(content))
    fresh.rename(file)
