"""Heartbeats that repeat the last one: they are not read, and Redis is told the same."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from assignment import wire
from assignment.scripts.values import FENCE_MAX
from dashboard.agents import messages
from dashboard.agents.repeated import REPEATED_MAX, LastBeat
from dashboard.agents.routes import read_beat
from dashboard.agents.tokens import Known
from dashboard.live.batch import Wanted
from dashboard.live.connection import sync_client
from dashboard.live.scripts import script
from tests.dashboard.agents import SECRET
from tests.dashboard.heads.beating import Beating

TOKEN = Known("digest", 1, "g", None, 0.0, stream="s", partitions=4)


def beat(sequence: int, **more: Any) -> bytes:
    return msgspec.json.encode(
        wire.Heartbeat(
            **{
                "member": "m-1",
                "secret": "0123456789abcdef",
                "sequence": sequence,
                "report": 1,
                "complete": False,
                "able": True,
                "target_epoch": 7,
                **more,
            }
        )
    )


def last(body: bytes, token: Known = TOKEN) -> LastBeat | None:
    return LastBeat.of(token, body, *read_beat(token, body))


@pytest.mark.parametrize("text", ["0123456789abcdef", '","sequence":7,"a":"', '"sequence":8,'])
@pytest.mark.parametrize("first, second", [(1, 2), (9, 10), (123456, 7), (1, FENCE_MAX // 10)])
def test_redis_is_told_what_a_beat_that_is_read_tells(text: str, first: int, second: int) -> None:
    secret, health = text.ljust(16, "0"), wire.ConsumerHealth(state="ready", why=text)
    one, two = (beat(n, secret=secret, consumer=health) for n in (first, second))
    found = last(one)
    assert found
    _, call = read_beat(TOKEN, two)
    told = Wanted.of(script("report"), "g", call.args)
    assert found.repeated(TOKEN, two) == told
    assert found.repeated(TOKEN, two) == told, "made before"
    assert found.repeated(TOKEN, beat(second, secret=secret)) is None


@pytest.mark.parametrize(
    "number", ["", "0", "05", "-1", "1e3", "2.0", "1,2", "²", str(FENCE_MAX), "2 ", '"3"', "null"]
)
def test_what_is_no_plain_number_is_read(number: str) -> None:
    found, body = last(beat(1)), beat(7)
    assert found
    changed = body.replace(b'"sequence":7', b'"sequence":' + number.encode())
    assert changed != body
    assert found.repeated(TOKEN, changed) is None
    assert found.repeated(TOKEN, body)


def test_what_has_other_content_is_read() -> None:
    found = last(beat(1))
    assert found
    other = (
        {"able": False},
        {"report": 2},
        {"complete": True},
        {"target_epoch": 8},
        {"leaving": True},
    )
    assert [found.repeated(TOKEN, beat(2, **more)) for more in other] == [None] * len(other)
    body = beat(2)
    twice = body.replace(b'"report":1', b'"report":1,"report":1'), body + body, body[:-1], b""
    assert [found.repeated(TOKEN, one) for one in twice] == [None] * len(twice)


def test_a_group_that_has_other_partitions_has_its_beats_read() -> None:
    found = last(beat(1, owned={"s:3": "5 running"}))
    assert found
    again = beat(2, owned={"s:3": "5 running"})
    assert found.repeated(TOKEN, again)
    other: tuple[dict[str, Any], ...] = ({"partitions": 3}, {"stream": "t"})
    for changes in other:
        assert found.repeated(replace(TOKEN, **changes), again) is None


def test_what_agents_do_not_write_and_what_is_long_is_not_remembered() -> None:
    body = beat(1)
    assert last(json.dumps(json.loads(body)).encode()) is None
    owned = {f"s:{number}": "5 running" for number in range(REPEATED_MAX // 16)}
    token = replace(TOKEN, partitions=REPEATED_MAX)
    assert last(beat(1, owned=owned), token) is None
    assert last(beat(1), token)


@pytest.mark.django_db(transaction=True)
async def test_an_agent_that_repeats_itself_is_read_once(
    beating: Beating, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, reads = list[bytes](), messages.read

    def reading(verb: str, body: bytes) -> Any:
        read.append(body)
        return reads(verb, body)

    def body(**more: Any) -> bytes:
        beating.sequence += 1
        return beat(beating.sequence, member="m1", secret=SECRET, **more)

    monkeypatch.setattr(messages, "read", reading)
    statuses = [await beating.say(body()) for _ in range(4)]
    assert (statuses, beating.told["status"], len(read)) == ([200] * 4, "ok", 1)
    stored = sync_client().hget(f"ek:{{{beating.group.name}}}:reports", "m1")
    assert stored.split()[1] == str(beating.sequence).encode()
    sync_client().script_flush()
    assert await beating.say(body()) == 200
    beating.sequence -= 2
    assert await beating.say(body()) == 200
    assert (beating.told["status"], len(read)) == ("late", 1)
    beating.sequence += 2
    assert await beating.say(body(unable="no lease")) == 200
    assert await beating.say(body()) == 200
    assert (beating.told["status"], len(read)) == ("ok", 3)
