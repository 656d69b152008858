"""Browsers' sockets: who may watch, and frames of the group's hub passed on. Uses no models."""

import asyncio
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import DatabaseError
from django.urls import path, re_path

from assignment.types import NAME_PATTERN
from dashboard.push.hub import Hub, TooManyWatchers, Watcher, hub_of
from dashboard.push.rights import NOT_ALLOWED, NOT_THERE, Seat, TooManySockets, ask, rights
from dashboard.records.sessions import login_of
from dashboard.web.visitors import said_who, user_named

TOO_MANY = 4429
TRY_LATER = 1013  # of RFC 6455's registry
TEXT_MAX = 1_024  # browsers say nothing; whoever says more is cut off


class GroupSocket(AsyncWebsocketConsumer):  # type: ignore[misc]
    hub: Hub | None = None
    watcher: Watcher | None = None
    task: "asyncio.Task[None] | None" = None

    async def connect(self) -> None:
        await self.accept()  # before a refusal too: only then a browser sees its code
        if code := await self._sit_down(self.scope["url_route"]["kwargs"]["name"]):
            await self.close(code)

    async def _sit_down(self, name: str) -> int:
        """The code that says why not; 0 when it watches from now on."""
        user = self.scope.get("user")
        if user is None or not user.is_authenticated:
            return NOT_ALLOWED
        said_who(self.scope, user_named(user.pk))
        if not NAME_PATTERN.fullmatch(name):
            return NOT_THERE
        seat = Seat(login_of(self.scope["session"], user), name)
        try:
            over: dict[Seat, int] = await ask([seat])
            if seat in over:
                return over[seat]
            rights().join(seat, self._end)
            self.hub = hub_of(name)
            self.watcher = self.hub.join()
        except DatabaseError:
            return TRY_LATER
        except (TooManySockets, TooManyWatchers):
            return TOO_MANY
        self.task = asyncio.create_task(self._pass_on(self.watcher))
        return 0

    async def _end(self, code: int) -> None:
        """A session that ended, or a right that was taken back, ends the socket."""
        if self.task is not None:
            self.task.cancel()
        await self.close(code)

    async def disconnect(self, code: int) -> None:
        rights().part(self._end)
        if self.task is not None:
            self.task.cancel()
        if self.hub is not None and self.watcher is not None:
            self.hub.part(self.watcher)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if len(text_data or bytes_data or "") > TEXT_MAX:
            await self.close(TOO_MANY)

    async def _pass_on(self, watcher: Watcher) -> None:
        while True:
            await self.send(await watcher.waiting.get())


class NoSuchSocket(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Every other path."""

    async def connect(self) -> None:
        await self.close(NOT_THERE)


websocket_urlpatterns: list[Any] = [
    path("ws/group/<str:name>/", GroupSocket.as_asgi()),
    re_path("", NoSuchSocket.as_asgi()),
]
