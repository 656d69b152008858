"""The consumer's side of the socket between an agent and its consumer (assignment/wire.py).

For a consumer of any kind: connect, say who you are, and know from then on what you may do and for
how long. Knows nothing of Spark, Redis or partitions.
"""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from agent.consumer.lines import line_of, messages_from
from assignment.types import GroupSettings, read_as
from assignment.wire import SOCKET_VARIABLE, ControlMessage

ANSWER_TIMEOUT_S = 600.0  # an agent answers when it is a member: its dashboard may be away


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
        messages: Iterator[Mapping[str, Any]],
        on_gone: Callable[[], None],
    ) -> None:
        self.control = control
        self.settings = control.settings
        self.gone = threading.Event()
        self._lease_end_ms = control.lease_end_ms
        self._connection = connection
        self._messages = messages
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
            hello = {"pid": os.getpid(), "spark_application_id": spark_application_id}
            connection.sendall(line_of({**hello, "stateful": stateful}))
            messages = messages_from(connection)
            link = cls(connection, _control_of(next(messages, None)), messages, on_gone)
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
        """What became known later, as `spark_application_id`. A closed socket is no error here."""
        with contextlib.suppress(OSError):
            self._connection.sendall(line_of(facts))

    def close(self) -> None:
        self._closed_here = True
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            for message in self._messages:
                self._take(message)
        self.gone.set()
        if not self._closed_here:
            self._on_gone()

    def _take(self, message: Mapping[str, Any]) -> None:
        if "settings" in message:
            self.settings = read_as(GroupSettings, message["settings"])
        if "lease_end_ms" in message:
            self._lease_end_ms = int(message["lease_end_ms"])


def _control_of(values: Mapping[str, Any] | None) -> ControlMessage:
    """ValueError when they are no ControlMessage."""
    if values is None:
        raise ConnectionResetError("the other end closed")
    return read_as(ControlMessage, values)
