"""Connections that lead to a primary: the dashboard's, its channel layer's, its broker's.

Each asks at its beginning whom it has reached, and takes no replica; a node of a cluster only where
one is named. When one server answers that
it is no primary any more, every connection of this process is made anew before it is used again,
and the name resolved with it. To the libraries above it is a lost connection, which they survive.
"""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import redis
import redis.asyncio
from channels_redis.pubsub import RedisPubSubChannelLayer
from django.conf import settings
from hiredis import PushNotification
from kombu.transport import redis as broker
from redis._parsers.hiredis import NOT_ENOUGH_DATA
from redis.exceptions import AskError, TryAgainError

from assignment.errors import Trouble, trouble_of, why_not_usable

_moves = 0  # how often a server of this process was found to be no primary any more


class _Following:
    """What both kinds have in common."""

    _made_at = 0  # `_moves` of then
    in_cluster = False

    def _is_outdated(self) -> bool:
        """Once after each move; forgets the one before."""
        outdated, self._made_at = self._made_at != _moves, _moves
        return outdated

    def _moved(self, error: redis.ResponseError) -> bool:
        """Of those that hear of the same move only the first one counts it. In a cluster a slot
        that is another's says nothing of the server.
        """
        global _moves
        if self.in_cluster and isinstance(error, AskError | TryAgainError):
            return False
        if trouble_of(str(error), error.status_code) is not Trouble.ELSEWHERE:
            return False
        if self._made_at == _moves:
            _moves += 1
        return True


def _lost(error: redis.ResponseError) -> redis.ConnectionError:
    return redis.ConnectionError(f"it is no primary: {error}")


def _demand_usable(hello: Any, *, in_cluster: bool) -> None:
    if why := why_not_usable(hello, in_cluster):
        raise redis.ConnectionError(why)


