"""The one way to Redis: scripts and reads, raw answers, errors by what can be done about them."""

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from agent.store.greeting import TokenLogin, demand_usable
from assignment.errors import (
    EvenkeelError,
    InvalidInput,
    InvariantBroken,
    Trouble,
    trouble_of,
)
from assignment.lua import reads_first, reads_only, script
from assignment.rights import (
    has_login,
    is_of_token,
    token_file_in,
    user_in,
    without_login,
)
from assignment.scripts.values import Arguments, Raw
from assignment.servers import OLDEST, shown

Answer = TypeVar("Answer")
CONNECTIONS_MAX = 32
REFUSALS = (
    redis.AuthenticationError,
    redis.exceptions.AuthorizationError,
    redis.exceptions.NoPermissionError,
)
LOGIN = ("credential_provider", "username", "password", "redis_connect_func")  # of a connection
SPARE_S = 30.0  # after which a connection that nobody needed is closed: a server has a limit
BLOCK_MAX_MS = 30_000  # a wait longer than this is asked again


class StoreUnavailable(EvenkeelError):
    """Redis does not answer now; a write may be done or not: stay safe, ask again, bounded."""


class Moved(StoreUnavailable):
    """Another node of the Redis Cluster has the slot: nothing was done."""


class LoginRefused(StoreUnavailable):
    """Redis knows no such token: it is revoked, or a dashboard has yet to put its user back."""


def asked(
    question: Callable[[], Answer], pause_s: float, may_wait: Callable[[StoreUnavailable], bool]
) -> Answer:
    """The answer, asked for again after a pause; StoreUnavailable when `may_wait` says no."""
    while True:
        try:
            return question()
        except StoreUnavailable as error:
            if not may_wait(error):
                raise
            time.sleep(pause_s)


@dataclass(frozen=True, slots=True)
class ScriptCall:
    name: str
    keys: Sequence[str]
    args: Arguments


Command = tuple[str | bytes | int, ...]


class Door(Protocol):
    """What a store needs of Redis. tests/fakes.py has one without a server."""

    in_cluster: bool  # keys of other slots may lie on other nodes
    address: str

    def run(self, call: ScriptCall) -> Raw: ...

    def run_many(self, calls: Sequence[ScriptCall]) -> list[Raw]:
        """In their order, in one trip, not as one transaction."""
        ...

    def ask(self, *command: str | bytes | int) -> Raw: ...

    def ask_together(self, commands: Sequence[Command]) -> list[Raw]:
        """At one moment: nothing happens between them. All keys in one slot, on whose node is asked
        what has none.
        """
        ...

    def wait(self, streams: Mapping[str, str], timeout_ms: int, count: int) -> Raw:
        """XREAD BLOCK: the streams that have entries after their id, each with them; none when none
        came in time. All keys in one slot.
        """
        ...

    def wait_any(self, streams: Mapping[str, str], timeout_ms: int) -> list[str]:
        """As `wait`, without the entries; of any slots."""
        ...

    def settle(self, keys: Sequence[str]) -> None:
        """Returns when all that these keys hold by now outlives the failure of their node, before
        anything on another node depends on it. Raises StoreUnavailable when that takes long.
        """
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Timeouts:
    """A renew must fail in time to be tried again within the lease."""

    connect_s: float = 1.0
    answer_s: float = 2.0


class _Pool(redis.ConnectionPool):
    """What threads needed that happened to ask at one moment is not held for ever. Whoever asks
    gets the connection that was used last.
    """

    def release(self, connection: Any) -> None:
        now_s = connection.given_back_s = time.monotonic()
        super().release(connection)
        with self._lock:
            for spare in self._available_connections:
                if now_s - spare.given_back_s < SPARE_S:
                    break
                spare.disconnect()


