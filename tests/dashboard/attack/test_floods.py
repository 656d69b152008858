"""Strangers that ask too much, or half: cut off by a bounded server, found at another one."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dashboard.evaluation.attack import floods
from dashboard.evaluation.attack.target import Target
from dashboard.web.protocols import Awaited, HttpProtocol
from dashboard.web.visitors import VISIT, Visitors, said_who
from tests.dashboard.attack.systems import target_at


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Reads bodies whole, as Django does; agents are known."""
    more = True
    while more:
        message = await receive()
        more = message.get("more_body", False)
    if scope["path"].startswith("/api/"):
        said_who(scope, "token 1", 1_000)
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]}
    )
    await send({"type": "http.response.body", "body": b""})


async def forgetful(scope: Any, receive: Any, send: Any) -> None:
    """Knows nobody."""
    scope["state"].pop(VISIT, None)
    await application(scope, receive, send)


@contextmanager
def serving(protocol: type[Any], app: Any = application) -> Iterator[Target]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, http=protocol, lifespan="off", log_level="critical")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        target = target_at(listening.getsockname()[1])
        try:
            yield target
        finally:
            target.close()
            server.should_exit = server.force_exit = True
            thread.join()


def bounded() -> type[HttpProtocol]:
    return type("Bounded", (HttpProtocol,), {"visitors": Visitors()})


def test_too_much_is_cut_off_or_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = [(what, start, 20 * 2**20) for what, start, _ in floods.STARTS[:2]]
    monkeypatch.setattr(floods, "STARTS", headers)
    with serving(bounded()) as target:
        assert floods.too_much(target).problems == []
    with serving(HttpToolsProtocol) as target:
        assert [p.split(":")[0] for p in floods.too_much(target).problems] == [
            "a header",
            "an address",
        ]
    grown = iter((0, 2**30))
    monkeypatch.setattr(floods, "STARTS", [])
    problems = floods.too_much(target_at(1, memory=lambda: next(grown))).problems
    assert problems == [f"the web process has grown by {2**30} bytes"]


def test_half_sent_requests_give_way_or_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HttpProtocol.seconds, Awaited.HEADER, 2.0)
    monkeypatch.setattr(floods, "PATIENCE_S", 0.6)
    monkeypatch.setattr(floods, "HALF_SENT", 120)
    monkeypatch.setattr(floods, "SLOW_S", 60.0)
    quick = type("Quick", (HttpProtocol,), {"visitors": Visitors(patience_s=0.2)})
    with serving(quick) as target:
        assert floods.half_sent(target).problems == []
    with serving(HttpToolsProtocol) as target:
        first, second = floods.half_sent(target).problems
        assert first.startswith("120 of 120 stayed")
        assert second == "60 of 60 half headers stayed"
    monkeypatch.setitem(HttpProtocol.seconds, Awaited.HEADER, 1.0)
    monkeypatch.setattr(floods, "PATIENCE_S", 0.0)
    monkeypatch.setattr(floods, "SLOW_S", 0.0)
    with serving(quick) as target:
        assert "were answered 200 and 200 after" in floods.half_sent(target).problems[0]


def test_agents_that_are_cut_off_as_strangers_are_found() -> None:
    with serving(bounded()) as target:
        assert floods.known_agents(target).problems == []
    hasty = type("Hasty", (HttpProtocol,), {"visitors": Visitors(patience_s=0.0)})
    with serving(hasty, forgetful) as target:
        assert re.search("were cut off|were refused", "".join(floods.known_agents(target).problems))
