"""`manage.py repair`: what it finds, what it mends, and how it ends."""

import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from assignment.scripts.group_read import Purpose
from assignment.types import INCARNATION_STEP, Offset, Partition
from assignment.wire import GroupKeys
from dashboard import coordinator
from dashboard.live import groups as live_groups
from dashboard.models import AuditEntry, Group, Rebalance, Tenure
from tests.dashboard.agents import FakeAgent, make_group, tick, until

pytestmark = pytest.mark.django_db
FAST = {
    "lease_ms": 600,
    "renew_ms": 200,
    "heartbeat_ms": 100,
    "session_timeout_ms": 400,
    "grace_ms": 300,
}


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = 0
    try:
        call_command("repair", *arguments, "--json")
    except SystemExit as end:
        code = int(end.code or 0)
    return code, json.loads(capsys.readouterr().out)


def test_a_sound_group_has_nothing_to_mend(
    group: Group, agent: FakeAgent, capsys: pytest.CaptureFixture[str]
) -> None:
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    tick()
    coordinator.sample()
    for arguments in ((group.name,), (group.name, "--apply")):
        code, found = ran(capsys, *arguments)
        assert (code, found["findings"]) == (0, [])
    assert not AuditEntry.objects.filter(action="repair group").exists()


def test_damaged_rows_are_named_and_go(
    group: Group, agent: FakeAgent, store: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    agent.start()
    keys = GroupKeys(group.name)
    store.hset(keys.reports, "a", b"garbage")
    store.hset(keys.members, "b", b"{")
    store.hset(keys.offsets, f"{group.stream}:1", "far")
    before = store.hgetall(keys.meta)
    code, found = ran(capsys, group.name)
    assert code == 1
    assert [(f["mend"], f["key"], f["name"]) for f in found["findings"]] == [
        ("evict", "members", "b"),
        ("forget", "reports", "a"),
        ("mirror", "offsets", f"{group.stream}:1"),
    ]
    assert store.hgetall(keys.meta) == before, "a dry run changes nothing"
    code, found = ran(capsys, group.name, "--apply")
    assert (code, found["applied"]) == (0, True)
    assert ran(capsys, group.name)[1]["findings"] == []
    assert AuditEntry.objects.get(action="repair group").before["count"] == 3


def test_names_that_are_no_text_and_rows_of_nobody_are_found_and_told(
    group: Group, agent: FakeAgent, store: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    agent.start()
    keys = GroupKeys(group.name)
    store.hset(keys.members, b"b\xff", store.hget(keys.members, "a"))
    store.hset(keys.reports, "nobody\0", store.hget(keys.reports, "a"))
    store.zadd(keys.beats, {b"\xfe": 1})
    store.hset(keys.applied, "s", "1 1")
    code, found = ran(capsys, group.name)
    assert code == 1
    assert sorted((f["mend"], f["key"]) for f in found["findings"]) == [
        ("evict", "beats"), ("evict", "members"), ("forget", "reports"), ("mirror", "applied"),
    ]  # fmt: skip
    with pytest.raises(SystemExit):
        call_command("repair", group.name)
    assert capsys.readouterr().out.replace("\n", "").isprintable()
    assert ran(capsys, group.name, "--apply")[0] == 0
    assert ran(capsys, group.name)[1]["findings"] == []


def test_a_group_whose_meta_cannot_be_read_is_built_anew_and_goes_on_where_it_was(
    store: Any, group_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    group = make_group(group_name, **FAST)
    agent = FakeAgent(group, "a")
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    tick()
    keys, partition = GroupKeys(group.name), Partition(group.stream, 1)
    store.hset(keys.offsets, str(partition), "9-0")
    store.hset(keys.meta, mapping={"settings_epoch": "many", "group_epoch": str(2**60)})
    tick()
    assert ran(capsys, group.name, "--apply")[0] == 0

    def granting() -> bool:
        tick()
        return live_groups.read(group.name, Purpose.LOOK).grants_are_possible

    until(granting)
    view = live_groups.read(group.name, Purpose.LOOK)
    assert view.offsets == {partition: Offset(9, 0)}
    assert view.meta.incarnation == 2
    assert view.meta.group_epoch >= Rebalance.objects.get().target_epoch
    assert view.meta.identity == group.identity


def test_an_incarnation_that_overflowed_is_brought_down_when_nobody_lives(
    store: Any, group_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    group = make_group(group_name, **FAST)
    agent = FakeAgent(group, "a")
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    tick()
    worst = 2**21 - 1
    Group.objects.filter(pk=group.pk).update(incarnation=worst)
    Rebalance.objects.update(incarnation=worst)
    first = Tenure.objects.order_by("number")[0]
    Tenure.objects.filter(pk=first.pk).update(fence=worst * INCARNATION_STEP + 7)
    store.zadd(GroupKeys(group.name).beats, {"a": live_groups.redis_now_ms() + 3_600_000})
    with pytest.raises(CommandError, match="stop the agents") as refused:
        call_command("repair", group.name, "--apply")
    assert refused.value.returncode == 3
    store.zadd(GroupKeys(group.name).beats, {"a": 1})
    assert ran(capsys, group.name, "--apply")[0] == 0
    group.refresh_from_db()
    assert group.incarnation < 10
    assert Rebalance.objects.get().incarnation < 10
    first.refresh_from_db()
    assert first.fence % INCARNATION_STEP == 7
    assert first.fence < 10 * INCARNATION_STEP
    assert ran(capsys, group.name)[1]["findings"] == []


def test_a_group_that_is_not_there_is_named(store: Any) -> None:
    with pytest.raises(CommandError, match="no group 'nowhere'") as refused:
        call_command("repair", "nowhere")
    assert refused.value.returncode == 3
