"""What one member or one group can do to others: nothing that stops them."""

from collections.abc import Generator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from assignment.coordinator.facts import GroupRecord
from assignment.scripts.group_read import NO_TICK, Purpose
from assignment.wire import GroupKeys
from dashboard import coordinator
from dashboard.coordinator import running
from dashboard.coordinator.running import _Turn, in_turns
from dashboard.live import groups as live_groups
from dashboard.models import AuditEntry, Group, MemberRecord
from tests.dashboard.agents import FakeAgent, make_group

pytestmark = pytest.mark.django_db
DEEP = b'{"consumer":' + b"[" * 955 + b"]" * 955 + b"}"
PATIENT = {"lease_ms": 600_000, "renew_ms": 100_000, "session_timeout_ms": 600_000}
BAD_REPORT = b"1 1 1 %d %s{}" % (len(DEEP), DEEP)


@pytest.fixture
def visitor(db: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_user("ann"))
    return client


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
    assert f"fails for 1 of 2 groups ({other.name})" in answer.json()["warnings"][-1]
    store.hset(GroupKeys(group.name).meta, "incarnation", str(2**40))
    assert coordinator.tick() == 0
    answer = visitor.get("/readyz")
    assert answer.status_code == 503
    assert "fails for 2 of 2 groups" in answer.json()["why"][0]


@pytest.mark.parametrize("page", ["", "members/", "partitions/", "scale-down/", "settings/"])
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


# --- time -----------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


def turn(name: str, clock: Clock, done: list[str], *costs_s: float) -> _Turn:
    def pieces() -> Generator[None, None, None]:
        for cost_s in costs_s:
            clock.now_s += cost_s
            done.append(name)
            yield

    return _Turn(GroupRecord(name=name, settings=None), None, pieces())


def test_a_group_that_takes_long_gives_way_to_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, done = Clock(), list[str]()
    monkeypatch.setattr(running, "time", clock)
    slow = turn("slow", clock, done, *[running.SLICE_S] * 3)
    others = [turn(name, clock, done, 0.01, 0.01) for name in "bc"]
    in_turns([slow, *others], lambda waiting: NO_TICK)
    assert done == ["slow", "b", "b", "c", "c", "slow", "slow"]
    assert all(one.is_done for one in (slow, *others))


def test_one_that_would_delay_the_next_tick_is_left_out_and_given_more_time_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, done = Clock(), list[str]()
    monkeypatch.setattr(running, "time", clock)
    monkeypatch.setattr(running, "_patience_s", {})
    for _ in range(2):
        slow = turn("slow", clock, done, *[running.PATIENCE_S / 4] * 7)
        quick = turn("quick", clock, done, 0.01)
        in_turns([slow, quick], lambda waiting: NO_TICK)
        assert quick.is_done
    assert slow.is_done, "with twice the patience"
    assert done.count("slow") < 14
    assert running._patience_s == {}
