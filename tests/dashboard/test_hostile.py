"""What one member or one group can do to others: nothing that stops them."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from assignment.coordinator.effects import KeepFaults
from assignment.scripts.group_read import Purpose
from assignment.types import Offset
from assignment.wire import GroupKeys, StreamKeys
from dashboard import coordinator
from dashboard.coordinator import records
from dashboard.live import groups as live_groups
from dashboard.live import health
from dashboard.live.queue import QueueKeys
from dashboard.models import AuditEntry, Group, MemberRecord
from dashboard.records import audit
from tests.dashboard.agents import FakeAgent, make_group
from tests.dashboard.people import granted, logged_in

pytestmark = pytest.mark.django_db
DEEP = b'{"consumer":' + b"[" * 955 + b"]" * 955 + b"}"
PATIENT = {"lease_ms": 600_000, "renew_ms": 100_000, "session_timeout_ms": 600_000}
BAD_REPORT = b"1 1 1 %d %s{}" % (len(DEEP), DEEP)


@pytest.fixture
def visitor(db: None) -> Client:
    user = User.objects.create_user("ann")
    granted(user, "admin")
    return logged_in(user)


def test_a_report_that_cannot_be_read_is_quarantined_shown_and_audited_once(
    store: Any, group_name: str, visitor: Client
) -> None:
    group = make_group(group_name, **PATIENT)
    agent, other = FakeAgent(group, "a"), FakeAgent(group, "b")
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    other.start()
    store.hset(GroupKeys(group.name).reports, "a", BAD_REPORT)
    assert coordinator.rebalance(group.name).startswith("epoch")
    for _ in range(2):
        coordinator.tick()
    group.refresh_from_db()
    [(kind, text)] = group.faults
    assert kind == "unreadable"
    assert text.startswith("the report of a cannot be read and is left out")
    assert AuditEntry.objects.get(action="quarantined").reason == text
    page = visitor.get(f"/groups/{group.name}/").content.decode()
    assert "the report of a cannot be read" in page
    assert "a" in live_groups.read(group.name, Purpose.LOOK).asked, "for a complete one"
    agent.beat()
    coordinator.tick()
    group.refresh_from_db()
    assert group.faults == []


@pytest.mark.parametrize("stays", [True, False])
def test_a_fence_that_nobody_granted_raises_no_incarnation_and_is_shown_and_audited_once(
    store: Any, group_name: str, visitor: Client, stays: bool
) -> None:
    """Neither while the report stands nor with each one that follows."""
    group = make_group(group_name, **PATIENT)
    agent, liar = FakeAgent(group, "a"), FakeAgent(group, "b")
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    liar.start()
    liar.held = {next(iter(group.values.all_partitions())): 2**53 - 1}
    liar.beat()
    for _ in range(4):
        coordinator.tick()
        coordinator.rebalance(group.name)
        if not stays:
            liar.beat()
    group.refresh_from_db()
    assert group.incarnation == 1
    told = "what b says cannot be and is left out: it claims incarnation 2097151"
    assert AuditEntry.objects.get(action="quarantined").reason.startswith(told)
    assert told in visitor.get(f"/groups/{group.name}/").content.decode()
    liar.held = {}
    liar.beat()
    coordinator.tick()
    group.refresh_from_db()
    assert group.faults == []


def test_one_whose_records_are_damaged_is_counted_and_the_others_go_on(
    group: Group, agent: FakeAgent, store: Any, visitor: Client
) -> None:
    other = make_group(f"{group.name}-b")
    store.hset(GroupKeys(other.name).meta, "incarnation", str(2**40))
    agent.start()
    assert coordinator.tick() == 1
    assert coordinator.rebalance(group.name).startswith("epoch")
    answer = visitor.get("/readyz")
    assert answer.status_code == 200, answer.json()
    assert answer.json()["checks"]["celery"]["failing_groups"] == 1
    assert "fails for 1 of 2 groups:" in answer.json()["warnings"][-1]
    assert f"fails for 1 of 2 groups ({other.name})" in visitor.get("/status/").content.decode()
    store.hset(GroupKeys(group.name).meta, "incarnation", str(2**40))
    assert coordinator.tick() == 0
    answer = visitor.get("/readyz")
    assert answer.status_code == 503
    assert "fails for 2 of 2 groups" in answer.json()["why"][0]


@pytest.mark.parametrize(
    "page", ["", "members/", "partitions/", "scale-down/", "settings/", "rebalance/", "history/"]
)
def test_a_damaged_group_has_pages_that_say_so(
    group: Group, store: Any, visitor: Client, page: str
) -> None:
    for damage in ("many", None):
        if damage:
            store.hset(GroupKeys(group.name).meta, "group_epoch", damage)
        else:
            store.delete(GroupKeys(group.name).members)
            store.set(GroupKeys(group.name).members, "x")
        answer = visitor.get(f"/groups/{group.name}/{page}")
        assert answer.status_code == 200
        assert f"manage.py repair {group.name}" in answer.content.decode()


def test_who_joins_and_never_beats_leaves_no_record(group: Group, agent: FakeAgent) -> None:
    agent.join()
    coordinator.tick()
    assert not MemberRecord.objects.exists()
    agent.beat()
    coordinator.tick()
    assert MemberRecord.objects.get().member_id == "a"


def test_who_writes_beside_the_scripts_harms_no_other_group(
    group: Group, agent: FakeAgent, store: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Ticks, samples and trimming of the groups after it, by name and by stream, go on."""
    first = make_group(f"a-{group.name}", **PATIENT)
    agent.start()
    FakeAgent(first, "b").start()
    keys = GroupKeys(first.name)
    for key, damage in (
        (keys.offsets, lambda: store.hset(keys.offsets, f"{first.stream}:0", "far")),
        (keys.meta, lambda: store.hset(keys.meta, "group_epoch", "many")),
    ):
        damage()
        caplog.clear()
        store.delete(QueueKeys(group.name).queued)
        assert coordinator.tick() == 1, key
        assert health.look().failing_named == (first.name,)
        coordinator.sample()
        coordinator.trim()
        assert group.samples.count() > 0
        group.samples.all().delete()
    assert f"stream={first.stream} not trimmed" in caplog.text
    assert f"stream={group.stream} not trimmed" not in caplog.text


