"""POST /api/agent/v1/{group}/join, heartbeat and leave: above all what they refuse."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import InternalError, OperationalError
from django.db.models import QuerySet
from django.utils import timezone
from pytest_django.fixtures import Settings

from assignment import sizes
from assignment.wire import GroupKeys
from dashboard import coordinator
from dashboard.actions import groups
from dashboard.agents import known_tokens, messages, tokens
from dashboard.agents.routes import AgentApi
from dashboard.demo.embedded_redis import EmbeddedRedis
from dashboard.live import connection, deadline
from dashboard.models import AgentToken, AuditEntry, AuditSource, Group
from dashboard.records.audit import By
from tests.dashboard.agents import SECRET, make_group

pytestmark = pytest.mark.django_db(transaction=True)
JOIN = {"member": "m1", "secret": SECRET, "host": "here"}
BEAT = {"member": "m1", "secret": SECRET, "sequence": 1, "report": 1, "complete": True}


def token_of(group: Group, **more: Any) -> str:
    return groups.create_token(group, by=By("ann", AuditSource.PAGE), **more).text


async def noted_in_time(found: Callable[[], Any]) -> Any:
    """What is written beside the answer."""
    async with asyncio.timeout(10):
        while (what := await asyncio.to_thread(found)) is None:
            await asyncio.sleep(0.01)
    return what


class Caller:
    """Speaks ASGI to one AgentApi on one loop, as a server would."""

    def __init__(self, group: str, token: str) -> None:
        self.group, self.token, self.api = group, token, AgentApi()

    async def post(self, verb: str, body: Any, **other: Any) -> tuple[int, Any]:
        sent: list[dict[str, Any]] = []
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        token = other.get("token", self.token)
        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        scope = {
            "type": "http",
            "method": other.get("method", "POST"),
            "path": f"/api/agent/v1/{other.get('group', self.group)}/{verb}",
            "headers": headers,
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": raw, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.api(scope, receive, send)
        if sent[0]["status"] != 200:
            assert dict(sent[0]["headers"])[b"content-type"] == b"application/problem+json"
        return sent[0]["status"], json.loads(sent[1]["body"])


@pytest.fixture
def caller(group: Group) -> Caller:
    return Caller(group.name, token_of(group))


@pytest.mark.parametrize("name", ["a\0b", "größe", ".", "a b", "x" * 101])
async def test_what_is_no_name_of_a_group_is_asked_of_no_database(
    caller: Caller, name: str
) -> None:
    """PostgreSQL refuses some of them."""
    status, said = await caller.post("join", JOIN, group=name)
    assert (status, said["title"]) == (404, "Not found"), "not: there is no such group"


async def test_an_agent_joins_beats_gets_its_target_and_leaves(
    caller: Caller, group: Group
) -> None:
    status, joined = await caller.post("join", JOIN)
    assert (status, joined["status"], joined["want_complete"]) == (200, "ok", True)
    assert joined["settings"]["partitions"] == 4
    assert joined["incarnation"] == 1
    _, first = await caller.post("heartbeat", {**BEAT, "able": True})
    assert first["status"] == "ok"
    assert first["target"] is None, "a missing target is never sent as an empty one"
    await asyncio.to_thread(coordinator.rebalance, group.name)
    _, second = await caller.post("heartbeat", {**BEAT, "sequence": 2, "able": True})
    assert second["target"]["active"] == [f"{group.stream}:{n}" for n in range(4)]
    epochs = {"target_incarnation": 1, "target_epoch": second["target_epoch"]}
    told = {"incarnation": 1, "settings_epoch": 1, **epochs}
    _, third = await caller.post("heartbeat", {**BEAT, **told, "sequence": 3, "able": True})
    assert (third["target"], third["settings"]) == (None, None)
    assert third["identity"] == group.identity == joined["identity"]
    status, left = await caller.post("leave", {"member": "m1", "secret": SECRET})
    assert (status, left["status"]) == (200, "ok")
    status, after = await caller.post("heartbeat", BEAT)
    assert (status, after["status"]) == (200, "fenced")


async def test_joins_and_news_of_settings_take_the_one_connection_of_the_batch(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CONNECTIONS_MAX", 1)
    members = [f"m{n}" for n in range(40)]
    joined = await asyncio.gather(*(caller.post("join", {**JOIN, "member": m}) for m in members))
    beats = (caller.post("heartbeat", {**BEAT, "member": m}) for m in members)
    for status, told in (*joined, *await asyncio.gather(*beats)):
        assert (status, told["settings"]["partitions"]) == (200, 4)


async def test_a_repeated_heartbeat_is_late(caller: Caller) -> None:
    await caller.post("join", JOIN)
    await caller.post("heartbeat", {**BEAT, "sequence": 5})
    status, reply = await caller.post("heartbeat", {**BEAT, "sequence": 5})
    assert (status, reply["status"]) == (200, "late")


async def test_a_change_without_its_complete_report_asks_for_one(caller: Caller) -> None:
    await caller.post("join", JOIN)
    _, reply = await caller.post("heartbeat", {**BEAT, "report": 7, "complete": False})
    assert reply["want_complete"] is True


async def test_what_changes_the_group_asks_celery_once(caller: Caller, published: Any) -> None:
    before = published()
    await caller.post("join", JOIN)
    await asyncio.gather(
        *(caller.post("join", {**JOIN, "member": f"m{n}"}) for n in range(20)),
        caller.post("heartbeat", {**BEAT, "able": True}),
    )
    while caller.api.doorbell._answering is not None:
        await asyncio.sleep(0.01)
    assert published() - before <= 1, "many triggers, one task"


MALFORMED = [
    (b"{", "Malformed JSON", "truncated"),
    (b"\xff\xfe", "Malformed JSON", ""),
    (b"[]", "Invalid message", "Expected `object`"),
    ({"member": "m1"}, "Invalid message", "`secret`"),
    ({**BEAT, "sequence": "one"}, "Invalid message", "$.sequence"),
    ({**BEAT, "sequence": -1}, "Invalid message", "sequence -1"),
    ({**BEAT, "member": "a b"}, "Invalid message", "'a b'"),
    ({**BEAT, "secret": "short"}, "Invalid message", "secret"),
    ({**BEAT, "owned": {"nonsense": "1 running"}}, "Invalid message", "'nonsense'"),
    ({**BEAT, "owned": {"s:1": "1 walking"}}, "Invalid message", "walking"),
    ({**BEAT, "owned": {"s:1": "0 running"}}, "Invalid message", "fence 0"),
    ({**BEAT, "owned": {"s:1": None}}, "Invalid message", "s:1"),
]


@pytest.mark.parametrize(("body", "title", "named"), MALFORMED)
async def test_a_bad_message_is_refused_and_named(
    caller: Caller, body: Any, title: str, named: str
) -> None:
    status, problem = await caller.post("heartbeat", body)
    assert (status, problem["status"], problem["title"]) == (400, 400, title)
    assert named in problem["detail"]


TWICE = json.dumps(BEAT).encode()[:-1]
FAILING = {"partition": "elsewhere:9999999", "fence": 1, "failures": 1}
STRANGE = [
    (TWICE + b', "sequence": 9}', "'sequence' is there twice"),
    (TWICE + b', "owned": {"s:0": "1 running", "s:0": "2 running"}}', "'s:0' is there twice"),
    (TWICE + rb', "owned": {"s:0": "1 running", "\u0073:0": "2 running"}}', "'s:0' is there twice"),
    ({**BEAT, "mood": "good"}, "unknown field `mood`"),
    ({**BEAT, "replicas": {"s:0": {"role": "standby", "mood": 1}}}, "unknown field `mood`"),
    ({**BEAT, "consumer": {"mood": "good"}}, "unknown field `mood` - at `$.consumer`"),
    ({**BEAT, "consumer": {"rows_per_second": 10**400}}, "$.consumer"),
    ({**BEAT, "consumer": {"why": [[[[]]]]}}, "$.consumer"),
    ({**BEAT, "consumer": {"failing": [{"partition": "s:0"}] * 101}}, "failing has 101 partitions"),
    ({**BEAT, "consumer": {"failing": [{"partition": "s:0"}]}}, "Failing"),
    ({**BEAT, "consumer": {"failing": [FAILING]}}, "'elsewhere:9999999' is no partition of group"),
    ({**BEAT, "owned": {"s:0": f"{2**53} running"}}, "9007199254740992"),
    (TWICE + b', "consumer": ' + b"[" * 955 + b"]" * 955 + b"}", "$.consumer"),
    (TWICE + b', "mood": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", "unknown field `mood`"),
    ({**BEAT, "incarnation": 2**21}, "incarnation 2097152"),
    ({**BEAT, "sequence": 10**30}, "$.sequence"),
    ({**BEAT, "owned": {"elsewhere:0": "1 running"}}, "'elsewhere:0' is no partition of group"),
    ({**BEAT, "owned": {"s:0": "٣ running"}}, "'fence state'"),
]


@pytest.mark.parametrize(("body", "named"), STRANGE)
async def test_what_no_agent_says_is_refused_and_changes_nothing(
    caller: Caller, group: Group, store: Any, body: Any, named: str
) -> None:
    await caller.post("join", JOIN)
    before = store.hgetall(GroupKeys(group.name).reports)
    status, problem = await caller.post("heartbeat", body)
    assert (status, problem["title"]) == (400, "Invalid message")
    assert named in problem["detail"]
    assert store.hgetall(GroupKeys(group.name).reports) == before


async def test_only_partitions_of_the_group_are_reported(caller: Caller, group: Group) -> None:
    await caller.post("join", JOIN)
    last, beyond = f"{group.stream}:3", f"{group.stream}:4"
    standby = {"role": "standby"}
    for said in ({"owned": {beyond: "1 running"}}, {"replicas": {beyond: standby}}):
        status, problem = await caller.post("heartbeat", {**BEAT, **said})
        assert status == 400
        assert f"the last one is {last}" in problem["detail"]
    assert (await caller.post("heartbeat", {**BEAT, "replicas": {last: standby}}))[0] == 200


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": 10**30},
        {"pid": 2**31},
        {"pid": -1},
        {"capacity": 0},
        {"capacity": 10**12},
        {"host": "h" * 256},
        {"mood": 1},
        {"secret": "s" * 300},
    ],
)
async def test_a_strange_introduction_is_refused(caller: Caller, changes: Any) -> None:
    assert (await caller.post("join", JOIN | changes))[0] == 400
    body = json.dumps(JOIN).encode()[:-1] + b', "pid": ' + b"1" * 4_299 + b"}"
    assert (await caller.post("join", body))[0] == 400


async def test_a_group_that_is_full_takes_a_member_later(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await caller.post("join", JOIN)
    monkeypatch.setattr(sizes, "MEMBERS_LEAST", 1)
    monkeypatch.setattr(sizes, "MEMBERS_MAX", 1)
    status, problem = await caller.post("join", JOIN | {"member": "m2"})
    assert (status, problem["title"]) == (429, "Too many members")
    assert (await caller.post("join", JOIN))[0] == 200
    await caller.post("leave", {"member": "m1", "secret": SECRET})
    assert (await caller.post("join", JOIN | {"member": "m2"}))[0] == 200


async def test_large_reports_are_read_beside_the_loop(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    read = messages.read

    def noting(verb: str, body: bytes) -> Any:
        threads.append(threading.current_thread().name)
        return read(verb, body)

    monkeypatch.setattr(messages, "read", noting)
    monkeypatch.setattr(messages, "LARGE", 1_000)
    await caller.post("join", JOIN)
    for padding in (0, 2_000):
        body = json.dumps(BEAT | {"sequence": padding + 1}).encode() + b" " * padding
        assert (await caller.post("heartbeat", body))[0] == 200
    assert threads[1] == threading.current_thread().name
    assert threads[2].startswith("large-body")


@pytest.mark.parametrize("field", ["group_epoch", "incarnation", "settings"])
async def test_a_group_whose_records_are_damaged_is_told_to_be_repaired(
    caller: Caller, group: Group, store: Any, field: str
) -> None:
    await caller.post("join", JOIN)
    store.hset(GroupKeys(group.name).meta, field, "{many")
    answers = [await caller.post("heartbeat", BEAT), await caller.post("join", JOIN)]
    assert all(status in (200, 503) for status, _ in answers), answers
    damaged = [told for status, told in answers if status == 503]
    assert {told["title"] for told in damaged} == {"Group damaged"}


async def test_a_missing_or_wrong_token_is_refused(caller: Caller) -> None:
    assert (await caller.post("join", JOIN, token=""))[0] == 401
    status, problem = await caller.post("join", JOIN, token="ekt_wrong")
    assert status == 401
    assert "wrong, expired or revoked" in problem["detail"]


async def test_an_expired_token_is_refused(caller: Caller, group: Group) -> None:
    def expired() -> str:
        text = token_of(group, expires_at=timezone.now() + timedelta(hours=1))
        past = timezone.now() - timedelta(seconds=1)
        AgentToken.objects.filter(digest=tokens.digest_of(text)).update(expires_at=past)
        return text

    assert (await caller.post("join", JOIN, token=await asyncio.to_thread(expired)))[0] == 401


async def test_a_revoked_token_is_refused_within_a_second_though_it_is_remembered(
    caller: Caller, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], time=lambda: now[0])
    monkeypatch.setattr(known_tokens, "time", clock)
    monkeypatch.setattr(tokens, "REMEMBERED_S", 3_600.0)
    assert tokens.LOOK_EVERY_S + tokens.LOOK_WAIT_S < 1
    monkeypatch.setattr(tokens, "LOOK_WAIT_S", 30.0)  # this machine's database may be slow
    assert (await caller.post("join", JOIN))[0] == 200
    token = await asyncio.to_thread(group.tokens.get)
    await asyncio.to_thread(lambda: groups.revoke_token(token, by=By("ann", AuditSource.PAGE)))
    now[0] += tokens.LOOK_EVERY_S
    for _ in range(2):
        assert (await caller.post("join", JOIN))[0] == 401
    entry = await noted_in_time(lambda: AuditEntry.objects.filter(action="use token").first())
    assert entry.result == "denied: the token is revoked"
    assert entry.actor == f"token {group.name}/{token.name}"


async def test_a_token_of_another_group_is_refused(caller: Caller, group: Group) -> None:
    other = await asyncio.to_thread(make_group, f"{group.name}-b")
    status, problem = await caller.post("join", JOIN, group=other.name)
    assert status == 403
    assert group.name in problem["detail"]
    entry = await asyncio.to_thread(AuditEntry.objects.get, action="use token")
    assert (entry.group, entry.result[:7]) == (other.name, "denied:")


async def test_an_unknown_group_is_not_found(caller: Caller) -> None:
    status, problem = await caller.post("join", JOIN, group="nowhere")
    assert (status, problem["detail"]) == (404, "there is no group 'nowhere'")


async def test_an_unknown_route_and_another_method(caller: Caller) -> None:
    assert (await caller.post("dance", {}))[0] == 404
    assert (await caller.post("join", JOIN, method="GET"))[0] == 405


async def test_a_member_id_in_use_is_refused(caller: Caller) -> None:
    await caller.post("join", JOIN)
    assert (await caller.post("join", JOIN))[0] == 200, "the same process joins anew"
    status, problem = await caller.post("join", {**JOIN, "secret": SECRET + "!"})
    assert status == 409
    assert "'m1'" in problem["detail"]


async def test_a_body_too_large_is_refused(caller: Caller) -> None:
    most = messages.most_bytes("heartbeat", 4)
    assert (await caller.post("heartbeat", b" " * most))[0] == 400
    assert (await caller.post("heartbeat", b" " * (most + 1)))[0] == 413
    assert (await caller.post("join", b" " * 20_000))[0] == 413


async def test_more_than_all_members_may_say_is_not_kept(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await caller.post("join", JOIN)
    monkeypatch.setattr(sizes, "reports_max", lambda partitions: 100)
    status, problem = await caller.post("heartbeat", {**BEAT, "sequence": 1})
    assert (status, problem["title"]) == (429, "Too much reported")


async def test_too_many_requests_of_a_token_are_refused(caller: Caller, settings: Settings) -> None:
    settings.AGENT_RATE_PER_SECOND = 3
    await caller.post("join", JOIN)
    answers = [(await caller.post("heartbeat", {**BEAT, "sequence": n}))[0] for n in range(1, 10)]
    assert 429 in answers


async def test_redis_away_is_said(caller: Caller, settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    status, problem = await caller.post("join", JOIN)
    assert (status, problem["title"]) == (503, "Redis is away")


@pytest.fixture
def own_caller(own_redis: EmbeddedRedis, point_at: Any, group_name: str, db: None) -> Caller:
    point_at(own_redis.url)
    return Caller(group_name, token_of(make_group(group_name)))


async def test_a_hung_redis_costs_one_deadline_and_hears_of_nothing_given_up(
    own_caller: Caller, own_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent is carried out when it goes on; what waited behind it is not."""
    await own_caller.post("join", JOIN)
    monkeypatch.setattr(deadline, "REQUEST_S", 0.2)
    assert own_redis.pid
    os.kill(own_redis.pid, signal.SIGSTOP)
    try:
        for sequence in (1, 9):
            status, problem = await own_caller.post("heartbeat", {**BEAT, "sequence": sequence})
            assert (status, problem["title"]) == (503, "Not answered in time")
    finally:
        os.kill(own_redis.pid, signal.SIGCONT)
    monkeypatch.setattr(deadline, "REQUEST_S", 60.0)
    _, reply = await own_caller.post("heartbeat", {**BEAT, "sequence": 2})
    assert reply["status"] == "ok"