class _Sync(_Following):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.pushed: list[Any] = []

    def connect_check_health(self: Any, *arguments: Any, **options: Any) -> None:
        if self._is_outdated():
            self.disconnect()
        super().connect_check_health(*arguments, **options)  # type: ignore[misc]

    def on_connect_check_health(self: Any, *arguments: Any, **options: Any) -> None:
        super().on_connect_check_health(*arguments, **options)  # type: ignore[misc]
        self.send_command("HELLO", check_health=False)
        try:
            hello = self.read_response()
        except redis.ResponseError:
            return  # a proxy that does not tell stands before a primary
        _demand_usable(hello, in_cluster=self.in_cluster)

    def read_response(self: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return super().read_response(*arguments, **options)  # type: ignore[misc]
        except redis.ResponseError as error:
            self._drop_if_moved(error)
            raise

    def read_responses(self: Any, count: int) -> list[Any]:
        """So many, errors among them. What has come is taken as it is parsed: what redis-py does
        for each costs four times as much. What the server says unasked (RESP3) is in `pushed`.
        """
        found: list[Any] = []
        try:
            while len(found) < count:
                answer = self._parser._reader.gets()
                if answer is NOT_ENOUGH_DATA:
                    self._parser.read_from_socket()
                elif isinstance(answer, PushNotification):
                    self.pushed.append(answer)
                elif isinstance(answer, redis.ConnectionError):
                    raise answer
                else:
                    found.append(answer)
        except BaseException:
            self.disconnect()
            raise
        for answer in found:
            if isinstance(answer, redis.ResponseError):
                self._drop_if_moved(answer)
        return found

    def _drop_if_moved(self: Any, error: redis.ResponseError) -> None:
        if self._moved(error):
            self.disconnect()
            raise _lost(error) from error


class _Async(_Following):
    @property
    def is_connected(self: Any) -> bool:
        """A subscriber, which only listens, looks here before it does."""
        return bool(super().is_connected and self._made_at == _moves)  # type: ignore[misc]

    async def connect_check_health(self: Any, *arguments: Any, **options: Any) -> None:
        if self._is_outdated():
            await self.disconnect(nowait=True)
        await super().connect_check_health(*arguments, **options)  # type: ignore[misc]

    async def on_connect_check_health(self: Any, *arguments: Any, **options: Any) -> None:
        await super().on_connect_check_health(*arguments, **options)  # type: ignore[misc]
        await self.send_command("HELLO", check_health=False)
        try:
            hello = await self.read_response()
        except redis.ResponseError:
            return
        _demand_usable(hello, in_cluster=self.in_cluster)

    async def send_packed_command(self: Any, *arguments: Any, **options: Any) -> None:
        """The client sends by wait_for, which before Python 3.12 loses a cancellation that comes
        when the command is just sent: whoever was to end would go on for ever. It is asked for
        anew and takes effect where the answer is waited for, which closes the connection there.
        Not here: the channel layer's connection is shared, and others wait at it.
        """
        task = asyncio.current_task()
        asked = task.cancelling() if task else 0
        await super().send_packed_command(*arguments, **options)  # type: ignore[misc]
        if task and task.cancelling() > asked:
            task.uncancel()
            task.cancel()

    async def read_response(self: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return await super().read_response(*arguments, **options)  # type: ignore[misc]
        except redis.ResponseError as error:
            if not self._moved(error):
                raise
            await self.disconnect(nowait=True)
            raise _lost(error) from error

    async def read_responses(self: Any, count: int) -> list[Any]:
        """As that of _Sync; what the server says unasked is for nobody."""
        found: list[Any] = []
        try:
            while len(found) < count:
                answer = self._parser._reader.gets()
                if answer is NOT_ENOUGH_DATA:
                    await self._parser.read_from_socket()
                elif isinstance(answer, redis.ConnectionError):
                    raise answer
                elif not isinstance(answer, PushNotification):
                    found.append(answer)
        except BaseException:
            await self.disconnect(nowait=True)
            raise
        for answer in found:
            if isinstance(answer, redis.ResponseError) and self._moved(answer):
                await self.disconnect(nowait=True)
                raise _lost(answer) from answer
        return found


class _OwnLogin(redis.CredentialProvider):
    """Of the user that Celery and the channel layer have in the dashboard's own Redis; `otherwise`:
    where there can be none. At another server they log in as their own address says.
    """

    def __init__(self, otherwise: tuple[str, ...]) -> None:
        self._otherwise = otherwise

    def get_credentials(self) -> Any:
        from dashboard.live import rights  # asks by connections of this module

        return rights.broker_login() or self._otherwise

    async def get_credentials_async(self) -> Any:
        return await asyncio.to_thread(self.get_credentials)


class _AsBroker:
    def __init__(self, *arguments: Any, **options: Any) -> None:
        given = (options.pop("username", None), options.pop("password", None))
        login = _OwnLogin(tuple(value for value in given if value))
        super().__init__(*arguments, **{**options, "credential_provider": login})


class _Node:
    in_cluster = True


def _by_scheme(of: Any, *kinds: type) -> dict[str, Any]:
    return {
        "redis": type("Connection", (*kinds, of.Connection), {}),
        "rediss": type("SSLConnection", (*kinds, of.SSLConnection), {}),
        "unix": type("UnixConnection", (*kinds, of.UnixDomainSocketConnection), {}),
    }


SYNC, ASYNC = _by_scheme(redis, _Sync), _by_scheme(redis.asyncio, _Async)
NODE_SYNC, NODE_ASYNC = _by_scheme(redis, _Node, _Sync), _by_scheme(redis.asyncio, _Node, _Async)
OF_BROKER = _by_scheme(redis, _AsBroker, _Sync)
OF_CHANNELS = _by_scheme(redis.asyncio, _AsBroker, _Async)


def connection_class(url: str, kinds: dict[str, Any]) -> Any:
    return kinds[urlsplit(url).scheme]


class ChannelLayer(RedisPubSubChannelLayer):  # type: ignore[misc]
    """Named by CHANNEL_LAYERS."""

    def __init__(self, hosts: list[str], prefix: str = "asgi", **options: Any) -> None:
        kinds = ASYNC if settings.CHANNELS_URL else OF_CHANNELS
        followed = [{"address": u, "connection_class": connection_class(u, kinds)} for u in hosts]
        super().__init__(hosts=followed, prefix=prefix, **options)
        self._prefix = prefix

    def published(self, group: str, message: dict[str, str]) -> tuple[str, bytes]:
        """The channel of Redis by which the layer sends to that group of channels, and what."""
        return f"{self._prefix}__group__{group}", self.serialize(message)


def follow_as_broker() -> None:
    """Celery's transport offers no setting for it.

    Nor for what a worker does with unacknowledged messages when it loses its connection: it would
    put them back over the same one, and ends when that was taken from it. The ticks ask again.
    """
    broker.Channel.do_restore = False
    kinds = SYNC if settings.BROKER_URL else OF_BROKER
    broker.Channel.connection_class = kinds["redis"]
    broker.Channel.connection_class_ssl = kinds["rediss"]
