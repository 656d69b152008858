"""Connections of those who are known: how many there may be, and how they end."""

import asyncio
import json
from functools import partial
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from pytest_django.fixtures import Settings

from dashboard.actions import groups
from dashboard.asgi import application
from dashboard.models import AuditSource, Group
from dashboard.records.audit import By
from dashboard.web.visitors import VISIT, Visitors, said_who
from tests.dashboard.agents import SECRET
from tests.dashboard.served import GET, POST, Connection, echo, echo_after, post, serving, until

ANN = By("ann", AuditSource.PAGE)
JOIN = {"member": "m1", "secret": SECRET, "host": "here"}
CLAIM = b"POST /api/agent/v1/g/join HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ekt_x\r\n"


def known(who: str, most: int) -> Any:
    """Knows who asks before the body is read, as agents' routes do."""

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        said_who(scope, who, most)
        await echo(scope, receive, send)

    return app


async def closed(connections: list[Connection], count: int) -> None:
    """When so many of them were ended by the server."""
    await until(lambda: sum(map(is_closed, connections)) >= count)


def is_closed(one: Connection) -> bool:
    """Whatever of its answer was read."""
    return one.reader._eof or one.reader.exception() is not None  # type: ignore[attr-defined]


async def test_connections_of_a_token_are_bounded() -> None:
    async with serving(known("token 1", 3)) as web:
        idle = [await web.open() for _ in range(8)]
        for one in idle:
            assert (await one.ask(GET + b"\r\n"))[0] == 200
        await closed(idle, 5)
        assert [is_closed(one) for one in idle] == [True] * 5 + [False] * 3
        half = [await web.open(POST + b"half") for _ in range(20)]
        await closed(idle + half, 25)
        assert not is_closed(half[-1]), "the newest are kept"
        assert web.strangers == 0


async def test_who_comes_when_all_places_of_a_token_work_ends_with_the_answer() -> None:
    released = asyncio.Event()
    working = echo_after(released)

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        said_who(scope, "token 1", 2)
        await (working if scope["path"] == "/" else echo)(scope, receive, send)

    async with serving(app) as web:
        at_work = [await web.open(GET + b"\r\n") for _ in range(2)]
        await until(lambda: web.kind.visitors.known.count == 2)
        third = await web.open(b"GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in await third.ended()
        released.set()
        assert [(await one.answer())[0] for one in at_work] == [200] * 2


async def test_who_says_who_it_is_is_known_before_the_next_one_comes() -> None:
    """In one long turn of the loop come hundreds, whose answers are not written before its end."""
    visitors, ended = Visitors(claimed_per_address=1), list[int]()
    for n in range(5):
        visit = visitors.come("10.0.0.7", partial(ended.append, n))
        assert visit is not None
        visitors.claim(visit)
        visitors.work(visit)
        said_who({"state": {VISIT: visit}}, "token 1", 9)
        visitors.wait(visit)
    assert (ended, visitors.known.count, visitors.claimed.count) == ([], 5, 0)


async def test_all_who_are_known_have_a_bound_together() -> None:
    names = iter(f"user {n}" for n in range(9))

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        said_who(scope, next(names))
        await echo(scope, receive, send)

    async with serving(app, Visitors(known_in_all=4)) as web:
        kept = [await web.open() for _ in range(9)]
        for one in kept:
            assert (await one.ask(GET + b"\r\n"))[0] == 200
        await closed(kept, 5)
        assert web.kind.visitors.known.count == 4
    assert web.kind.visitors._of == {}


async def test_behind_a_proxy_connections_are_nobodys(settings: Settings) -> None:
    settings.BEHIND_PROXY = True
    async with serving(known("user 1", 2)) as web:
        pool = [await web.open() for _ in range(6)]
        for one in pool * 2:
            assert (await one.ask(GET + b"\r\n"))[0] == 200


async def test_whoever_only_shows_a_token_has_a_bound() -> None:
    """While it is checked."""
    released = asyncio.Event()
    bounds = Visitors(per_address=2, patience_s=0.0, claimed_per_address=5)
    async with serving(echo_after(released), bounds) as web:
        claiming = [await web.open(CLAIM + b"Content-Length: 9\r\n\r\n{") for _ in range(40)]
        await closed(claiming, 33)
        assert bounds.claimed.count + bounds.count == 7
        released.set()


async def test_whose_token_was_refused_makes_place_at_once() -> None:
    async def refuses(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    bounds = Visitors(claimed_per_address=5)
    async with serving(refuses, bounds, REST=3_600.0) as web:
        wrong = [await web.open(CLAIM + b"Content-Length: 9\r\n\r\n{") for _ in range(40)]
        await closed(wrong, 35)
        assert bounds.claimed.count == 5


async def test_with_an_address_whose_tokens_are_refused_nobody_has_patience() -> None:
    """Else each that comes again would have it again."""
    visitors, ended = Visitors(per_address=2, claimed_per_address=3), list[int]()

    def come(number: int, address: str = "a") -> None:
        assert visitors.come(address, lambda: ended.append(number))

    for number in range(4):
        come(number)
    assert ended == [], "they have only come"
    for visit in tuple(visitors.strangers.waiting)[:3]:
        visitors.refuse(visit)
    assert (visitors.claimed.count, visitors.count, ended) == (3, 1, [])
    for number in range(4, 8):
        come(number)
    assert (visitors.count, ended) == (2, [3, 4, 5])
    for number in range(8, 12):
        come(number, "b")
    assert (visitors.count, ended) == (6, [3, 4, 5]), "another address does not pay"


@pytest.mark.django_db(transaction=True)
async def test_connections_of_a_revoked_token_end(
    whole: None, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await sync_to_async(groups.create_token)(group, by=ANN)
    path = f"/api/agent/v1/{group.name}/join"
    asked = post(path, json.dumps(JOIN).encode(), b"Authorization: Bearer " + made.text.encode())
    async with serving(application) as web:
        agents = [await web.open() for _ in range(4)]
        for agent in agents:
            assert (await agent.ask(asked))[0] == 200
        monkeypatch.setattr("dashboard.agents.tokens.LOOK_EVERY_S", 0)
        await sync_to_async(groups.revoke_token)(made.token, ANN)
        for agent in agents:
            assert (await agent.ask(asked))[0] == 401
        await until(lambda: web.kind.visitors.known.count == 0)
        await closed(agents, 4)


# --- the end


@pytest.mark.parametrize("start", [POST, CLAIM + b"Content-Length: 9\r\n\r\n"])
async def test_a_server_that_ends_does_not_wait_for_half_a_body(start: bytes) -> None:
    async with serving(known("token 1", 9), REST=0.1, BODY=3_600.0) as web:
        half = await web.open(start + b"half")
        await until(lambda: web.kind.visitors.known.count == 1)
    assert (await half.ended()).startswith(b"HTTP/1.1 408 ")


async def test_a_server_that_ends_answers_what_it_has() -> None:
    released = asyncio.Event()
    async with serving(echo_after(released), REST=0.1) as web:
        asking = await web.open(GET + b"\r\n")
        await until(lambda: len(web.kind.visitors.strangers.waiting) == 0)
        asyncio.get_running_loop().call_later(0.5, released.set)
    assert b" 200 " in await asking.ended()
