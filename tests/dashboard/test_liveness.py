"""By what a web process that is too busy for one more question is told from one that hangs."""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dashboard import asgi
from dashboard.demo import web_health
from dashboard.demo.embedded_redis import free_port
from dashboard.demo.options import Options
from dashboard.demo.parts import Parts
from dashboard.demo.tree import Process
from dashboard.web import liveness
from dashboard.web.liveness import LivenessFile

DEADLINE_S = 10.0


def age(file: Path) -> None:
    os.utime(file, (0, 0))


@pytest.fixture
def sign(tmp_path: Path) -> Path:
    return tmp_path / "sign"


def test_an_answer_is_told_by_the_time_of_the_file(sign: Path) -> None:
    assert not liveness.is_fresh(sign, 60)
    LivenessFile(sign).note_answer()
    assert liveness.is_fresh(sign, 60)
    age(sign)
    assert not liveness.is_fresh(sign, 60)


def test_thousands_of_answers_touch_it_once_a_second(
    sign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [100.0]
    monkeypatch.setattr(liveness.time, "monotonic", lambda: now_s[0])
    told = LivenessFile(sign)
    told.note_answer()
    age(sign)
    now_s[0] += 0.9
    told.note_answer()
    assert not liveness.is_fresh(sign, 60)
    now_s[0] += 0.2
    told.note_answer()
    assert liveness.is_fresh(sign, 60)


def test_who_is_given_no_file_or_one_that_cannot_be_made_answers_all_the_same(
    tmp_path: Path,
) -> None:
    LivenessFile(None).note_answer()
    gone = tmp_path / "gone" / "sign"
    told = LivenessFile(gone)
    told.note_answer()
    gone.parent.mkdir()
    told.note_answer()
    assert not gone.exists(), "it is not tried for ever"


async def test_every_answer_of_the_application_is_told(
    sign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asgi, "liveness", LivenessFile(sign))
    said = list[str]()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        said.append(message["type"])

    scope = {"type": "http", "path": "/a\0b", "query_string": b"", "headers": [], "method": "GET"}
    await asgi.application(scope, receive, send)
    assert said and liveness.is_fresh(sign, 60)


@dataclass(slots=True)
class Server:
    """Says this status to whatever is asked; None: it takes the question and says nothing."""

    port: int
    status: int | None = 200


@pytest.fixture
def server() -> Iterator[Server]:
    ending, found = threading.Event(), Server(0)

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if found.status is None:
                ending.wait(DEADLINE_S)
                return
            self.send_response(found.status)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    made = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    found.port = made.server_port
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield found
    ending.set()
    made.shutdown()
    made.server_close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_health, "ANSWER_TIMEOUT_S", 0.2)


def web_at(port: int, data: Path) -> tuple[Process, Path]:
    """As a part of the tree, and the file that it is told to touch."""
    web = Parts(Options(data=data, port=port), "redis://").web()
    file = Path(web.environment[liveness.VARIABLE])
    file.parent.mkdir()
    return web, file


def test_a_web_process_hangs_when_nobody_is_answered(tmp_path: Path, server: Server) -> None:
    server.status = None
    web, file = web_at(server.port, tmp_path)
    assert not web.healthy()
    file.touch()
    assert web.healthy(), "it answers others, and is only busy"
    age(file)
    assert not web.healthy()


def test_who_answers_others_and_never_the_question_is_half_dead(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [100.0]
    monkeypatch.setattr(web_health, "monotonic", lambda: now_s[0])
    server.status = None
    web, file = web_at(server.port, tmp_path)
    file.touch()
    assert web.healthy()
    now_s[0] += web_health.OVERLOAD_MAX_S
    assert not web.healthy()
    server.status = 200
    assert web.healthy()
    server.status = None
    assert web.healthy(), "it was silent for a moment only"


@pytest.mark.parametrize("status", [500, 503])
def test_who_says_that_it_fails_is_not_busy(tmp_path: Path, server: Server, status: int) -> None:
    server.status = status
    web, file = web_at(server.port, tmp_path)
    file.touch()
    assert not web.healthy()


def test_where_nobody_listens_nobody_is_busy(tmp_path: Path) -> None:
    web, file = web_at(free_port(), tmp_path)
    file.touch()
    assert not web.healthy()


def test_who_answers_needs_no_file(tmp_path: Path, server: Server) -> None:
    web, file = web_at(server.port, tmp_path)
    assert web.healthy() and not file.exists()


def test_several_have_a_file_each(tmp_path: Path) -> None:
    webs = Parts(Options(data=tmp_path, port=1, webs=2), "redis://").webs()
    assert len({web.environment[liveness.VARIABLE] for web in webs}) == 2


def test_a_file_from_the_future_or_one_that_cannot_be_seen_says_nothing(tmp_path: Path) -> None:
    ahead, inside = tmp_path / "ahead", tmp_path / "file" / "inside"
    ahead.touch()
    os.utime(ahead, (2**33, 2**33))
    assert not liveness.is_fresh(ahead, 60)
    inside.parent.touch()
    assert not liveness.is_fresh(inside, 60)
