"""One reading of the database for all who ask for tokens; what is known serves meanwhile."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from dashboard.agents import tokens
from dashboard.agents.known_tokens import KnownTokens
from dashboard.models import AgentToken, Group

PATIENCE_S = 10.0


class Database:
    """Answers when it may; `readings` are the digests of each reading."""

    def __init__(self) -> None:
        self.readings: list[set[str]] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.valid = {"good": 1}
        self.is_away = False
        self.now_s = 100.0

    def read(self, asked: Mapping[str, str]) -> tokens.Read:
        self.readings.append(set(asked))
        valid = dict(self.valid)
        assert self.may_answer.wait(PATIENCE_S)
        if self.is_away:
            raise OperationalError("no connection")
        known = [tokens.Known(d, valid.get(d, 0), "g", None, self.now_s) for d in asked]
        return tokens.Read(known, [], {})


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    made = Database()
    monkeypatch.setattr(tokens, "read", made.read)
    monkeypatch.setattr(tokens, "time", SimpleNamespace(monotonic=lambda: made.now_s))
    yield made
    made.may_answer.set()


async def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.005)


async def known_to(made: KnownTokens) -> tokens.Known:
    return made.get("good", "") or await made.read("good", "")


async def test_a_hundred_who_ask_for_one_token_cost_one_reading(database: Database) -> None:
    made = KnownTokens()
    found = await asyncio.gather(*(made.read("good", "") for _ in range(100)))
    assert {one.token_id for one in found} == {1}
    assert database.readings == [{"good"}]


async def test_who_asks_while_the_database_is_read_is_answered_by_one_reading_after_it(
    database: Database,
) -> None:
    made = KnownTokens()
    database.may_answer.clear()
    first = asyncio.create_task(made.read("good", ""))
    await until(lambda: database.readings)
    others = [asyncio.create_task(made.read(f"t{n}", "")) for n in range(50)]
    await asyncio.sleep(0)
    database.may_answer.set()
    await asyncio.gather(first, *others)
    assert database.readings == [{"good"}, {f"t{n}" for n in range(50)}]


async def test_a_known_token_serves_while_it_is_read_again(database: Database) -> None:
    made = KnownTokens()
    await made.read("good", "")
    database.now_s += tokens.REMEMBERED_S + 0.1
    database.may_answer.clear()
    assert all(made.get("good", "") for _ in range(100))
    await until(lambda: len(database.readings) == 2)
    assert made.get("good", "")
    database.may_answer.set()
    await until(lambda: made._reading is None)
    assert len(database.readings) == 2
    assert made.get("good", "") == tokens.Known("good", 1, "g", None, database.now_s)


async def test_who_is_known_is_read_again_with_others_and_at_once_with_who_is_not(
    database: Database,
) -> None:
    made, names = KnownTokens(), [f"t{n}" for n in range(20)]
    database.valid = dict.fromkeys(names, 1)
    await asyncio.gather(*(made.read(name, "") for name in names))
    database.now_s += tokens.REMEMBERED_S + 0.1
    for name in names[:10]:
        assert made.get(name, "")
        await asyncio.sleep(0.001)
    await until(lambda: len(database.readings) == 2)
    for name in names[10:]:
        assert made.get(name, "")
    await made.read("other", "")
    assert [len(reading) for reading in database.readings] == [20, 10, 11]


async def test_it_serves_no_longer_than_a_while_and_a_refusal_not_at_all(
    database: Database,
) -> None:
    made = KnownTokens()
    await made.read("good", "")
    await made.read("bad", "")
    database.now_s += tokens.REMEMBERED_S + 0.1
    assert made.get("bad", "") is None
    database.now_s += tokens.SERVED_S
    assert made.get("good", "") is None


async def test_what_is_revoked_while_it_is_read_is_not_remembered_and_read_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = KnownTokens()
    await made.read("good", "")
    database.now_s += tokens.REMEMBERED_S + 0.1
    database.may_answer.clear()
    made.get("good", "")
    await until(lambda: len(database.readings) == 2)
    database.valid = {}
    monkeypatch.setattr(tokens, "revoked_lately", lambda: ["good"])
    await made.look_at_revoked()
    database.may_answer.set()
    await until(lambda: made._reading is None)
    assert made.get("good", "") is None
    assert (await made.read("good", "")).token_id == 0
    assert [sorted(one) for one in database.readings] == [["good"]] * 3


async def test_a_database_that_is_away_is_asked_by_one_at_a_time(database: Database) -> None:
    made = KnownTokens()
    await made.read("good", "")
    database.is_away = True
    database.now_s += tokens.SERVED_S + 1
    found = await asyncio.gather(*(known_to(made) for _ in range(100)))
    assert {one.token_id for one in found} == {1}
    with pytest.raises(OperationalError):
        await made.read("other", "")
    assert database.readings == [{"good"}, {"good"}, {"other"}]


async def test_a_bug_is_told_to_who_waits_and_to_nobody_after(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, read = KnownTokens(), tokens.read

    def broken(asked: Mapping[str, str]) -> tokens.Read:
        monkeypatch.setattr(tokens, "read", read)
        raise ZeroDivisionError

    monkeypatch.setattr(tokens, "read", broken)
    with pytest.raises(ZeroDivisionError):
        await made.read("good", "")
    assert (await made.read("good", "")).token_id == 1


async def test_who_gives_up_takes_nobody_elses_answer(database: Database) -> None:
    made = KnownTokens()
    database.may_answer.clear()
    gone, waits = (asyncio.create_task(made.read("good", "")) for _ in range(2))
    await until(lambda: database.readings)
    gone.cancel()
    await asyncio.sleep(0)
    database.may_answer.set()
    assert (await waits).token_id == 1


@pytest.mark.django_db
def test_what_the_database_says_of_each_token(group: Group) -> None:
    """One that ended is as unknown as another, and its address is on record."""
    now, hour = timezone.now(), timedelta(hours=1)
    rows = {
        "new": {"last_used_at": None},
        "used": {"last_used_at": now, "expires_at": now + hour},
        "revoked": {"revoked_at": now - hour},
        "expired": {"expires_at": now - hour},
    }
    ids = {
        name: AgentToken.objects.create(group=group, name=name, digest=name, **row).pk
        for name, row in rows.items()
    }
    found = tokens.read({name: f"address of {name}" for name in (*rows, "strange")})
    known = {one.digest: one for one in found.known}
    assert {name: one.token_id for name, one in known.items()} == {
        **{name: ids[name] for name in ("new", "used")},
        **dict.fromkeys(("revoked", "expired", "strange"), 0),
    }
    of_group = group.name, group.stream, group.partitions
    assert {(one.group, one.stream, one.partitions) for one in known.values() if one.token_id} == {
        of_group
    }
    assert known["used"].expires_at == now + hour
    assert found.used == [ids["new"]]
    assert found.ended == {ids[name]: f"address of {name}" for name in ("revoked", "expired")}
