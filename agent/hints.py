"""Listens to what concerns a member, so that a change is acted on at once and not at the next beat;
what all of a large group are told, one after the other (member/pacing.py).

Nothing depends on a hint: whoever misses one reads the same facts with the next renew.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from agent.store.door import StoreUnavailable
from agent.store.group import GroupStore
from assignment.member import pacing
from assignment.types import Reason

WAIT_MS = 10_000
AWAY_S = 1.0  # between two tries while Redis is away


@dataclass(frozen=True, slots=True)
class Hinted:
    reasons: frozenset[str]


class HintListener:
    """Both are told of each hint to the member and to all: `hear` on the member's behalf as the one
    that computes, where it does.
    """

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
        self._phase = pacing.phase_of(member_id)
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
        keys = self._store.keys
        after: Mapping[str, str] = self._store.last_hints(keys.hints(self._member_id), keys.calls)
        self._deliver(Hinted(frozenset({Reason.TARGET, Reason.RELEASED})))
        while not self._closed.is_set():
            heard = self._store.wait_hints(after, WAIT_MS)
            after = heard.after
            if heard.reasons:
                self._hear(heard.reasons)
                self._closed.wait(pacing.called_ms(heard.members, self._phase) / 1e3)
                self._deliver(Hinted(heard.reasons))