async def test_database_away_is_said(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> tokens.Read:
        raise OperationalError("no connection")

    monkeypatch.setattr(tokens, "read", away)
    status, problem = await caller.post("join", JOIN)
    assert (status, problem["title"]) == (503, "Database is away")


async def test_a_token_that_was_known_is_good_while_the_database_is_away(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, asked = [100.0], []
    monkeypatch.setattr(tokens, "time", SimpleNamespace(monotonic=lambda: now[0]))
    await caller.post("join", JOIN)

    def away(*_: Any) -> tokens.Read:
        asked.append(now[0])
        raise OperationalError("no connection")

    async def status_after(seconds: float) -> int:
        now[0] += seconds
        return (await caller.post("heartbeat", {**BEAT, "sequence": int(now[0])}))[0]

    monkeypatch.setattr(tokens, "read", away)
    assert await status_after(tokens.REMEMBERED_S + 1) == 200
    assert await status_after(1) == 200
    assert len(asked) == 1, "the database is asked again only after a while"
    assert await status_after(tokens.REMEMBERED_S) == 200
    assert len(asked) == 2
    assert await status_after(tokens.OUTAGE_S) == 503


async def test_one_thread_at_most_waits_for_what_was_revoked(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go_on = [], threading.Event()

    def slow() -> list[str]:
        asked.append("")
        go_on.wait(30)
        return []

    monkeypatch.setattr(tokens, "revoked_lately", slow)
    monkeypatch.setattr(tokens, "LOOK_EVERY_S", 0)
    monkeypatch.setattr(tokens, "LOOK_WAIT_S", 0.01)
    answers = [(await caller.post("join", JOIN))[0] for _ in range(3)]
    go_on.set()
    assert (answers, len(asked)) == ([200] * 3, 1)


async def test_a_database_that_refuses_writes_refuses_no_token(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> int:
        raise InternalError("cannot execute UPDATE in a read-only transaction")

    monkeypatch.setattr(QuerySet, "update", refused)
    assert (await caller.post("join", JOIN))[0] == 200


async def test_a_group_that_redis_lost_is_tried_again(
    caller: Caller, group: Group, store: Any
) -> None:
    store.delete(GroupKeys(group.name).meta)
    status, problem = await caller.post("join", JOIN)
    assert status == 503
    assert "not yet set up" in problem["detail"]
