"""The name of a server in redis_check: it can be cut, and stand for another server."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from dashboard.evaluation.forwarder import Forwarder

PATIENCE_S = 10.0


class Named:
    """A server that says its name to whoever sends something."""

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listening.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while connection.recv(1024):
                connection.sendall(self.name)


@pytest.fixture
def servers() -> Iterator[tuple[Named, Named]]:
    first, second = Named(b"first"), Named(b"second")
    yield first, second
    first.listening.close()
    second.listening.close()


@pytest.fixture
def name(servers: tuple[Named, Named]) -> Iterator[Forwarder]:
    made = Forwarder(servers[0].port)
    yield made
    made.close()


def connect(name: Forwarder) -> socket.socket:
    return socket.create_connection(("127.0.0.1", name.port), PATIENCE_S)


def ask(connection: socket.socket) -> bytes:
    """Empty when the connection has ended."""
    with suppress(ConnectionError):
        connection.sendall(b"who?")
        return connection.recv(1024)
    return b""


def test_name_that_is_switched_leaves_open_connections_where_they_are(
    name: Forwarder, servers: tuple[Named, Named]
) -> None:
    before = connect(name)
    assert ask(before) == b"first"
    name.switch(servers[1].port)
    assert ask(before) == b"first"
    assert ask(connect(name)) == b"second"


def test_cut_ends_what_is_open_and_lets_nobody_through(name: Forwarder) -> None:
    before = connect(name)
    assert ask(before) == b"first"
    name.cut()
    assert ask(before) == b""
    assert ask(connect(name)) == b""
    name.mend()
    assert ask(connect(name)) == b"first"


def test_server_that_is_gone_ends_the_connection(name: Forwarder) -> None:
    name.switch(1)
    assert ask(connect(name)) == b""


def test_name_that_is_closed_is_nobody(name: Forwarder) -> None:
    port = name.port
    name.close()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), PATIENCE_S)
