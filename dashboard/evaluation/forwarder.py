"""A name for a server: connections to its port go on to whatever server it stands for now.

An event loop in a thread of its own. Knows nothing of what passes through; a `trouble` says of each
piece what the network does to it.
"""

import asyncio
import math
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from enum import StrEnum
from typing import Any

CHUNK = 65_536
CALL_TIMEOUT_S = 10.0


class Way(StrEnum):
    THERE = "there"  # to the server
    BACK = "back"


# Seconds until a piece goes on: 0 at once, HELD not before the trouble is over, as TCP sends again
# what a black hole took; LOST: it never arrives, and its connection is ended.
Trouble = Callable[[Way], float]
HELD, LOST = math.inf, -1.0


class Forwarder:
    """`port` is its own; `to_port` that of the server behind it, on this machine."""

    def __init__(self, to_port: int) -> None:
        self.to_port = to_port
        self.port = 0
        self.is_cut = False
        self.troubled = 0  # pieces that did not go on at once, and connections that were refused
        self._trouble: Trouble | None = None
        self._over = asyncio.Event()  # of the trouble
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server: asyncio.Server = self._call(self._listen())

    def switch(self, to_port: int) -> None:
        """New connections go there; those that are open stay where they are."""
        self.to_port = to_port

    def cut(self) -> None:
        """Ends every connection, and lets no new one through."""
        self.is_cut = True
        self._call(self._end_all())

    def mend(self) -> None:
        self.is_cut = False
        self._call(self._set_trouble(None))

    def disturb(self, trouble: Trouble) -> None:
        """Until it is mended. `trouble` is asked in the forwarder's thread."""
        self._call(self._set_trouble(trouble))

    def reset(self) -> None:
        """Ends every connection; new ones go through."""
        self._call(self._end_all())

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_TIMEOUT_S)
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_TIMEOUT_S)

    async def _listen(self) -> asyncio.Server:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _stop(self) -> None:
        self._server.close()
        await self._end_all()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _set_trouble(self, trouble: Trouble | None) -> None:
        self._over.set()  # what is held goes on
        self._over, self._trouble = asyncio.Event(), trouble

    async def _end_all(self) -> None:
        self.troubled += len(self._open)
        for writer in tuple(self._open):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        self._tasks.add(task)
        self._open.add(writer)
        try:
            if self.is_cut:
                self.troubled += 1
            else:
                await self._serve(reader, writer)
        except OSError:
            pass  # one of the two ends is gone: so is the other
        finally:
            self._open.discard(writer)
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.to_port)
        self._open.add(back)
        pumps = [
            asyncio.create_task(self._pump(Way.THERE, reader, back)),
            asyncio.create_task(self._pump(Way.BACK, there, writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            self._open.discard(back)
            back.close()

    async def _pump(
        self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                if self._trouble is not None and not await self._goes_on(way, self._trouble):
                    return
                writer.write(data)
                await writer.drain()

    async def _goes_on(self, way: Way, trouble: Trouble) -> bool:
        if (wait_s := trouble(way)) == 0:
            return True
        self.troubled += 1
        if wait_s == LOST:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(None if wait_s == HELD else wait_s):
                await self._over.wait()
        return True