class RedisDoor:
    """Safe for threads; makes its own connections after a fork. Nothing is retried here.

    Every connection leads to a primary. When a server answers that it is none any more, all are
    dropped, and the next call resolves the name again.
    """

    in_cluster = False

    def __init__(
        self,
        url: str,
        timeouts: Timeouts | None = None,
        token: Callable[[], str] | None = None,
        cluster: str = "",
    ) -> None:
        """`token`: logs in to Redis too, where the URL has no login; asked at each connection, as
        is the file that the URL names with the option token_file. `cluster`: the URL of the whole,
        of which this is one node. Raises InvalidInput: not a URL of Redis. Does not connect yet.
        """
        timeouts = timeouts or Timeouts()
        self._url = cluster or url
        self._demand_usable = partial(demand_usable, bool(cluster))
        if file := token_file_in(url):
            token, url = Path(file).read_text, without_login(url)
        self._login = TokenLogin(token) if token and not has_login(url) else None
        self._by_token = self._login is not None or is_of_token(user_in(url))
        self._reads_only = True  # it knows EVALSHA_RO, until it says that it does not
        self.address = shown(url)
        self._client = self._client_of(url, timeouts.connect_s, timeouts.answer_s)
        waiting_s = BLOCK_MAX_MS / 1000 + timeouts.answer_s
        self._waiting = self._client_of(url, timeouts.connect_s, waiting_s)

    def _client_of(self, url: str, connect_s: float, answer_s: float) -> Any:
        try:
            pool = _Pool.from_url(
                url,
                protocol=2,
                socket_connect_timeout=connect_s,
                socket_timeout=answer_s,
                retry=Retry(NoBackoff(), 0),  # only the caller knows how long it may try
                max_connections=CONNECTIONS_MAX,
                decode_responses=False,
                redis_connect_func=self._greet,
                credential_provider=self._login,
            )
        except ValueError as error:
            raise InvalidInput(f"{self.address!r} is not the URL of a Redis: {error}") from error
        client = redis.Redis.from_pool(pool)
        client.response_callbacks.clear()  # raw answers; a dict per stream entry costs three times
        return client

    def _greet(self, connection: Any) -> None:
        """A server that has no users of ours may let everybody in."""
        try:
            self._demand_usable(connection)
        except redis.AuthenticationError:
            if not self._by_token:
                raise
            before = {name: getattr(connection, name) for name in LOGIN}
            for name in LOGIN:
                setattr(connection, name, None)
            connection.redis_connect_func = self._demand_usable
            try:
                connection.connect()  # anew: the client closes what is refused
            except redis.AuthenticationError as error:
                raise redis.AuthenticationError("it knows no such token") from error
            finally:
                for name, value in before.items():
                    setattr(connection, name, value)

    def run(self, call: ScriptCall) -> Raw:
        with self._reaching():
            how = self._how(call)
            try:
                return self._run(how, call)
            except redis.ResponseError as error:
                if reads_first(call.name) and isinstance(error, redis.exceptions.NoPermissionError):
                    return self._run_reading(call)
                if not _may_lack_read_only(how, error):
                    raise
            self._reads_only = False
            try:
                return self._run("EVALSHA", call)
            except redis.exceptions.NoPermissionError:
                self._reads_only = True  # it is the keys that it may not have
                raise

    def _run(self, how: str, call: ScriptCall) -> Raw:
        try:
            return self._client.execute_command(*_command(how, call))
        except redis.exceptions.NoScriptError:
            return self._run_text(call)

    def run_many(self, calls: Sequence[ScriptCall]) -> list[Raw]:
        hows = [self._how(call) for call in calls]
        with self._reaching():
            pipeline = self._client.pipeline(transaction=False)
            for how, call in zip(hows, calls, strict=True):
                pipeline.execute_command(*_command(how, call))
            answers: list[Raw] = pipeline.execute(raise_on_error=False)
        for index, answer in enumerate(answers):
            if _is_asked_again(hows[index], answer):
                answers[index] = self.run(calls[index])
            elif isinstance(answer, Exception):
                with self._reaching():
                    raise answer
        return answers

    def _how(self, call: ScriptCall) -> str:
        """EVALSHA refuses keys that may only be read."""
        return "EVALSHA_RO" if self._reads_only and reads_only(call.name) else "EVALSHA"

    def _run_reading(self, call: ScriptCall) -> Raw:
        """For whoever may not write its keys: it is done where there is nothing to write."""
        try:
            return self._client.execute_command(*_command("EVALSHA_RO", call))
        except redis.ResponseError as error:
            raise StoreUnavailable(
                f"Redis at {self.address} waits for a dashboard, which may write what this token's"
                f" user may only read: {error}"
            ) from error

    def _run_text(self, call: ScriptCall) -> Raw:
        text, rest = _script(call.name)[0], (len(call.keys), *call.keys, *call.args)
        try:
            return self._client.execute_command("EVAL", text, *rest)
        except redis.exceptions.NoPermissionError as error:
            raise StoreUnavailable(
                f"Redis at {self.address} does not have this version's script {call.name!r} yet: a"
                " dashboard of the same version loads it"
            ) from error

    def ask(self, *command: str | bytes | int) -> Raw:
        with self._reaching():
            return self._client.execute_command(*command)

    def ask_together(self, commands: Sequence[Command]) -> list[Raw]:
        with self._reaching():
            pipeline = self._client.pipeline(transaction=True)
            for command in commands:
                pipeline.execute_command(*command)
            return list(pipeline.execute())

    def ask_each(self, commands: Sequence[Command]) -> list[Raw]:
        """In one trip, not at one moment, of any slots."""
        with self._reaching():
            pipeline = self._client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            return list(pipeline.execute())

    def wait(self, streams: Mapping[str, str], timeout_ms: int, count: int) -> Raw:
        return self._block(timeout_ms, count, *streams.keys(), *streams.values()) or ()

    def wait_any(self, streams: Mapping[str, str], timeout_ms: int) -> list[str]:
        return [name.decode() for name, _ in self.wait(streams, timeout_ms, 1)]

    def _block(self, timeout_ms: int, count: int, *streams: str) -> Any:
        limits = ("COUNT", count, "BLOCK", max(1, min(timeout_ms, BLOCK_MAX_MS)))
        with self._reaching():
            return self._waiting.execute_command("XREAD", *limits, "STREAMS", *streams)

    def settle(self, keys: Sequence[str]) -> None:
        """One server loses what depends on an event before the event."""

    def is_appendonly(self) -> bool | None:
        """Whether it keeps its writes on disk; None: this Redis does not tell (a managed one hides
        its configuration). Raises InvalidInput: older than 6.2.
        """
        version = re.search(rb"redis_version:([\d.]*\d)", self.ask("INFO", "server"))
        shown_version = version[1].decode() if version else "0"
        if tuple(map(int, shown_version.split("."))) < OLDEST:
            raise InvalidInput(
                f"Redis at {self.address} is version {shown_version}; Evenkeel needs 6.2 or later"
            )
        try:
            answer = self.ask("CONFIG", "GET", "appendonly")
        except EvenkeelError:
            return None
        return bool(answer[1] == b"yes") if len(answer) == 2 else None

    def close(self) -> None:
        self._client.close()
        self._waiting.close()

    def drop_connections(self) -> None:
        """Those that other threads use are dropped when they are given back: the client does not
        bear that one thread closes what another reads.
        """
        for client in (self._client, self._waiting):
            client.connection_pool.update_active_connections_for_reconnect()
            client.connection_pool.disconnect(inuse_connections=False)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
            _let_in.add(self._url)
        except REFUSALS as error:
            why = f"Redis at {self.address} refuses the login, or does not allow it: {error}"
            if self._by_token and isinstance(error, redis.AuthenticationError):
                raise LoginRefused(why) from error
            if self._url in _let_in:  # whoever leads there now is being set up, or was set wrongly
                raise StoreUnavailable(why) from error
            raise InvalidInput(why) from error
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            raise StoreUnavailable(f"Redis at {self.address} does not answer: {error}") from error
        except redis.exceptions.InvalidResponse as error:
            raise StoreUnavailable(f"Redis at {self.address} is not understood: {error}") from error
        except redis.ResponseError as error:
            raise self._refused(error) from error
        except redis.RedisError as error:
            raise InvariantBroken(f"Redis at {self.address}: {error!r}") from error

    def _refused(self, error: redis.ResponseError) -> EvenkeelError:
        trouble = trouble_of(str(error), error.status_code)
        if trouble is Trouble.BUG:
            return InvariantBroken(f"Redis at {self.address} answered: {error}")
        if trouble is Trouble.ELSEWHERE:
            self.drop_connections()
        is_moved = isinstance(error, redis.exceptions.MovedError)
        kind = Moved if is_moved else StoreUnavailable
        return kind(f"Redis at {self.address} refuses: {error}")


_let_in: set[str] = set()  # URLs under which this process could work before


def _may_lack_read_only(how: str, error: redis.ResponseError) -> bool:
    """As Redis 6.2 does, and users of an operator's own."""
    is_refused = isinstance(error, redis.exceptions.NoPermissionError)
    return how == "EVALSHA_RO" and (is_refused or "unknown command" in str(error))


def _is_asked_again(how: str, answer: Any) -> bool:
    if not isinstance(answer, redis.ResponseError):
        return False
    return isinstance(answer, redis.exceptions.NoScriptError) or _may_lack_read_only(how, answer)


def _command(how: str, call: ScriptCall) -> Command:
    return (how, _script(call.name)[1], len(call.keys), *call.keys, *call.args)


@cache
def _script(name: str) -> tuple[str, str]:
    text = script(name)
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def pairs(flat: Sequence[Any]) -> Iterator[tuple[bytes, bytes]]:
    """Names and values of a flat answer (HGETALL, the fields of an entry)."""
    return zip(flat[::2], flat[1::2], strict=True)
