"""The name of a server in redis_check: it can be cut, and stand for another server."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from dashboard.evaluation.forwarder import HELD, LOST, Forwarder, Way

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


class Listening:
    """A server that remembers what it was sent, and answers nothing."""

    def __init__(self) -> None:
        self.heard = b""
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listening.accept()
                threading.Thread(target=self._hear, args=(connection,), daemon=True).start()

    def _hear(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while data := connection.recv(1024):
                self.heard += data


@pytest.fixture
def listening() -> Iterator[Listening]:
    made = Listening()
    yield made
    made.listening.close()


@pytest.fixture
def link(listening: Listening) -> Iterator[Forwarder]:
    made = Forwarder(listening.port)
    yield made
    made.close()


def test_what_a_black_hole_took_arrives_when_it_is_over(
    link: Forwarder, listening: Listening
) -> None:
    """Also when who sent it has given up meanwhile: it took effect, and nobody knows."""
    with connect(link) as connection:
        connection.sendall(b"first")
        until(lambda: listening.heard == b"first")
        link.disturb(lambda way: HELD)
        connection.sendall(b", late")
        until(lambda: link.troubled == 1)
    assert listening.heard == b"first"
    link.mend()
    until(lambda: listening.heard == b"first, late")


def test_a_lost_reply_ends_the_connection_of_who_waits_for_it(
    name: Forwarder, servers: tuple[Named, Named]
) -> None:
    name.disturb(lambda way: LOST if way is Way.BACK else 0.0)
    with connect(name) as connection:
        connection.sendall(b"who")
        assert connection.recv(1024) == b""
    assert name.troubled == 1
    name.mend()
    with connect(name) as connection:
        connection.sendall(b"who")
        assert connection.recv(1024) == b"first"


def test_what_is_delayed_arrives_in_its_order(link: Forwarder, listening: Listening) -> None:
    waits = iter((0.2, 0.0, 0.0))
    link.disturb(lambda way: next(waits, 0.0))
    with connect(link) as connection:
        connection.sendall(b"a")
        until(lambda: link.troubled == 1)
        connection.sendall(b"b")
        until(lambda: listening.heard == b"ab")


def until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not fact():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
