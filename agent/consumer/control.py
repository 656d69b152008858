"""The consumer's side of the socket between an agent and its consumer (assignment/wire.py).

For a consumer of any kind: connect, say who you are, and know from then on what you may do and for
how long. Knows nothing of Spark, Redis or partitions; uses the standard library only.
"""

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Self

from assignment.types import GroupSettings
from assignment.wire import SOCKET_VARIABLE, ControlMessage, parse_settings

LINE_BYTES_MAX = 65_536  # the longest line is ControlMessage: some settings and a few paths
ANSWER_TIMEOUT_S = 600.0  # an agent answers when it is a member: its dashboard may be away
CONTROL_NAMES = frozenset(f.name for f in fields(ControlMessage))


class AgentUnreachable(ConnectionError):
    """There is no agent behind the socket: a consumer must not start without one."""


def monotonic_ms() -> int:
    """The clock of `lease_end_ms`: CLOCK_MONOTONIC, the same for all processes of a machine."""
    return time.monotonic_ns() // 1_000_000


class AgentLink:
    """A consumer's connection to its agent.

    `control` is what the agent answered to the hello. `lease_end_ms` moves with every renew that
    the agent got through; when it has passed nothing may be processed until it moves again.
    `on_gone` is called once, in the reader's thread, when the agent's end closed; not when `close`
    was called here. Finish the batch in hand until `lease_end_ms` at most, then end.
    """

    def __init__(
        self,
        connection: socket.socket,
        control: ControlMessage,
        rest: bytes,
        on_gone: Callable[[], None],
    ) -> None:
        self.control = control
        self.settings: GroupSettings = parse_settings(json.dumps(control.settings))
        self.gone = threading.Event()
        self._lease_end_ms = control.lease_end_ms
        self._connection = connection
        self._buffer = rest
        self._on_gone = on_gone
        self._closed_here = False
        self._reader = threading.Thread(target=self._read, name="agent-link", daemon=True)

    @classmethod
    def connect(
        cls,
        *,
        path: str | None = None,
        spark_application_id: str = "",
        stateful: bool = True,
        on_gone: Callable[[], None] = lambda: None,
    ) -> Self:
        """Connects to `path`, by default what EVENKEEL_AGENT_SOCKET names, and waits for the
        agent's answer.

        `stateful` False: nothing is restored before a partition is set running (a SQL sink keeps
        its own state). Raises AgentUnreachable.
        """
        address = path or os.environ.get(SOCKET_VARIABLE, "")
        if not address:
            raise AgentUnreachable(
                f"{SOCKET_VARIABLE} is not set: start this consumer by its agent"
            )
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(ANSWER_TIMEOUT_S)
            connection.connect(address)
            _send(connection, hello(spark_application_id=spark_application_id, stateful=stateful))
            line, rest = _read_line(connection, b"")
            link = cls(connection, parse_control(line), rest, on_gone)
        except (OSError, ValueError) as error:
            connection.close()
            raise AgentUnreachable(f"no agent answers at {address}: {error}") from error
        connection.settimeout(None)
        link._reader.start()
        return link

    @property
    def lease_end_ms(self) -> int:
        return self._lease_end_ms

    def may_process(self, now_ms: int | None = None) -> bool:
        return (monotonic_ms() if now_ms is None else now_ms) < self._lease_end_ms

    def say(self, **facts: Any) -> None:
        """Tells the agent what became known later, for example `spark_application_id`. A closed
        socket is no error here.
        """
        with contextlib.suppress(OSError):
            _send(self._connection, facts)

    def close(self) -> None:
        self._closed_here = True
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _read(self) -> None:
        try:
            while True:
                line, self._buffer = _read_line(self._connection, self._buffer)
                self._take(json.loads(line))
        except (OSError, ValueError):
            self.gone.set()
            if not self._closed_here:
                self._on_gone()

    def _take(self, message: Mapping[str, Any]) -> None:
        if "settings" in message:
            self.settings = parse_settings(json.dumps(message["settings"]))
        if "lease_end_ms" in message:
            self._lease_end_ms = int(message["lease_end_ms"])


def hello(*, spark_application_id: str, stateful: bool) -> dict[str, Any]:
    return {"pid": os.getpid(), "spark_application_id": spark_application_id, "stateful": stateful}


def parse_control(line: bytes) -> ControlMessage:
    """ValueError when the line is not a ControlMessage; names of a newer agent are left out."""
    values = json.loads(line)
    try:
        return ControlMessage(**{k: v for k, v in values.items() if k in CONTROL_NAMES})
    except (AttributeError, TypeError) as error:
        raise ValueError(f"the agent's answer is not a control message: {error}") from error


def _send(connection: socket.socket, message: Mapping[str, Any]) -> None:
    connection.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")


def _read_line(connection: socket.socket, buffer: bytes) -> tuple[bytes, bytes]:
    """(one line, what came after it). OSError when the other end closed, ValueError when the line
    has no end.
    """
    while b"\n" not in buffer:
        if len(buffer) > LINE_BYTES_MAX:
            raise ValueError(f"a line longer than {LINE_BYTES_MAX} bytes")
        received = connection.recv(4_096)
        if not received:
            raise ConnectionResetError("the other end closed")
        buffer += received
    line, _, rest = buffer.partition(b"\n")
    return line, rest
