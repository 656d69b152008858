"""Heartbeats under a head that is known: checked, counted and answered as any other."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from dashboard.actions import groups
from dashboard.agents import tokens
from dashboard.agents.issued import digest_of
from dashboard.agents.repeated import Repeated
from dashboard.agents.routes import AgentApi
from dashboard.live.connection import StoreUnavailable
from dashboard.models import AgentToken, AuditSource
from dashboard.records.audit import By
from dashboard.web.counts import NO_GROUP, counts
from dashboard.web.kept import kept
from tests.dashboard.agents import BEAT
from tests.dashboard.heads.beating import Beating, asks
from tests.dashboard.heads.counting import Counting
from tests.dashboard.served import until


@pytest.mark.django_db(transaction=True)
async def test_a_beat_is_answered_and_counted_without_being_read(beating: Beating) -> None:
    name = beating.group.name, "ok"
    before = counts.heartbeats[name]
    assert [await beating.beat() for _ in range(3)] == [200] * 3
    assert beating.told["status"] == "ok"
    assert counts.heartbeats[name] == before + 3
    assert await beating.say(b"{") == 400
    assert (beating.told["title"], counts.heartbeats[beating.group.name, "invalid"]) == (
        "Malformed JSON",
        1,
    )
    assert await beating.beat() == 200
    assert Counting.read == 0


@pytest.mark.django_db(transaction=True)
async def test_a_beat_waits_for_its_answer_in_no_task(
    beating: Beating, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_task(*_: Any) -> None:
        raise AssertionError("a task of its own")

    with monkeypatch.context() as patch:
        patch.setattr(AgentApi, "_answer_later", no_task)
        assert [await beating.beat() for _ in range(2)] == [200, 200]
    monkeypatch.setattr("dashboard.live.nodes.cluster", lambda: None)
    monkeypatch.setattr(beating.api.batch, "only", None)  # as where it is a cluster
    assert await beating.beat() == 200
    assert Counting.read == 0


@pytest.mark.django_db(transaction=True)
async def test_of_whatever_is_answered_no_body_is_kept(
    beating: Beating, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """What went wrong is said as to who is read: 503 if Redis is away, 500 if nobody knows why."""

    async def away(*_: Any) -> None:
        raise StoreUnavailable("no Redis")

    said = {}
    said["well"] = await beating.beat()
    said["malformed"] = await beating.say(b"{")
    with monkeypatch.context() as patch:
        patch.setattr("dashboard.live.batch._exchanged", away)
        said["away"] = await beating.beat()
        assert beating.told["detail"] == "no Redis"
    with monkeypatch.context() as patch:
        patch.setattr("dashboard.live.batch.WAITING_MAX", 0)
        said["full"] = await beating.beat()
    with monkeypatch.context() as patch:
        patch.setattr("dashboard.web.kept.kept._in_all", 0)
        said["large"] = await beating.beat()
    assert said == {"well": 200, "malformed": 400, "away": 503, "full": 503, "large": 503}
    assert await beating.beat() == 200
    monkeypatch.setattr("dashboard.agents.repeated.replied", None)  # whatever may be wrong in there
    beating.connection.writer.write(asks("heartbeat", beating.group.name, beating.token, BEAT))
    assert (await beating.connection.ended()).startswith(b"HTTP/1.1 500 ")
    assert kept.bytes == 0 and Counting.read == 0


@pytest.mark.django_db(transaction=True)
async def test_whoever_was_answered_in_time_is_not_given_up_later(beating: Beating) -> None:
    assert await beating.beat() == 200
    batch = beating.api.batch.only
    assert batch
    (*_, (_, last)) = batch._until
    assert isinstance(last, Repeated) and last.done()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "change, status",
    [
        ({"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, 401),
        ({"token_id": 0}, 401),
        ({"group": "another"}, 403),
    ],
)
async def test_a_token_is_checked_with_each_beat(
    beating: Beating, change: dict[str, Any], status: int
) -> None:
    digest = digest_of(beating.token)
    known = beating.api.tokens.get(digest, "127.0.0.1")
    assert known
    beating.api.tokens._remembered.put(replace(known, **change))
    assert await beating.beat() == status
    assert Counting.read == 0


@pytest.mark.django_db(transaction=True)
async def test_who_cannot_be_answered_is_alone_with_that(
    beating: Beating, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Counting.newest
    other = Beating(await beating.web.open(), beating.group, beating.token)
    other.sequence = beating.sequence
    assert [await other.beat() for _ in range(2)] == [200, 200]
    beating.sequence = other.sequence + 1

    def breaks(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(broken, "write_whole", breaks)
    lost = asyncio.create_task(beating.beat())
    await until(lambda: broken.visit.is_working)
    assert await other.beat() == 200
    lost.cancel()
    assert "the answer to a heartbeat was not written" in caplog.text


@pytest.mark.django_db(transaction=True)
async def test_a_token_that_was_revoked_is_refused_under_a_known_head(
    beating: Beating, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "LOOK_EVERY_S", 0.0)
    token = await asyncio.to_thread(AgentToken.objects.get, digest=digest_of(beating.token))
    await asyncio.to_thread(groups.revoke_token, token, By("ann", AuditSource.PAGE))
    before = counts.heartbeats.get((NO_GROUP, "unauthorized"), 0)
    assert await beating.beat() == 401
    assert Counting.read == 0
    assert counts.heartbeats[NO_GROUP, "unauthorized"] == before + 1
    assert await beating.connection.ended() == b""


@pytest.mark.django_db(transaction=True)
async def test_the_rate_and_the_size_count_under_a_known_head(
    beating: Beating, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.agents.messages.most_bytes", lambda verb, partitions: 1_000)
    assert await beating.say(b"x" * 1_001) == 413
    monkeypatch.undo()
    settings.AGENT_RATE_PER_SECOND = 2
    monkeypatch.setattr("dashboard.agents.rate.time.time", lambda: 1_000.0)
    assert [await beating.beat() for _ in range(3)] == [200, 200, 429]
    assert Counting.read == 0
