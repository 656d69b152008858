"""What a connection may cost before anybody knows who it is: bytes, time, places."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from dashboard.actions import groups
from dashboard.asgi import application
from dashboard.models import AuditEntry, AuditSource, Group
from dashboard.records.audit import By
from dashboard.web import protocols
from dashboard.web.visitors import Visitors, address_of
from tests.dashboard.agents import SECRET
from tests.dashboard.served import (
    DEADLINE_S,
    GET,
    POST,
    echo_after,
    post,
    serving,
    until,
)

OFFERED = (
    b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


# --- bytes


async def test_header_is_kept_up_to_a_bound_only() -> None:
    line = b"A: %s\r\n" % (b"x" * (protocols.HEADER_BYTES_MAX // 8))
    async with serving() as web:
        for lines in (GET + line * 9 + b"\r\n", GET + b"A: b\r\n" * 101 + b"\r\n"):
            assert (await (await web.open(lines)).ended()).startswith(b"HTTP/1.1 431 ")
        for lines in (GET + line * 7 + b"\r\n", GET + b"A: b\r\n" * 99 + b"\r\n"):
            assert (await (await web.open()).ask(lines))[0] == 200


async def test_who_sends_on_reads_why_it_was_refused() -> None:
    async with serving() as web:
        refused = await web.open(GET + b"A: b\r\n" * 101)
        assert (await refused.answer())[0] == 431
        for _ in range(4):
            refused.writer.write(b"x" * 2**18)
            await refused.writer.drain()
        refused.writer.write_eof()
        assert await refused.reader.read() == b"", "the connection is not reset"
        await until(lambda: web.strangers == 0)


async def test_who_was_refused_sends_no_more_than_a_body_and_not_for_long() -> None:
    async with serving() as web:
        endless = await web.open(GET + b"A: b\r\n" * 101)
        await endless.takes_no_end()
        await until(lambda: web.strangers == 0)
    async with serving(REST=0.2) as web:
        await web.open(GET + b"A: b\r\n" * 101)
        await until(lambda: web.strangers == 1)
        await until(lambda: web.strangers == 0)


@pytest.mark.parametrize("start", [GET + b"A: ", b"GET /"], ids=["value", "address"])
async def test_header_that_never_ends_is_cut_off(start: bytes) -> None:
    async with serving() as web:
        endless = await web.open(start)
        await endless.takes_no_end()
        await until(lambda: web.strangers == 0)


async def test_what_follows_a_body_is_bounded_like_a_header() -> None:
    chunked = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    trailer = b"3\r\nabc\r\n0\r\nA: " + b"x" * (protocols.HEADER_BYTES_MAX + 2**18)
    async with serving() as web:
        answer = await (await web.open(chunked + trailer)).ended()
        assert b"HTTP/1.1 431 " in answer or answer == b""
        many_small = chunked + b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n"
        assert await (await web.open()).ask(many_small) == (200, b"100000")


async def test_requests_sent_ahead_are_few() -> None:
    async with serving() as web:
        few = await web.open((GET + b"\r\n") * protocols.AHEAD_MAX)
        assert [(await few.answer())[0] for _ in range(protocols.AHEAD_MAX)] == [200] * 16
        many = await web.open((GET + b"\r\n") * 1_000)
        assert (await many.ended()).count(b"HTTP/1.1 200 ") <= protocols.AHEAD_MAX + 1


# --- time


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (b"", b""),
        (b"\r\n", b""),
        (GET, b"HTTP/1.1 408 "),
        (POST + b"half", b"HTTP/1.1 408 "),
    ],
    ids=["nothing", "less than nothing", "half a header", "half a body"],
)
async def test_half_a_request_ends(sent: bytes, answered: bytes) -> None:
    async with serving(HEADER=0.2, BODY=0.2, REST=0.2) as web:
        half = await web.open(sent)
        assert (await half.ended()).startswith(answered)
        await until(lambda: web.strangers == 0)


async def test_bytes_that_drip_do_not_lengthen_the_time() -> None:
    async with serving(HEADER=0.3, BODY=0.3) as web:
        for start in (GET, POST):
            slow = await web.open(start)
            ending = asyncio.create_task(slow.ended())
            for _ in range(200):
                if ending.done():
                    break
                with suppress(ConnectionError):
                    slow.writer.write(b"A")
                await asyncio.sleep(0.02)
            assert ending.done(), start
            await ending


async def test_later_request_on_a_connection_has_the_same_time_as_the_first() -> None:
    async with serving(HEADER=0.2) as web:
        kept = await web.open()
        for _ in range(3):
            assert (await kept.ask(GET + b"\r\n"))[0] == 200
        kept.writer.write(GET)
        assert (await kept.ended()).startswith(b"HTTP/1.1 408 ")


async def test_work_is_not_interrupted() -> None:
    released = asyncio.Event()
    async with serving(echo_after(released), HEADER=0.1, BODY=0.1, READING=0.1) as web:
        asking = await web.open(GET + b"\r\n")
        await asyncio.sleep(0.5)
        released.set()
        assert (await asking.answer())[0] == 200


async def test_answer_that_nobody_reads_ends() -> None:
    async with serving(READING=0.3) as web:
        deaf = await web.open(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        deaf.reader._transport.pause_reading()  # type: ignore[attr-defined]
        await until(lambda: web.strangers == 1)
        await until(lambda: web.strangers == 0)
        deaf.writer.transport.abort()


# --- places


async def test_half_sent_requests_of_an_address_make_place_for_others_of_it() -> None:
    async with serving(visitors=Visitors(per_address=5, patience_s=0.0)) as web:
        half = [await web.open(GET if n % 2 else POST) for n in range(40)]
        await until(lambda: web.strangers == 5)
        ended = [asyncio.create_task(one.ended()) for one in half[:35]]
        await asyncio.gather(*ended)
        assert (await (await web.open()).ask(GET + b"\r\n"))[0] == 200
        assert not half[-1].reader.at_eof(), "the newest are kept"


async def test_another_address_does_not_pay() -> None:
    async with serving(visitors=Visitors(per_address=3, patience_s=0.0)) as web:
        other = await web.open(GET, source="127.0.0.2")
        for _ in range(20):
            await web.open(GET)
        await until(lambda: web.strangers == 4)
        assert (await other.ask(b"\r\n"))[0] == 200


async def test_all_addresses_together_have_a_bound() -> None:
    async with serving(visitors=Visitors(per_address=3, in_all=10, patience_s=0.0)) as web:
        for n in range(30):
            await web.open(GET, source=f"127.0.0.{n + 2}")
        await until(lambda: web.strangers == 10)


async def test_behind_a_proxy_all_addresses_are_one_that_has_no_bound(settings: Settings) -> None:
    settings.BEHIND_PROXY = True
    async with serving(visitors=Visitors(per_address=1, in_all=5, patience_s=0.0)) as web:
        for _ in range(10):
            await web.open(GET)
        await until(lambda: web.strangers == 5)


async def test_who_comes_when_all_places_work_is_told_so() -> None:
    released = asyncio.Event()
    async with serving(echo_after(released), Visitors(per_address=2)) as web:
        for _ in range(2):
            await web.open(GET + b"\r\n")
        await until(lambda: web.strangers == 2 and not web.kind.visitors.strangers.waiting)
        assert (await (await web.open()).answer())[0] == 503
        released.set()


async def test_those_who_said_who_they_are_are_not_counted() -> None:
    async with serving(visitors=Visitors(per_address=2, patience_s=0.0)) as web:
        known = [await web.open() for _ in range(1)]
        for _ in range(10):
            known.append(await web.open())
            asked = await known[-1].ask(b"GET /known HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert asked[0] == 200
        await until(lambda: web.strangers == 1)
        for _ in range(5):
            await web.open(GET)
        for one in known[1:]:
            assert (await one.ask(GET + b"\r\n"))[0] == 200


async def test_agents_that_come_back_all_at_once_are_all_accepted() -> None:
    async with serving(visitors=Visitors(per_address=5)) as web:
        crowd = await asyncio.gather(*(web.open(GET + b"\r\n") for _ in range(200)))
        answers = await asyncio.gather(*(one.answer() for one in crowd))
        assert {status for status, _ in answers} == {200}


@pytest.mark.parametrize(
    ("client", "address"),
    [
        (("10.0.0.7", 5), "10.0.0.7"),
        (("::ffff:10.0.0.7", 5), "10.0.0.7"),
        (("2001:db8:1:2:3::4", 5), "2001:db8:1:2::/64"),
        (("fe80::1%eth0", 5), "fe80::/64"),
        (None, ""),
        (("unix", 0), ""),
    ],
)
def test_address_of_a_connection(client: tuple[str, int] | None, address: str) -> None:
    assert address_of(client) == address


def test_places_are_given_back_whatever_ends_first() -> None:
    async def run() -> None:
        visitors = Visitors(per_address=1, in_all=2, patience_s=0.0)
        ended: list[str] = []
        for address in ("a", "a", "b", "c", "", ""):
            assert visitors.come(address, lambda address=address: ended.append(address))  # type: ignore[misc]
        assert (visitors.count, len(ended)) == (2, 4)
        working = visitors.come("d", lambda: None)
        assert working is not None
        visitors.work(working)
        assert visitors.come("d", lambda: None) is None
        visitors.part(working)
        visitors.part(working)
        visitors.wait(working)
        assert visitors.count == 1
        assert set(visitors._of) <= {"d"}

    asyncio.run(run())


# --- sockets


async def test_socket_passes_the_bounds(caplog: pytest.LogCaptureFixture) -> None:
    async def accepts(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass

    async with serving(accepts) as web:
        made = await web.open(GET + OFFERED)
        async with asyncio.timeout(DEADLINE_S):
            assert (await made.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        assert web.strangers == 1
        made.writer.write(b"\x01\x80abcd" + b"\x00\x80abcd" * (protocols.FRAGMENTS_MAX + 2))
        assert b"\x03\xf1" in await made.ended(), "1009: too many fragments"
        await until(lambda: web.strangers == 0)
    assert caplog.messages == []


@pytest.mark.parametrize(
    "start",
    [
        b"POST / HTTP/1.1\r\nHost: localhost\r\n",
        b"GET /" + b"x" * 9_000 + b" HTTP/1.1\r\nHost: localhost\r\n",
        GET + b"A: " + b"x" * 9_000 + b"\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n",
    ],
    ids=["method", "address", "header", "not ASCII"],
)
async def test_what_is_no_handshake_is_answered(
    start: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as web:
        answer = await (await web.open(start + OFFERED)).ended()
        assert answer.startswith(b"HTTP/1.1 4"), answer
        await until(lambda: web.strangers == 0)
    assert [r for r in caplog.records if r.exc_info] == []


# --- the whole application


@pytest.mark.django_db(transaction=True)
async def test_agent_with_its_token_is_no_stranger(whole: None, group: Group) -> None:
    made = await sync_to_async(groups.create_token)(group, by=By("ann", AuditSource.PAGE))
    path = f"/api/agent/v1/{group.name}/join"
    join = json.dumps({"member": "m1", "secret": SECRET, "host": "here"}).encode()
    async with serving(application, Visitors(per_address=2, patience_s=0.0)) as web:
        agents = []
        for _ in range(6):
            agents.append(await web.open())
            bearer = b"Authorization: Bearer " + made.text.encode()
            assert (await agents[-1].ask(post(path, join, bearer)))[0] == 200
        await until(lambda: web.strangers == 0)
        for _ in range(6):
            await web.open(GET)
        for agent in agents:
            assert (await agent.ask(post(path, join, bearer)))[0] == 200
        wrong = await web.open(post(path, join, b"Authorization: Bearer ekt_wrong"))
        assert b"401" in (await wrong.ended()).split(b"\r\n")[0], "answered, and ended"


@pytest.mark.django_db(transaction=True)
async def test_somebody_signed_in_is_no_stranger(whole: None, group: Group) -> None:
    def sign_in() -> bytes:
        client = Client()
        client.force_login(User.objects.create(username="ann"))
        return b"Cookie: sessionid=" + client.cookies["sessionid"].value.encode()

    cookie = await sync_to_async(sign_in)()
    async with serving(application) as web:
        person, stranger = await web.open(), await web.open()
        page = b"GET /groups/ HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n"
        assert (await person.ask(page % cookie))[0] == 200
        assert (await stranger.ask(page % b"Cookie: sessionid=wrong"))[0] == 302
        start = (
            b"GET /ws/group/%s/ HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n%s\r\n"
        )
        watching = await web.open(start % (group.name.encode(), cookie) + OFFERED)
        async with asyncio.timeout(DEADLINE_S):
            assert (await watching.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        await until(lambda: web.strangers == 1)


@pytest.mark.django_db(transaction=True)
async def test_who_claims_his_own_address_is_on_record_with_it(whole: None) -> None:
    async with serving(application) as web:
        sent = post("/logout/", b"", b"X-Forwarded-For: 127.0.0.3")
        refused = await web.open(sent, "127.0.0.3")
        assert (await refused.answer())[0] == 403
    entry = await sync_to_async(AuditEntry.objects.get)(action="POST logout")
    assert entry.address == "127.0.0.3"
