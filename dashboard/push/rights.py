"""Ends sockets that may not go on: at once when that is published, else by the next look.

One per event loop; all its sockets are looked at together. Uses no models.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async

from dashboard.live import push
from dashboard.records import sessions
from dashboard.records.rights import watched
from dashboard.records.sessions import Login

NOT_ALLOWED = 4403
NOT_THERE = 4404
LOOK_EVERY_S = 0.7  # without a word: what ended is over within a second
SOCKETS_MAX = 30  # of one user in one process: tabs that people have open, not what a script opens

log = logging.getLogger(__name__)


class Seat(NamedTuple):
    """Who watches which group."""

    login: Login
    group: str


End = Callable[[int], Awaitable[None]]  # given the code to close with


def refused(seats: Collection[Seat]) -> dict[Seat, int]:
    """Those that may not watch, or not go on, with the code that says why. Raises DatabaseError."""
    ended = sessions.ended({seat.login for seat in seats})
    there = watched({(seat.login.user_pk, seat.group) for seat in seats})
    found = {seat: NOT_THERE for seat in seats if (seat.login.user_pk, seat.group) not in there}
    return found | {seat: NOT_ALLOWED for seat in seats if seat.login in ended}


ask = partial(database_sync_to_async, thread_sensitive=False)(refused)


class TooManySockets(Exception):
    """This user has as many open as one may."""


class Rights:
    def __init__(self) -> None:
        self._open: dict[End, Seat] = {}
        self._changed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._is_blind = False

    def join(self, seat: Seat, end: End) -> None:
        """`end` is called once, when it may not go on. Raises TooManySockets."""
        counted = Counter(known.login.user_pk for known in self._open.values())
        if counted[seat.login.user_pk] >= SOCKETS_MAX:
            raise TooManySockets(seat.login.user_pk)
        self._open[end] = seat
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    def part(self, end: End) -> None:
        self._open.pop(end, None)
        if not self._open and self._running is not None:
            self._running.cancel()
            self._running = None

    async def _run(self) -> None:
        listener = asyncio.create_task(push.listen(push.RIGHTS, self._changed.set))
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_EVERY_S):
                        await self._changed.wait()
                self._changed.clear()
                await self._look()
        finally:
            listener.cancel()

    async def _look(self) -> None:
        try:
            over = await ask(set(self._open.values()))
        except Exception:  # whatever it is, the next look is as near
            if not self._is_blind:
                log.exception("whether open sockets may go on is not known")
            self._is_blind = True
            return
        self._is_blind = False
        for end in [end for end, seat in self._open.items() if seat in over]:
            # Not waited for: a browser that takes nothing in may keep a closing socket for long.
            task = asyncio.create_task(_quietly(end, over[self._open.pop(end)]))
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)


async def _quietly(end: End, code: int) -> None:
    with contextlib.suppress(Exception):  # one that is closing already
        await end(code)


_rights: WeakKeyDictionary[asyncio.AbstractEventLoop, Rights] = WeakKeyDictionary()


def rights() -> Rights:
    """The running loop's."""
    return _rights.setdefault(asyncio.get_running_loop(), Rights())
