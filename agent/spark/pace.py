"""How large the next batch may be, and when it is due: as seldom as the latency goal allows.

A batch costs about as much CPU for one event as for a thousand. So events that arrive one by one
wait for each other, as long as all of them are still committed within the goal of their append.
Pure; in ms of one clock that only goes forward. It decides how soon, never what.
"""

from collections import deque
from dataclasses import dataclass, field

from assignment.types import GroupSettings

EVENTS_FIRST = 5_000  # of the first batch: it is slow, and a slow machine must end it in time
EVENTS_MIN, EVENTS_MAX = 5_000, 1_000_000
BATCH_S = 2.5  # aim: short beside a grace of 8 s, long beside what a batch costs at all
STALL_PARTS = 2  # a consumer that waits on purpose must not be taken for one that hangs
FEW_EVENTS = 1_000  # they take no longer than one does
EXPECTED_OF = 8  # batches: the next one is expected to take as long as the slowest of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What the next batch would read, and its bounds. `events` None: nobody counted them."""

    events: int | None
    events_max: int  # of a batch
    goal_ms: int  # from append to commit
    lease_end_ms: int


def latency_goal_ms(settings: GroupSettings) -> int:
    return min(settings.latency_goal_ms, settings.consumer_stall_ms // STALL_PARTS)


@dataclass(slots=True)
class Pace:
    """Remembers how long batches took, and since when an event may wait."""

    _took_ms: deque[int] = field(default_factory=lambda: deque(maxlen=EXPECTED_OF))
    _events: int = 0  # of the last batch
    _planned_ms: int | None = None  # of the batch in hand
    _since_ms: int | None = None

    @property
    def last_ms(self) -> int:
        """From the last batch's plan to when the next one was asked for; 0: there was none."""
        return self._took_ms[-1] if self._took_ms else 0

    def planned(self, events: int | None, now_ms: int) -> None:
        self._events = events or 0
        self._planned_ms, self._since_ms = now_ms, None

    def finished(self, now_ms: int) -> None:
        """To be called whenever a plan is asked for: the batch before is finished then. What is
        found now may have been appended right after that one was planned.
        """
        if self._planned_ms is not None:
            self._took_ms.append(now_ms - self._planned_ms)
            self._planned_ms, self._since_ms = None, self._planned_ms

    def nothing_waits(self) -> None:
        self._since_ms = None

    def wait_ms(self, waiting: Waiting, now_ms: int) -> int:
        """How long the next batch may wait; 0: it is due."""
        if self._since_ms is None:
            self._since_ms = now_ms
        if not self._took_ms or self._is_backlog(waiting):
            return 0
        expected_ms = max(self._took_ms)
        due_ms = min(
            self._since_ms + waiting.goal_ms - expected_ms,
            waiting.lease_end_ms - 2 * expected_ms,  # a batch that begins still ends in time
        )
        return max(0, due_ms - now_ms)

    def _is_backlog(self, waiting: Waiting) -> bool:
        """More than is committed in the time that a batch is expected to take."""
        most = min(waiting.events_max, max(FEW_EVENTS, self._events))
        return waiting.events is None or waiting.events > most


@dataclass(slots=True)
class Rate:
    """How many events a batch may have, from how fast the ones before it were."""

    events_max: int = EVENTS_FIRST

    def learn(self, events: int, took_s: float) -> None:
        """Twice as many after a full batch that was quick, since part of the time is the same for
        any number; fewer after one that took too long.
        """
        wanted = self.events_max
        if took_s > 2 * BATCH_S:
            wanted = max(wanted // 2, int(events * BATCH_S / took_s))
        elif took_s < BATCH_S and events >= wanted // 2:
            wanted *= 2
        self.events_max = max(EVENTS_MIN, min(wanted, EVENTS_MAX))
