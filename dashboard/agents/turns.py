"""Joins wait their turn: they come at a pace, which the groups share whose members wait, and those
for whom the wait would be too long are told when to come again, each a little later than the one
before it. The pace falls while heartbeats are answered late: each join brings some more at once.

So a herd (ten thousand agents that were started at once) comes back in a row, not as a herd.
"""

import math
from collections.abc import Callable

from assignment import sizes

# Below what the script takes of a group, whose seconds begin when those of Redis do. Of a process:
# with the heartbeats that follow, all that a core can do.
PER_SECOND = 0.9 * sizes.JOINS_PER_SECOND
LATE_S = 0.1  # until a heartbeat is answered; several times what it takes when there is room
COUNT_EVERY_S = 0.05  # groups that share the pace: a look at each of them
WAIT_MAX_S = 0.8  # an agent waits three seconds for an answer, and Redis has two
LATER_MAX_S = 60  # agents bound what they are told, too
GROUPS_MAX = 10_000  # that anybody waits for; twice the groups aimed at
ALL = ""  # what no group has to itself: this process


class Turns:
    """Of one process. Moments are monotonic seconds: of each group when its next turn is, and until
    when the turns are taken by those who were sent away. `lag_s`: how late heartbeats are answered.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.lag_s = 0.0
        self._sharing, self._counted_s = 1, -math.inf
        self._next: dict[str, float] = {}
        self._away: dict[str, float] = {}

    def take(self, group: str) -> float | None:
        """In how many seconds its turn is; None: too late to wait for it."""
        now_s = self._clock()
        turn_s = max(now_s, self._next.get(group, 0.0))
        if turn_s - now_s > WAIT_MAX_S:
            return None
        slower = max(1.0, self.lag_s / LATE_S)
        _put(self._next, group, turn_s + slower * self._apart_s(now_s), now_s)
        return turn_s - now_s

    def later_s(self, group: str = ALL) -> int:
        """When to come again, whole seconds: behind all who were sent away before. At the pace of
        when heartbeats are in time: whoever finds then that they are not is sent away anew.
        """
        now_s = self._clock()
        apart_s = 1 / PER_SECOND if group == ALL else self._apart_s(now_s)
        turn_s = max(now_s + WAIT_MAX_S, self._away.get(group, 0.0)) + apart_s
        turn_s = min(turn_s, now_s + LATER_MAX_S)
        _put(self._away, group, turn_s, now_s)
        return math.ceil(turn_s - now_s)

    def _apart_s(self, now_s: float) -> float:
        """From one turn of a group to its next, while heartbeats are in time."""
        if now_s - self._counted_s >= COUNT_EVERY_S:
            self._counted_s = now_s
            self._sharing = max(1, sum(until_s > now_s for until_s in self._next.values()))
        return self._sharing / PER_SECOND


def _put(moments: dict[str, float], group: str, moment_s: float, now_s: float) -> None:
    if len(moments) >= GROUPS_MAX and group not in moments:
        for past in [name for name, until_s in moments.items() if until_s <= now_s]:
            del moments[past]
        if len(moments) >= GROUPS_MAX:
            return
    moments[group] = moment_s
