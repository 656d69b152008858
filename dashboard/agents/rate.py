"""How many requests a token has a second."""

import time

from django.conf import settings

from dashboard.agents.requests import Problem
from dashboard.live.batch import NOT_COUNTED, Counted
from dashboard.live.queue import QueueKeys

UNTOLD_SHARE = 50  # so many processes together may pass a limit by what it is again, at most


class Rate:
    """Requests of a token in the current second, counted here before their bodies are read, and in
    Redis over all processes: each tells of its own once another part of the limit is full, of which
    it has UNTOLD_SHARE. So most requests cost no command.

    That count comes back with the answers, so a token is refused from the batch after the one that
    passed its limit.
    """

    def __init__(self) -> None:
        self._second = self._limit = 0
        self._begun: dict[int, int] = {}  # by token
        self._told: dict[int, int] = {}
        self._spent: set[int] = set()
        self._names: dict[str, int] = {}  # of counters of this second

    def admitted(self, group: str, token_id: int) -> Counted:
        """What to count with its call. Raises Problem 429."""
        if (second := int(time.time())) != self._second:
            self._second, self._limit = second, settings.AGENT_RATE_PER_SECOND
            self._begun, self._told, self._spent, self._names = {}, {}, set(), {}
        limit = self._limit
        begun = self._begun[token_id] = self._begun.get(token_id, 0) + 1
        if begun > limit or token_id in self._spent:
            raise Problem(
                429, "Too many requests", f"this token has had its {limit} requests of a second"
            )
        untold = begun - self._told.get(token_id, 0)
        if untold * UNTOLD_SHARE < limit:
            return NOT_COUNTED
        self._told[token_id] = begun
        name = f"{QueueKeys(group).rate}:{token_id}:{second}"
        self._names[name] = token_id
        return Counted(name, untold)

    def counted(self, name: str, count: int) -> None:
        """`name`: "" where nothing was; one of an earlier second concerns nobody any more."""
        if count > self._limit and name in self._names:
            self._spent.add(self._names[name])
