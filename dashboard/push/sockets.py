"""Browsers' sockets: who may watch, and frames of the group's hub passed on. Uses no models."""

import asyncio
import contextlib
from importlib import import_module
from typing import Any

from channels.auth import get_user
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.urls import path

from dashboard.push.hub import Hub, TooManyWatchers, Watcher, hub_of

NOT_ALLOWED = 4403
TOO_MANY = 4429
ALLOWED_AGAIN_S = 30.0  # how long a session that was ended may go on watching
TEXT_MAX = 1_024  # browsers say nothing; whoever says more is cut off


class GroupSocket(AsyncWebsocketConsumer):  # type: ignore[misc]
    hub: Hub | None = None
    watcher: Watcher | None = None
    tasks: tuple["asyncio.Task[None]", ...] = ()

    async def connect(self) -> None:
        await self.accept()  # before a refusal too: only then a browser sees its code
        user = self.scope.get("user")
        if user is None or not user.is_authenticated:
            await self.close(NOT_ALLOWED)
            return
        self.hub = hub_of(self.scope["url_route"]["kwargs"]["name"])
        try:
            self.watcher = self.hub.join()
        except TooManyWatchers:
            await self.close(TOO_MANY)
            return
        self.tasks = (
            asyncio.create_task(self._pass_on(self.watcher)),
            asyncio.create_task(self._ask_again()),
        )

    async def disconnect(self, code: int) -> None:
        for task in self.tasks:
            task.cancel()
        if self.hub is not None and self.watcher is not None:
            self.hub.part(self.watcher)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if len(text_data or bytes_data or "") > TEXT_MAX:
            await self.close(TOO_MANY)

    async def _pass_on(self, watcher: Watcher) -> None:
        while True:
            await self.send(await watcher.waiting.get())

    async def _ask_again(self) -> None:
        """A right that was taken back, or a session that ended, ends the socket."""
        while True:
            await asyncio.sleep(ALLOWED_AGAIN_S)
            with contextlib.suppress(OSError):
                user = await get_user({"session": _session(self.scope)})
                if not user.is_authenticated:
                    await self.close(NOT_ALLOWED)
                    return


def _session(scope: dict[str, Any]) -> Any:
    """Read anew: the scope's own remembers what it was at the start."""
    return import_module(settings.SESSION_ENGINE).SessionStore(scope["session"].session_key)


websocket_urlpatterns = [path("ws/group/<str:name>/", GroupSocket.as_asgi())]