def test_the_mirror_keeps_partitions_of_the_group_only(
    group: Group, agent: FakeAgent, store: Any
) -> None:
    keys, last = GroupKeys(group.name), f"{group.stream}:3"
    store.xadd(StreamKeys(group.stream).entries(3), {"e": 1}, id="5-0")
    for text in (last, f"{group.stream}:4", f"{group.stream}:9999999999999999", "elsewhere:1"):
        store.hset(keys.offsets, text, "5-0")
    coordinator.sample()
    assert [(row.number, row.offset) for row in group.mirror.all()] == [(3, "5-0")]


def test_a_forged_offset_moves_no_stream_that_others_read(
    group: Group, agent: FakeAgent, store: Any
) -> None:
    """Not after a wipe either; one that its stream has come to is believed, whatever the clock."""
    first = make_group(f"a-{group.name}", stream=group.stream, **PATIENT)
    ahead = f"{2**45}-7"  # an hour in the future was a real one when the clock was there
    store.xadd(StreamKeys(group.stream).entries(1), {"a": "b"}, id=ahead)
    forged = {f"{group.stream}:0": f"{2**64 - 1}-{2**64 - 1}", f"{group.stream}:1": ahead}
    store.hset(GroupKeys(first.name).offsets, mapping=forged)
    coordinator.sample()
    assert [row.offset for row in first.mirror.all()] == [ahead]
    for key in (*store.keys(f"ek:{{{first.name}}}:*"), *store.keys(f"ek:{{{group.name}}}:*")):
        store.delete(key)
    store.delete(*(StreamKeys(group.stream).entries(number) for number in range(2)))
    coordinator.tick()
    ids = [store.xadd(StreamKeys(group.stream).entries(n), {"a": "b"}) for n in range(2)]
    assert Offset.parse(ids[0].decode()).ms < 2**44
    assert Offset.parse(ids[1].decode()) > Offset.parse(ahead)


def test_a_member_that_says_something_else_every_second_is_one_entry_and_a_count(
    group: Group, agent: FakeAgent
) -> None:
    for number in range(5):
        texts = (("report", f"a reports {number}"), ("report", f"b reports {number}"))
        records.keep_faults(group, KeepFaults(texts))
    told = AuditEntry.objects.filter(action="invariant broken")
    assert [entry.reason for entry in told] == ["a reports 0 (and 1 more)"]
    audit.floods.tell()
    assert [entry.count for entry in told.order_by("seq")] == [1, 4]
    assert group.faults == [["report", "a reports 4"], ["report", "b reports 4"]]
