"""A large group is read by plain commands beside the script: the same as by the script alone."""

import hashlib
import re
from dataclasses import fields
from typing import Any

import pytest

from assignment.errors import Damaged
from assignment.scripts import large_group
from assignment.scripts.group_read import GroupRead, Purpose, Ticker, read_group
from assignment.scripts.large_group import Large, read_unless_large
from assignment.types import Held, HeldState, Offset, Partition
from assignment.wire import GroupKeys
from dashboard.live import connection, scripts
from dashboard.live import groups as live_groups
from dashboard.live.scripts import Script, run, run_beside, script
from dashboard.models import Group
from tests.dashboard.agents import FakeAgent, tick
from tests.dashboard.scenes import staffed

pytestmark = pytest.mark.django_db


@pytest.fixture
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_group, "GRANTS_MAX", 0)
    monkeypatch.setattr(large_group, "LOCKS_AT_ONCE", 3)


def values(read: GroupRead) -> dict[str, Any]:
    """Without what the moment of the reading makes."""
    found = {field.name: getattr(read, field.name) for field in fields(read)}
    locks = {p: (lock.member_id, lock.fence) for p, lock in found.pop("locks").items()}
    rows = {name: dict(found.pop(name)) for name in ("grants", "offsets", "applied", "snapshots")}
    del found["now_ms"], found["reports"]
    return found | rows | {"locks": locks, "reports": dict(read.reports)}


def some_lost(group: Group, agents: list[FakeAgent]) -> None:
    """One partition was released, one's lock is gone without a word, offsets are stored."""
    keys = GroupKeys(group.name)
    agents[0].release([next(iter(agents[0].held))])
    connection.sync_client().delete(keys.lock(next(iter(agents[1].held))))
    for n in (0, 3):
        connection.sync_client().hset(keys.offsets, f"{group.stream}:{n}", str(Offset(5, n)))


@pytest.mark.parametrize("purpose", Purpose)
def test_it_is_what_the_script_alone_would_read(
    group: Group, agents: list[FakeAgent], all_are_large: None, purpose: Purpose
) -> None:
    some_lost(group, agents)
    apart = live_groups.read(group.name, purpose, Ticker(seen_ms=1))
    alone = run(read_group(Purpose.LOOK), group.name)
    found, expected = values(apart), values(alone)
    for name in ("meta", "counted"):  # the ticker's own word is in it
        del found[name], expected[name]
    if purpose is Purpose.REBALANCE:
        expected |= {"offsets": {}, "applied": {}, "snapshots": {}}
    assert found == expected
    assert len(found["grants"]) == 4
    assert len(found["locks"]) == 2


def test_it_asks_only_what_is_read(
    group: Group, agents: list[FakeAgent], all_are_large: None
) -> None:
    looked = run(read_unless_large(Purpose.LOOK), group.name)
    planned = run(read_unless_large(Purpose.REBALANCE), group.name)
    assert isinstance(looked, Large)
    assert isinstance(planned, Large)
    assert looked.rows == ("grants", "offsets", "applied", "snapshots")
    assert planned.rows == ("grants",)
    asked = [command for command in looked.commands(group.name) if command[0] == "MGET"]
    names = [GroupKeys(group.name).lock(Partition(group.stream, n)) for n in range(4)]
    assert asked == [("MGET", *names[:3]), ("MGET", *names[3:])]


def test_a_group_that_is_not_large_takes_one_trip(group: Group, agents: list[FakeAgent]) -> None:
    found = run(read_unless_large(Purpose.LOOK), group.name)
    assert isinstance(found, GroupRead)
    assert values(found) == values(run(read_group(Purpose.LOOK), group.name))


def test_finding_that_it_is_large_changes_nothing(
    group: Group, agents: list[FakeAgent], all_are_large: None
) -> None:
    before = connection.sync_client().hgetall(GroupKeys(group.name).meta)
    assert isinstance(run(read_unless_large(Purpose.TICK), group.name), Large)
    assert isinstance(run(read_unless_large(Purpose.REBALANCE), group.name), Large)
    assert connection.sync_client().hgetall(GroupKeys(group.name).meta) == before


@pytest.mark.parametrize("stray", ["another:1", "{stream}:4"])
def test_a_grant_of_what_the_stream_does_not_have_is_read_nevertheless(
    group: Group, agents: list[FakeAgent], all_are_large: None, stray: str
) -> None:
    """As after the settings were changed by hand."""
    keys, name = GroupKeys(group.name), stray.format(stream=group.stream)
    connection.sync_client().hset(keys.grants, name, "4294967297 a 99999999999999 -")
    connection.sync_client().set(keys.lock(name), "a/4294967297", px=60_000)
    found = live_groups.read(group.name, Purpose.LOOK)
    assert found.locks[Partition.parse(name)].member_id == "a"
    assert len(found.locks) == 5


def test_a_tick_keeps_what_it_keeps_of_any_group(
    group: Group, agents: list[FakeAgent], all_are_large: None, store: Any
) -> None:
    store.hset(GroupKeys(group.name).meta, "tick_ms", 1)
    assert tick()
    assert int(store.hget(GroupKeys(group.name).meta, "tick_ms")) > 1


def test_locks_end_with_the_moment_of_the_reading(
    group: Group, agents: list[FakeAgent], all_are_large: None
) -> None:
    member = agents[0]
    held = {p: Held(fence=f, state=HeldState.RESTORING) for p, f in member.held.items()}
    found = live_groups.read(group.name, Purpose.LOOK)
    for partition in held:
        until_ms = found.grants[partition].until_ms
        assert found.locks[partition].left_ms == until_ms - found.now_ms > 0


def test_a_server_that_lost_its_scripts_is_given_them(
    group: Group, agents: list[FakeAgent], all_are_large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the first trip and the second one."""
    large = run(read_unless_large(Purpose.LOOK), group.name)
    assert isinstance(large, Large)
    text = f"-- {group.name}\n{script('read_group').text}"
    unknown = Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
    monkeypatch.setattr(scripts, "script", lambda _: unknown)
    answers = run_beside(large.call, group.name, large.commands(group.name))
    assert len(dict(answers[1])) == 4


def test_records_that_cannot_be_read_are_named(
    group: Group, agents: list[FakeAgent], all_are_large: None, store: Any
) -> None:
    store.hset(GroupKeys(group.name).grants, f"{group.stream}:0", "nonsense")
    with pytest.raises(connection.GroupDamaged, match=re.escape(group.name)):
        live_groups.read(group.name, Purpose.LOOK)
    large = run(read_unless_large(Purpose.LOOK), group.name)
    assert isinstance(large, Large)
    with pytest.raises(Damaged):
        large.read(run_beside(large.call, group.name, large.commands(group.name)))


def test_a_key_of_another_kind_is_named(
    group: Group, agents: list[FakeAgent], all_are_large: None, store: Any
) -> None:
    store.delete(GroupKeys(group.name).offsets)
    store.set(GroupKeys(group.name).offsets, "text")
    with pytest.raises(connection.GroupDamaged, match=re.escape(group.name)):
        live_groups.read(group.name, Purpose.LOOK)


def test_staffed_again(group: Group, all_are_large: None) -> None:
    """A group's whole way, with every reading apart: members join, own, and go on."""
    found = staffed(group, "a", "b", "c")
    assert sum(len(one.held) for one in found) == 4
