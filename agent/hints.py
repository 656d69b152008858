"""Listens to a group's control stream, so that a change is acted on at once and not at the next
beat.

Nothing depends on a hint: whoever misses one reads the same facts with the next renew.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agent.store.door import StoreUnavailable
from agent.store.group import GroupStore
from assignment.types import Reason

WAIT_MS = 10_000
GIVEN_UP = (Reason.RELEASED, Reason.EXPIRED, Reason.LEAVE)
AWAY_S = 1.0  # between two tries while Redis is away


@dataclass(frozen=True, slots=True)
class Hinted:
    reasons: frozenset[str]


class HintListener:
    """`hear` is told of every hint; `deliver` of those that concern the member."""

    def __init__(
        self,
        store: GroupStore,
        member_id: str,
        deliver: Callable[[Hinted | BaseException], None],
        hear: Callable[[Iterable[str]], None],
    ) -> None:
        self._store = store
        self._hear = hear
        self._member_id = member_id
        self._deliver = deliver
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hints", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        try:
            while not self._closed.is_set():
                try:
                    self._listen()
                except StoreUnavailable:
                    self._closed.wait(AWAY_S)
        except BaseException as error:  # a bug: the loop must hear of it and end
            if not self._closed.is_set():
                self._deliver(error)

    def _listen(self) -> None:
        """From the end of the stream as it is now: a Redis started anew may have lost ids."""
        after = self._store.last_hint_id()
        self._deliver(Hinted(frozenset({Reason.TARGET, Reason.RELEASED})))
        while not self._closed.is_set():
            heard = self._store.wait_hints(after, WAIT_MS)
            after = heard.last_id
            self._hear(hint.reason for hint in heard.hints)
            me = self._member_id
            mine = (h.reason for h in heard.hints if concerns(h.reason, h.member_id, me))
            if reasons := frozenset(mine):
                self._deliver(Hinted(reasons))


def concerns(reason: str, hinted_member_id: str, member_id: str) -> bool:
    """who else revoked or joined changes nothing here; a lock given up may be waited for."""
    return hinted_member_id in ("", member_id) or reason in GIVEN_UP
