"""Virtual time: what happens next, in the order of its milliseconds.

Of what is due in the same millisecond the order is drawn, so that seeds differ in it too.
"""

import heapq
import random
from collections.abc import Callable

What = Callable[[], None]


class Agenda:
    def __init__(self, rng: random.Random, now_ms: int) -> None:
        self.now_ms = now_ms
        self.steps = 0
        self._random = rng
        self._due: list[tuple[int, float, int, What]] = []
        self._count = 0

    def at(self, ms: int, what: What) -> None:
        """What lies in the past happens now."""
        self._count += 1
        entry = (max(ms, self.now_ms), self._random.random(), self._count, what)
        heapq.heappush(self._due, entry)

    def after(self, ms: int, what: What) -> None:
        self.at(self.now_ms + ms, what)

    def step(self) -> None:
        """Time goes on to the next thing, and it happens."""
        self.now_ms, _, _, what = heapq.heappop(self._due)
        self.steps += 1
        what()


class Alarm:
    """Rings once, at the earliest time asked for since it rang last."""

    def __init__(self, agenda: Agenda, ring: What) -> None:
        self._agenda = agenda
        self._ring = ring
        self._at_ms: int | None = None

    def ask(self, at_ms: int) -> None:
        if self._at_ms is None or at_ms < self._at_ms:
            self._at_ms = at_ms
            self._agenda.at(at_ms, lambda: self._reached(at_ms))

    def _reached(self, at_ms: int) -> None:
        if at_ms == self._at_ms:  # else an earlier one rang meanwhile
            self._at_ms = None
            self._ring()
