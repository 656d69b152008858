"""The socket between agent and consumer, both ends real."""

import queue
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.consumer.control import AgentLink, AgentUnreachable
from agent.consumer.socket import (
    ConsumerSocket,
    Disconnected,
    Hello,
    Message,
    SocketEvent,
    SocketUnusable,
)
from assignment.types import GroupSettings
from assignment.wire import ControlMessage
from tests.agent.conftest import until
from tests.other_settings import others_than

SETTINGS = GroupSettings(stream="flights", partitions=12)
CONTROL = ControlMessage(
    group="flights",
    member="a-1",
    redis_url="redis://127.0.0.1",
    state_dir="/tmp/state",
    snapshot_url="/tmp/snapshots",
    settings=SETTINGS,
    lease_end_ms=1_000,
)


class Agent:
    """The agent's end: answers each hello at once."""

    def __init__(self, path: Path) -> None:
        self.heard: queue.SimpleQueue[SocketEvent] = queue.SimpleQueue()
        self.consumer_socket = ConsumerSocket(path, self.hear)
        self.consumer_socket.start()

    def hear(self, event: SocketEvent) -> None:
        if isinstance(event, Hello):
            self.consumer_socket.send_control(event.number, CONTROL)
        self.heard.put(event)

    def next(self) -> SocketEvent:
        return self.heard.get(timeout=10)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(tmp_path / "a.sock")
    yield agent
    agent.consumer_socket.close()


def connect(agent: Agent, **options: object) -> AgentLink:
    return AgentLink.connect(path=str(agent.consumer_socket.path), **options)  # type: ignore[arg-type]


def test_a_consumer_says_who_it_is_and_is_steered(agent: Agent) -> None:
    link = connect(agent, spark_application_id="app-1", stateful=False)
    hello = agent.next()
    assert isinstance(hello, Hello)
    assert (hello.spark_application_id, hello.stateful) == ("app-1", False)
    assert link.control == CONTROL
    assert link.settings == SETTINGS
    link.close()


def test_nothing_is_said_to_a_consumer_before_it_is_steered(agent: Agent) -> None:
    """A renew may come between its hello and the loop's answer, which must be its first line."""
    agent.consumer_socket.close()
    consumer_socket = ConsumerSocket(agent.consumer_socket.path, agent.heard.put)
    consumer_socket.start()
    links: list[AgentLink] = []
    path = str(consumer_socket.path)
    asking = threading.Thread(target=lambda: links.append(AgentLink.connect(path=path)))
    asking.start()
    hello = agent.next()
    assert isinstance(hello, Hello)
    consumer_socket.send_lease_end(7_000)
    consumer_socket.send_settings(SETTINGS)
    consumer_socket.send_control(hello.number, CONTROL)
    consumer_socket.send_lease_end(9_000)
    asking.join(10)
    assert links and links[0].control == CONTROL
    until(lambda: links[0].lease_end_ms == 9_000)
    links[0].close()
    consumer_socket.close()


def test_the_end_of_the_lease_moves_and_what_is_said_later_arrives(agent: Agent) -> None:
    link = connect(agent)
    assert not link.may_process(1_000) and link.may_process(999)
    agent.consumer_socket.send_lease_end(5_000)
    until(lambda: link.lease_end_ms == 5_000)
    others = GroupSettings.of(SETTINGS.values() | others_than(SETTINGS))
    agent.consumer_socket.send_settings(others)  # another value of each that is declared
    until(lambda: link.settings != SETTINGS)
    assert link.settings == others
    agent.next()
    link.say(spark_application_id="app-2")
    assert agent.next() == Message(1, {"spark_application_id": "app-2"})
    link.close()


def test_a_consumer_learns_that_its_agent_is_gone(agent: Agent) -> None:
    gone = threading.Event()
    connect(agent, on_gone=gone.set)
    agent.consumer_socket.close()
    assert gone.wait(10)


def test_an_agent_learns_that_its_consumer_is_gone(agent: Agent) -> None:
    called = threading.Event()
    link = connect(agent, on_gone=called.set)
    agent.next()
    link.close()
    assert agent.next() == Disconnected(1)
    assert link.gone.wait(10)
    assert not called.is_set()  # it closed by itself


def test_only_the_newest_consumer_is_listened_to(agent: Agent) -> None:
    gone = threading.Event()
    connect(agent, on_gone=gone.set)
    second = connect(agent)
    assert gone.wait(10)

    def is_heard() -> bool:  # the agent's thread may not have noted yet whom it answered
        agent.consumer_socket.send_lease_end(7_000)
        return second.lease_end_ms == 7_000

    until(is_heard)
    second.close()


@pytest.mark.parametrize("nonsense", [b"hello\n", b"[]\n", b"{}\n", b'{"pid": "x"}\n', b"\n"])
def test_nonsense_is_no_consumer(agent: Agent, nonsense: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.connect(str(agent.consumer_socket.path))
        stranger.sendall(nonsense)
        stranger.settimeout(10)
        assert stranger.recv(1) == b""
    link = connect(agent)
    assert isinstance(agent.next(), Hello)
    link.close()


def test_a_consumer_without_an_agent_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AgentUnreachable, match="no agent answers at"):
        AgentLink.connect(path=str(tmp_path / "nobody.sock"))
    monkeypatch.delenv("EVENKEEL_AGENT_SOCKET", raising=False)
    with pytest.raises(AgentUnreachable, match="EVENKEEL_AGENT_SOCKET is not set"):
        AgentLink.connect()


def test_the_socket_is_its_users_own(agent: Agent) -> None:
    assert agent.consumer_socket.path.stat().st_mode & 0o077 == 0


def test_a_socket_in_use_is_not_taken_and_one_left_over_is(agent: Agent, tmp_path: Path) -> None:
    with pytest.raises(SocketUnusable, match="another agent listens there"):
        ConsumerSocket(agent.consumer_socket.path, agent.hear)
    left_over = tmp_path / "b.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(left_over))
    ConsumerSocket(left_over, agent.hear).close()
