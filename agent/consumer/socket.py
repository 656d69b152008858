"""The agent's side of the socket to its consumer: one line of JSON per message
(assignment/wire.py).

A consumer connects and says who it is; the loop answers with ControlMessage when it can. After
that only the end of its lease is sent. A closed connection is how either side learns that the
other is gone. Knows nothing of partitions, Redis or processes.
"""

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.consumer.lines import line_of, messages_from
from agent.private import make_own
from assignment.types import GroupSettings
from assignment.wire import ControlMessage

HELLO_TIMEOUT_S = 10.0  # who connects and says nothing is no consumer
# A line fits into the kernel's buffer, unless the consumer has long stopped: half a second.
SEND_TIMEOUT = struct.pack("ll", 0, 500_000)
BACKLOG = 4  # one consumer; a new one may connect before the old one's end was seen


@dataclass(frozen=True, slots=True)
class Hello:
    """A consumer connected. `number` counts connections: only the newest one is listened to."""

    number: int
    pid: int
    spark_application_id: str
    stateful: bool


@dataclass(frozen=True, slots=True)
class Message:
    """What the connected consumer told later."""

    number: int
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection with that number ended."""

    number: int


SocketEvent = Hello | Message | Disconnected


class SocketUnusable(OSError):
    """The path cannot be listened on; the text names it."""


class ConsumerSocket:
    """Listens in threads of its own; `deliver` is called in them."""

    def __init__(self, path: Path, deliver: Callable[[SocketEvent], None]) -> None:
        self.path = path
        self._deliver = deliver
        self._lock = threading.Lock()
        self._number = 0
        self._controlled = 0  # the number of the connection that was controlled last
        self._connection: socket.socket | None = None
        self._listener = _listen(path)

    def start(self) -> None:
        threading.Thread(target=self._accept, name="consumer-socket", daemon=True).start()

    def send_control(self, number: int, control: ControlMessage) -> None:
        self._send(control, to=number)

    def send_lease_end(self, lease_end_ms: int) -> None:
        """Nothing is sent to a consumer before its control message."""
        self._send({"lease_end_ms": lease_end_ms})

    def send_settings(self, settings: GroupSettings) -> None:
        self._send({"settings": settings})

    def hang_up(self) -> None:
        """The consumer takes it for the agent's end, and ends itself."""
        with self._lock:
            self._end_connection()

    def close(self) -> None:
        self.hang_up()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.path.unlink(missing_ok=True)

    def _send(self, message: Any, to: int | None = None) -> None:
        """To the connection that is controlled, or to one that is so from this message on: in one
        step, so that what follows the first message is never held back.
        """
        line = line_of(message)
        with self._lock:
            number = self._controlled if to is None else to
            if self._connection is None or number != self._number:
                return
            self._controlled = number
            try:
                self._connection.sendall(line)
            except OSError:  # its reader says Disconnected
                self._end_connection()

    def _end_connection(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)
            self._connection = None

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed
                return
            serve = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            serve.start()

    def _serve(self, connection: socket.socket) -> None:
        lines = messages_from(connection)
        try:
            connection.settimeout(HELLO_TIMEOUT_S)
            number = self._begin(connection, next(lines, {}))
        except (OSError, ValueError, KeyError, TypeError):
            connection.close()
            return
        with contextlib.suppress(OSError, ValueError):
            for facts in lines:
                self._deliver(Message(number, facts))
        with self._lock:
            if number == self._number:
                self._connection = None
        connection.close()
        self._deliver(Disconnected(number))

    def _begin(self, connection: socket.socket, hello: Mapping[str, Any]) -> int:
        """The number of the new connection. Raises what a message that is no hello raises."""
        pid, application = int(hello["pid"]), str(hello.get("spark_application_id") or "")
        connection.settimeout(None)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, SEND_TIMEOUT)
        with self._lock:
            self._end_connection()
            self._number += 1
            self._connection = connection
            number = self._number
        self._deliver(Hello(number, pid, application, bool(hello.get("stateful", True))))
        return number


def _listen(path: Path) -> socket.socket:
    """A listening socket that only this user reaches; a path that nobody answers at is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        make_own(path.parent, closed=False)
        _remove_left_over(path)
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise SocketUnusable(f"cannot listen on the socket {path}: {error}") from error
    return listener


def _remove_left_over(path: Path) -> None:
    if not path.exists():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink()
            return
    raise OSError("another agent listens there")
