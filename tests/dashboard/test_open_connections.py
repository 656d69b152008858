"""What ends a login or takes a right away takes effect on connections that are open: with the word
that is published once it is stored; without one with the next look, which is within a second.

Nothing here measures this machine: words and looks are counted, and the time between looks is the
test's own.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from dashboard.live import push
from dashboard.live.connection import close_async_client
from dashboard.models import Group
from dashboard.push import rights
from tests.dashboard.people import granted, logged_in
from tests.dashboard.test_sockets import DEADLINE_S, Browser, connected, frame_of

pytestmark = pytest.mark.django_db(transaction=True)
PASSWORD = "an-even-keel-9"


class People:
    """ann, who watches the group, and boss, who may everything."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.ann = User.objects.create(username="ann")
        self.client = logged_in(self.ann)
        self.boss = logged_in(User.objects.create(username="boss", is_superuser=True))

    async def watch(self) -> Browser:
        """Opened, and let in."""
        cookie = f"sessionid={self.client.cookies['sessionid'].value}"
        socket = await connected(self.group.name, cookie)
        assert socket is not None
        await frame_of(socket, "hello")
        return socket

    def change(self, **values: Any) -> None:
        answer = self.boss.post(f"/users/{self.ann.pk}/", values)
        assert answer.status_code == 302, answer.content


DENY = {"do": "grant", "effect": "deny", "role": "viewer", "pattern": "*"}
DEEDS: dict[str, tuple[Callable[[People], object], int]] = {
    "log out": (lambda people: people.client.post("/logout/"), 4403),
    "deactivate": (lambda people: people.change(do="deactivate"), 4403),
    "password": (lambda people: people.change(do="password", password=PASSWORD), 4403),
    "deny": (lambda people: people.change(**DENY), 4404),
}
UNSAID: dict[str, tuple[Callable[[People], object], int]] = {
    "expiry": (lambda people: Session.objects.update(expire_date=timezone.now()), 4403),
    "deny by hand": (lambda people: granted(people.ann, "viewer", "*", "deny"), 4404),
    "group": (lambda people: Group.objects.all().delete(), 4404),
}


@pytest.fixture
def people(group: Group) -> People:
    return People(group)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each word that is published and each look that is made, in their order."""
    found: list[str] = []
    say, ask = push.push_rights, rights.ask

    def saying() -> None:
        found.append("word")
        say()

    async def asking(seats: Any) -> Any:
        found.append("look")
        return await ask(seats)

    monkeypatch.setattr(push, "push_rights", saying)
    monkeypatch.setattr(rights, "ask", asking)
    return found


@pytest.fixture
def listening(people: People, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set once the process hears words; nothing else makes it look."""
    layer, heard = get_channel_layer(), asyncio.Event()
    add = layer.group_add

    async def added(channels: str, channel: str) -> None:
        await add(channels, channel)
        if channels == push.RIGHTS:
            heard.set()

    monkeypatch.setattr(layer, "group_add", added)
    monkeypatch.setattr(rights, "LOOK_EVERY_S", 3_600.0)
    return heard


@pytest.mark.parametrize("how", DEEDS)
async def test_a_word_is_enough(
    people: People, listening: asyncio.Event, told: list[str], how: str
) -> None:
    do, code = DEEDS[how]
    socket = await people.watch()
    await asyncio.wait_for(listening.wait(), DEADLINE_S)
    assert told == []
    await sync_to_async(do)(people)
    assert await socket.closed() == code
    assert told[0] == "word", "said when it is stored"
    assert 1 <= told.count("look") <= told.count("word"), "the look behind a word found it"
    await socket.leave()
    await close_async_client()


class OwnTime:
    """asyncio whose `timeout` ends when the test says so."""

    def __init__(self) -> None:
        self.spans_s: list[float] = []
        self.is_over = asyncio.Event()

    @asynccontextmanager
    async def timeout(self, span_s: float) -> AsyncIterator[None]:
        self.spans_s.append(span_s)
        await self.is_over.wait()
        self.is_over.clear()
        async with asyncio.timeout(0):
            yield


@pytest.mark.parametrize("how", [*DEEDS, *UNSAID])
async def test_without_a_word_the_next_look_is(
    people: People, told: list[str], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    async def deaf(*_: Any) -> None:
        await asyncio.Event().wait()

    time = OwnTime()
    own = SimpleNamespace(**{**vars(asyncio), "timeout": time.timeout})
    monkeypatch.setattr(rights, "asyncio", own)
    monkeypatch.setattr(push, "listen", deaf)
    do, code = (DEEDS | UNSAID)[how]
    socket = await people.watch()
    await sync_to_async(do)(people)
    assert "look" not in told
    time.is_over.set()
    assert await socket.closed() == code
    assert told.count("look") == 1
    assert time.spans_s and all(span_s < 1 for span_s in time.spans_s)
    await socket.leave()
    await close_async_client()


async def test_who_keeps_the_right_stays(people: People, told: list[str]) -> None:
    carl = await sync_to_async(User.objects.create)(username="carl")
    cookie = (await sync_to_async(logged_in)(carl)).cookies["sessionid"].value
    other = await connected(people.group.name, f"sessionid={cookie}")
    assert other is not None
    await frame_of(other, "hello")
    hers = await people.watch()
    await sync_to_async(people.change)(do="deactivate")
    assert await hers.closed() == 4403
    assert await frame_of(other, "beat")
    await hers.leave()
    await other.leave()
    await close_async_client()


@pytest.mark.parametrize("how", ["grant", "revoke"])
def test_open_pages_are_asked_again_once_a_right_is_stored(
    people: People, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    row = granted(people.ann, "viewer", "x-*", "deny") if how == "revoke" else None
    found: list[bool] = []
    stored = people.ann.role_grants
    monkeypatch.setattr(push, "push_rights", lambda: found.append(stored.exists()))
    people.change(**(DENY if row is None else {"do": "revoke", "grant": row.pk}))
    assert found == [row is None]


def test_who_is_out_gets_no_page_either(people: People) -> None:
    """The requests of an open browser: no look is waited for."""
    assert people.client.get("/groups/").status_code == 200
    people.change(do="deactivate")
    assert people.client.get("/groups/").status_code == 302
    assert Client().get("/groups/").status_code == 302
