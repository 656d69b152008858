"""Systems to attack, each of which answers as its test says."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from websockets.datastructures import Headers
from websockets.http11 import Response
from websockets.sync.server import serve

from dashboard.evaluation.attack.target import Person, Target

LOOK_S = 0.01  # whether it is to end
LOGIN = {"Location": "/login/?next=/"}


class Somebody(Person):
    __slots__ = ()

    def new_token(self, group: str) -> str:
        return "ekt_a"


class SignedIn(Target):
    __slots__ = ()

    def sign_in(self) -> Person:
        return Somebody(self, "session")


def target_at(port: int, **more: Any) -> SignedIn:
    held: dict[str, bytes] = {}
    values: dict[str, Any] = {
        "port": port,
        "group": "attacked",
        "other": "other",
        "tokens": {"attacked": "ekt_a", "other": "ekt_b"},
        "metrics_token": "m" * 32,
        "login": ("operator", "password"),
        "dice": random.Random(7),
        "say": lambda line: None,
        "state": lambda: dict(held),
        "settled": lambda: dict(held),
        "memory": lambda: 0,
        "tracebacks": list,
        "redis_url": f"redis://127.0.0.1:{port}/0",
        "data": Path(),
        "go_on": lambda: None,
        "let_in": lambda: None,
        "requests_a_route": 2,
    }
    return SignedIn(**(values | more))


@contextmanager
def answering(status: int, headers: dict[str, str] | None = None, **more: Any) -> Iterator[Target]:
    """A system that answers everything like this; with `changes` each request changes it."""
    held: dict[str, bytes] = {}
    changes, body = more.pop("changes", False), more.pop("body", b"")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if changes:
                held["key a"] = str(len(held) + int(held.get("key a", b"0"))).encode()
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_POST = do_HEAD = answer

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(LOOK_S,), daemon=True).start()
        state = {"state": lambda: dict(held), "settled": lambda: dict(held)}
        target = target_at(server.server_address[1], **(state | more))
        try:
            yield target
        finally:
            target.close()
            server.shutdown()


@contextmanager
def sockets_that(answer: Callable[[Any, Any], Response | None], code: int) -> Iterator[Target]:
    def handler(opened: Any) -> None:
        if code:
            opened.close(code)
        else:
            opened.recv()

    with serve(handler, "127.0.0.1", 0, process_request=answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield target_at(server.socket.getsockname()[1])
        server.shutdown()


def rejected(*_: Any) -> Response:
    return Response(403, "Forbidden", Headers({"Content-Length": "0"}), b"")


def let_in(*_: Any) -> None:
    return None
