"""A few facts that the driver and Spark's planner process share: both live on the driver's machine.

Numbers lie in a mapped file (each is one aligned word with one writer); what is not to be planned
and the plan lie in JSON files that are replaced as a whole.
"""

import json
import mmap
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from assignment.troubles import Halted, read_trouble, trouble_values

_NAMES = ("lease_end_ms", "stopping", "planned", "finished", "polls", "events_max", "warm_up")
_SIZE = 8 * len(_NAMES)


class Shared:
    """`lease_end_ms`, `stopping`, `finished`, `events_max` and `warm_up` (batches that are wanted
    first and not committed) are the driver's, the others the planner's: number of the last plan it
    made, how often it was asked.
    """

    def __init__(self, folder: Path) -> None:
        self._plan = folder / "plan.json"
        self._held_back = folder / "held_back.json"
        self._halted = folder / "halted.json"
        self._halted_told: list[Halted] = []
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
        fresh = self._plan.with_suffix(".fresh")
        fresh.write_text(json.dumps(plan))
        fresh.rename(self._plan)
        self.set("planned", number)

    def read_plan(self) -> dict[str, Any]:
        plan: dict[str, Any] = json.loads(self._plan.read_text())
        return plan

    def hold_back(self, claims: Iterable[tuple[str, int]], dead_letters: str) -> None:
        """(partition, fence) pairs that must not be planned, and what a malformed entry does."""
        fresh = self._held_back.with_suffix(".fresh")
        fresh.write_text(json.dumps({"claims": sorted(claims), "dead_letters": dead_letters}))
        fresh.rename(self._held_back)

    def tell_halted(self, halted: list[Halted]) -> None:
        """The planner's word to the driver, which says it to others."""
        if halted == self._halted_told:
            return
        fresh = self._halted.with_suffix(".fresh")
        fresh.write_text(json.dumps([trouble_values(one) for one in halted]))
        fresh.rename(self._halted)
        self._halted_told = halted

    def halted(self) -> list[Halted]:
        try:
            return [read_trouble(Halted, one) for one in json.loads(self._halted.read_text())]
        except FileNotFoundError:
            return []

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
