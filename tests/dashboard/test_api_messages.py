"""What agents say that none would: refused, named, and nothing is changed by it."""

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from assignment.types import ReplicaReport, Role, read_as
from assignment.wire import GroupKeys, Heartbeat
from dashboard import strict_json
from dashboard.agents import messages
from dashboard.models import Group
from tests.dashboard.agents import BEAT, JOIN, Caller

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("name", ["a\0b", "größe", ".", "a b", "x" * 101])
async def test_what_is_no_name_of_a_group_is_asked_of_no_database(
    caller: Caller, name: str
) -> None:
    """PostgreSQL refuses some of them."""
    status, said = await caller.post("join", JOIN, group=name)
    assert (status, said["title"]) == (404, "Not found"), "not: there is no such group"


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


def test_what_agents_write_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Written again it is the same, so nothing was left out; anything else is looked at."""
    looked = list[bytes]()
    monkeypatch.setattr(strict_json, "refuse_twins", lambda _, body: looked.append(body))
    owned = {"s:0": "1 running", "größe:1": None, 'a"b\\': "2 running"}
    replicas = {"s:2": ReplicaReport(role=Role.STANDBY, lag=3, percent=33.3, rate=0.5, eta_ms=7)}
    beat = replace(read_as(Heartbeat, BEAT), owned=owned, replicas=replicas, able=True)
    body = msgspec.json.encode(beat)
    assert messages.read("heartbeat", body).owned == owned
    assert not looked
    others = [TWICE + b', "sequence": 1}', json.dumps(BEAT).encode(), body.replace(b":", b" :", 1)]
    for other in others:
        messages.read("heartbeat", other)
    assert looked == others


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


async def test_a_body_too_large_is_refused(caller: Caller) -> None:
    most = messages.most_bytes("heartbeat", 4)
    assert (await caller.post("heartbeat", b" " * most))[0] == 400
    assert (await caller.post("heartbeat", b" " * (most + 1)))[0] == 413
    assert (await caller.post("join", b" " * 20_000))[0] == 413
