"""The dashboard as an agent sees it, over real HTTP."""

import queue
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from agent.dashboard_session.requests import (
    Answer,
    Courier,
    DashboardAway,
    Dashboards,
    Refusal,
)
from agent.dashboard_session.route import GO_BACK_BEATS
from assignment.types import GroupSettings
from assignment.wire import Heartbeat, Join, Leave, Reply, Status
from tests.agent.conftest import until

JOIN = Join(member="a-1", secret="s" * 32)
BEAT = Heartbeat(member="a-1", secret="s" * 32, sequence=1, report=1, complete=True)
REPLY = b'{"status": "ok", "group_epoch": 4, "unknown": 1}'


class Server:
    """Answers everything with `status` and `body`; remembers the requests."""

    def __init__(self) -> None:
        self.status, self.body = 200, REPLY
        self.retry_after = ""
        self.get_status: int | None = None  # None: as `status`
        self.requests: list[tuple[str, str, bytes]] = []
        self.gate = threading.Event()
        self.gate.set()
        handler = type("Handler", (_Handler,), {"server_of_test": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    server_of_test: Server

    def do_POST(self) -> None:
        server = self.server_of_test
        body = self.rfile.read(int(self.headers["content-length"] or 0))
        server.requests.append((self.path, self.headers["authorization"], body))
        server.gate.wait(10)
        got = server.get_status if self.command == "GET" else None
        self.send_response(got or server.status)
        self.send_header("content-length", str(len(server.body)))
        if server.retry_after:
            self.send_header("retry-after", server.retry_after)
        self.end_headers()
        self.wfile.write(server.body)

    do_GET = do_POST

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    servers = [Server(), Server()]
    yield servers
    for server in servers:
        server.gate.set()
        server.http.shutdown()
        server.http.server_close()


def dashboards(*urls: str) -> Dashboards:
    return Dashboards(urls, "flights", lambda: "t0ken")


def test_a_join_carries_the_token_and_is_answered(servers: list[Server]) -> None:
    reply = dashboards(servers[0].url).ask(JOIN)
    assert reply == Reply(status=Status.OK, group_epoch=4)
    path, authorization, body = servers[0].requests[0]
    assert (path, authorization) == ("/api/agent/v1/flights/join", "Bearer t0ken")
    assert b'"member":"a-1"' in body


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 301])
def test_a_refusal_says_what_the_dashboard_said(servers: list[Server], status: int) -> None:
    servers[0].status = status
    servers[0].body = b'{"title": "Unknown group", "detail": "there is no group \'x\'"}'
    with pytest.raises(Refusal, match="Unknown group: there is no group 'x'") as caught:
        dashboards(servers[0].url).ask(JOIN)
    assert caught.value.status == status


@pytest.mark.parametrize("status", [429, 500, 503])
def test_one_that_cannot_answer_now_is_away(servers: list[Server], status: int) -> None:
    servers[0].status, servers[0].body = status, b"<html>"
    with pytest.raises(DashboardAway, match=f"HTTP {status}"):
        dashboards(servers[0].url).ask(JOIN)


@pytest.mark.parametrize(
    ("told", "ms"),
    [("2", 2_000), ("0", 0), ("", 0), ("9" * 30, 60_000), ("-1", 0), ("Wed, 21 Oct 2026", 0)],
)
def test_when_to_come_again_is_read_and_bounded(servers: list[Server], told: str, ms: int) -> None:
    servers[0].status, servers[0].retry_after = 503, told
    with pytest.raises(DashboardAway) as caught:
        dashboards(servers[0].url).ask(JOIN)
    assert caught.value.retry_after_ms == ms


