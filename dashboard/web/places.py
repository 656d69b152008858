"""Pages wait for a place, of which there are fewer than connections to the database: what is left
is for agents and sockets, whose short questions never wait for a page.
"""

import asyncio
from typing import Any

from dashboard.agents.requests import Receive, Send
from dashboard.web.problems import refuse

LEFT = 4  # connections: tokens are read, noted and looked at, one query each at a time; and sockets
WAIT_S = 5.0  # a person waits a little; a browser that reloads would only make it longer


class Places:
    """An ASGI application of which so many requests are answered at a time. Addresses that begin
    as one of `free` need no connection, and no place: /healthz says that the process lives.
    """

    def __init__(self, application: Any, most: int, free: tuple[str, ...] = ()) -> None:
        self._application, self._most, self._free = application, most, free
        self._places = asyncio.Semaphore(most)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["path"].startswith(self._free):
            await self._application(scope, receive, send)
            return
        try:
            async with asyncio.timeout(WAIT_S):
                await self._places.acquire()
        except TimeoutError:
            why = (
                f"{self._most} pages are being made, which is all that this web process may"
                " (EVENKEEL_DATABASE_POOL): try again."
            )
            await refuse(scope, send, 503, why)
            return
        try:
            await self._application(scope, receive, send)
        finally:
            self._places.release()
