"""Whom a token speaks for, as requests ask: what is remembered, or one reading of the database for
all who ask meanwhile. What is older than REMEMBERED_S serves while it is read again, with all
others of some moments: a query costs as much as a hundred tokens of it.
"""

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import NamedTuple

from channels.db import database_sync_to_async
from django.db import DatabaseError

from dashboard.agents import tokens

READ_AT_ONCE = 500  # tokens of one query: a database binds a thousand values at least
GATHER_S = 0.5  # whoever is remembered; a thousand tokens are due in six such times
WAITING_MAX = tokens.REMEMBERED_MAX  # different ones; a web process has fewer requests
in_thread = partial(database_sync_to_async, thread_sensitive=False)  # not behind a slow page


class Asked(NamedTuple):
    address: str  # of whoever asked first
    answer: "asyncio.Future[tokens.Known]"


class TooMany(Exception):
    """More tokens wait to be read than may."""


class KnownTokens:
    """One per event loop."""

    def __init__(self) -> None:
        self._remembered = tokens.Remembered()
        self._waiting: dict[str, Asked] = {}
        self._read: dict[str, Asked] = {}  # by the reading that runs
        self._reading: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()  # somebody waits for the answer
        self._used: set[int] = set()
        self._ended: dict[int, str] = {}
        self._noting: asyncio.Task[None] | None = None
        self._looked_s = 0.0  # monotonic: when what was revoked was asked for
        self._looking: asyncio.Task[None] | None = None

    def at_once(self, digest: str, address: str) -> tokens.Known | None:
        """None: the database has to be asked first, for this token or for what was revoked."""
        return None if self._is_look_due() else self.get(digest, address)

    def get(self, digest: str, address: str) -> tokens.Known | None:
        """None: the database has to be asked first."""
        known = self._remembered.get(digest)
        if known is not None and self._remembered.is_due(known):
            with suppress(TooMany):
                self._ask(digest, address)
        return known

    async def read(self, digest: str, address: str) -> tokens.Known:
        """Raises DatabaseError, TooMany."""
        answer = self._ask(digest, address)
        self._hurry.set()
        return await asyncio.shield(answer)

    def _ask(self, digest: str, address: str) -> "asyncio.Future[tokens.Known]":
        asked = self._read.get(digest) or self._waiting.get(digest)
        if asked is None:
            if len(self._waiting) >= WAITING_MAX:
                raise TooMany
            asked = Asked(address, asyncio.get_running_loop().create_future())
            self._waiting[digest] = asked
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_waiting())
        return asked.answer

    async def _read_waiting(self) -> None:
        try:
            while self._waiting:
                await self._gather()
                digests = list(islice(self._waiting, READ_AT_ONCE))
                asked = {digest: self._waiting.pop(digest) for digest in digests}
                self._read = dict(asked)
                if not self._waiting:
                    self._hurry.clear()
                await self._answer(asked)
        finally:
            self._reading, self._read = None, {}

    async def _gather(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(GATHER_S):
                await self._hurry.wait()

    async def _answer(self, asked: dict[str, Asked]) -> None:
        try:
            addresses = {digest: one.address for digest, one in asked.items()}
            found = await in_thread(tokens.read)(addresses)
        except DatabaseError as error:
            self._remembered.database_is_away()
            for digest, one in asked.items():
                _tell(one, self._remembered.get(digest) or error)
        except Exception as error:
            for one in asked.values():
                _tell(one, error)
            raise
        else:
            for known in found.known:
                if known.digest in self._read:  # else it was revoked since
                    self._remembered.put(known)
                _tell(asked[known.digest], known)
            self._note(found)

    # --- what is written of them

    def _note(self, found: tokens.Read) -> None:
        """Nobody waits for it: a database may take long to write, or refuse to."""
        self._used.update(found.used)
        self._ended.update(found.ended)
        if (self._used or self._ended) and self._noting is None:
            self._noting = asyncio.create_task(self._write_notes())

    async def _write_notes(self) -> None:
        try:
            while self._used or self._ended:
                used, ended, self._used, self._ended = self._used, self._ended, set(), {}
                with suppress(DatabaseError):
                    await in_thread(tokens.note)(used, ended)
        finally:
            self._noting = None

    # --- what was revoked

    async def look_at_revoked(self) -> None:
        """One request at a time asks, and waits for it a moment. While the database does not
        answer no other one asks: threads that wait for it would be all there are.
        """
        if not self._is_look_due():
            return
        self._looked_s = time.monotonic()
        self._looking = asyncio.create_task(self._forget_revoked())
        await asyncio.wait([self._looking], timeout=tokens.LOOK_WAIT_S)

    def _is_look_due(self) -> bool:
        is_old = time.monotonic() - self._looked_s >= tokens.LOOK_EVERY_S
        return is_old and self._looking is None

    async def _forget_revoked(self) -> None:
        try:
            self._forget(await in_thread(tokens.revoked_lately)())
        except DatabaseError:
            pass  # then what is remembered counts, as long as it may
        finally:
            self._looking = None

    def _forget(self, digests: Iterable[str]) -> None:
        for digest in digests:
            self._remembered.forget(digest)
            self._read.pop(digest, None)  # that reading may have begun before


def _tell(asked: Asked, what: tokens.Known | Exception) -> None:
    if asked.answer.done():
        return
    if isinstance(what, tokens.Known):
        asked.answer.set_result(what)
    else:
        asked.answer.set_exception(what)
        asked.answer.exception()  # heard, also where nobody waits any more