def test_of_several_addresses_the_soonest_that_asked_counts(servers: list[Server]) -> None:
    for server, told in zip(servers, ("7", "3"), strict=True):
        server.status, server.retry_after = 503, told
    urls = (*(server.url for server in servers), "http://127.0.0.1:1")
    with pytest.raises(DashboardAway) as caught:
        dashboards(*urls).ask(JOIN)
    assert caught.value.retry_after_ms == 3_000


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"status": 3}'])
def test_what_is_no_reply_is_not_believed(servers: list[Server], body: bytes) -> None:
    servers[0].body = body
    with pytest.raises(DashboardAway, match="no reply"):
        dashboards(servers[0].url).ask(JOIN)


def test_the_first_that_answers_is_used_and_an_earlier_one_after_ten_beats(
    servers: list[Server],
) -> None:
    first, second = servers
    asked = dashboards(first.url, second.url)
    first.status = 503
    asked.ask(JOIN)
    asked.look_for_earlier()
    assert asked.current_url == second.url
    assert len(first.requests) == 1, "there is no beat to be told again"
    first.status = 200
    for number in range(GO_BACK_BEATS):
        assert asked.current_url == second.url
        asked.ask(replace(BEAT, sequence=number))
        asked.look_for_earlier()
    assert asked.current_url == first.url
    assert first.requests[1:] == second.requests[1:], "the very same beats"
    asked.look_for_earlier()
    assert len(first.requests) == 1 + GO_BACK_BEATS, "there is none before it"


@pytest.mark.parametrize("status", [503, 401])
def test_one_that_lives_and_takes_no_beats_is_not_gone_back_to(
    servers: list[Server], status: int
) -> None:
    first, second = servers
    asked = dashboards(first.url, second.url)
    first.status, first.get_status = 503, 200
    asked.ask(JOIN)
    first.status, first.body = status, b"{}"
    for _ in range(2 * GO_BACK_BEATS):
        asked.ask(BEAT)
        asked.look_for_earlier()
        assert asked.current_url == second.url


def test_a_silent_address_is_given_up_within_a_heartbeat_when_there_is_another(
    servers: list[Server],
) -> None:
    """As a process that stands still: its socket is open."""
    first, second = servers
    settings = GroupSettings(stream="s", partitions=1, heartbeat_ms=300)
    body = msgspec.json.encode(Reply(status=Status.OK, settings=settings))
    first.body = second.body = body
    asked = dashboards(first.url, second.url)
    asked.ask(JOIN)
    first.gate.clear()
    asked.ask(JOIN)
    assert asked.current_url == second.url
    assert not first.gate.is_set(), "it did not wait for the first"


def test_nobody_answers() -> None:
    with pytest.raises(DashboardAway, match="does not answer"):
        dashboards("http://127.0.0.1:9").ask(JOIN)


def test_of_those_that_wait_only_the_newest_is_carried(servers: list[Server]) -> None:
    server = servers[0]
    answers: queue.SimpleQueue[Answer | BaseException] = queue.SimpleQueue()
    courier = Courier(dashboards(server.url).ask, answers.put)
    server.gate.clear()
    courier.start()
    courier.send(JOIN)
    until(lambda: server.requests)
    for sequence in (1, 2, 3):
        beat = Heartbeat(member="a-1", secret="s", sequence=sequence, report=1, complete=True)
        courier.send(beat)
    assert courier.busy
    server.gate.set()
    first, second = answers.get(timeout=10), answers.get(timeout=10)
    assert isinstance(first, Answer) and first.request == JOIN
    assert isinstance(second, Answer) and isinstance(second.request, Heartbeat)
    assert second.request.sequence == 3
    assert not courier.busy
    courier.close()


def test_an_error_is_delivered_as_an_answer() -> None:
    answers: queue.SimpleQueue[Answer | BaseException] = queue.SimpleQueue()
    courier = Courier(dashboards("http://127.0.0.1:9").ask, answers.put)
    courier.start()
    courier.send(Leave(member="a", secret="s"))
    answer = answers.get(timeout=10)
    assert isinstance(answer, Answer) and isinstance(answer.error, DashboardAway)
    courier.close()
