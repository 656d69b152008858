"""A name for a server: connections to its port go on to whatever server it stands for now.

An event loop in a thread of its own. Knows nothing of what passes through.
"""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

CHUNK = 65_536
CALL_TIMEOUT_S = 10.0


class Forwarder:
    """`port` is its own; `to_port` that of the server behind it, on this machine."""

    def __init__(self, to_port: int) -> None:
        self.to_port = to_port
        self.port = 0
        self.is_cut = False
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

    async def _end_all(self) -> None:
        for writer in tuple(self._open):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        self._tasks.add(task)
        self._open.add(writer)
        try:
            if not self.is_cut:
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
        pumps = [asyncio.create_task(_pump(*way)) for way in ((reader, back), (there, writer))]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            self._open.discard(back)
            back.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
