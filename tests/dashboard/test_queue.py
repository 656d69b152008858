"""One run of a group's rebalance at a time, and what a killed one leaves behind."""

import base64
import json
import time
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from assignment.scripts import recovery
from assignment.wire import GroupKeys
from dashboard import coordinator
from dashboard.celery import QUEUE
from dashboard.coordinator import running, tasks
from dashboard.coordinator.carrying import Here, want_history
from dashboard.live import leases, queue
from dashboard.live.connection import StoreUnavailable, own_key
from dashboard.live.queue import QueueKeys
from dashboard.live.scripts import run
from dashboard.models import Group, Rebalance
from tests.dashboard.agents import FakeAgent, until

pytestmark = pytest.mark.django_db
BRIEF_S = 1.5


class FlakyLock:
    """Renewed with what is given, one after the other; then it is lost."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = [*answers, redis.exceptions.LockNotOwnedError("lost")]

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass

    def reacquire(self) -> None:
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer


def test_a_killed_run_delays_the_next_by_its_lease_alone(
    group: Group, agent: FakeAgent, store: Any, published: Any
) -> None:
    keys = QueueKeys(group.name)
    store.set(keys.running, "of a worker that was killed")
    agent.start()
    coordinator.want_rebalance(group.name)
    assert coordinator.rebalance(group.name) == "another run has it"
    assert 0 < store.pttl(keys.queued) <= queue.BUSY_MS
    before = published()
    coordinator.tick()
    assert published() == before, "not with every trigger while it may be alive"
    store.delete(keys.running)
    until(lambda: coordinator.tick() and published() > before, seconds=4)
    coordinator.rebalance(group.name)
    assert Rebalance.objects.count() == 1


def test_a_group_that_is_always_due_leaves_most_of_a_worker_to_others(
    group: Group, store: Any, published: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for a rebalance at every moment: the next run is published for later."""
    times = iter(range(1_000))
    runs = list[str]()

    def a_second_long(steps: Any, here: Here) -> str:
        runs.append(here.name)
        coordinator.want_rebalance(here.name)
        return "done"

    clock = SimpleNamespace(monotonic=lambda: next(times))
    monkeypatch.setattr(running, "time", clock)
    monkeypatch.setattr(running, "carry_out", a_second_long)
    coordinator.rebalance(group.name)
    assert runs == [group.name], "not again at once"
    store.delete(f"{group.name}:celery:{QUEUE}")
    assert tasks.rebalance(group.name) == "others come first"
    assert published() == 1
    told = json.loads(store.lindex(f"{group.name}:celery:{QUEUE}", 0))["headers"]
    assert told["eta"], "later"
    assert runs == [group.name]
    assert 0 < queue.pause_s(group.name) <= queue.PAUSE_MAX_S
    assert queue.pause_s("another") == 0


def test_a_task_whose_triggers_another_one_took_does_nothing(
    group: Group, agent: FakeAgent, store: Any
) -> None:
    agent.start()
    coordinator.want_rebalance(group.name)
    tasks.rebalance(group.name)
    assert Rebalance.objects.count() == 1
    epoch = store.hget(GroupKeys(group.name).meta, "coordinator_epoch")
    assert tasks.rebalance(group.name) == "an earlier run did it"
    assert store.hget(GroupKeys(group.name).meta, "coordinator_epoch") == epoch, "it read nothing"
    coordinator.want_rebalance(group.name)
    assert tasks.rebalance(group.name) != "an earlier run did it"


def test_no_task_is_too_old_to_be_run(group: Group, store: Any) -> None:
    """Where more groups wait than the workers get through in time, all would be too old."""
    coordinator.want_rebalance(group.name)
    assert want_history({group.name: True})
    for place in range(2):
        told = json.loads(store.lindex(f"{group.name}:celery:{QUEUE}", place))["headers"]
        assert told["expires"] is None, told["task"]


def test_where_tasks_wait_long_no_second_one_waits_behind_the_first(
    group: Group, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "WAIT_KNOWN_S", 0.0)
    queued = QueueKeys(group.name).queued
    assert coordinator.want_rebalance(group.name)
    assert 0 < store.pttl(queued) <= queue.QUEUED_MS
    body = json.loads(store.lindex(f"{group.name}:celery:{QUEUE}", 0))["body"]
    [[name, published_ms], _, _] = json.loads(base64.b64decode(body))
    assert name == group.name
    assert abs(published_ms - time.time() * 1e3) < 60_000
    tasks.rebalance(group.name, int(time.time() * 1e3) - 20_000)
    assert coordinator.want_rebalance(group.name)
    assert 55_000 < store.pttl(queued) <= 61_000, "three times that"
    queue.note_wait(1)
    queue.unpublish(group.name)
    queue.want(group.name)
    assert store.pttl(queued) == pytest.approx(queue.QUEUED_MOST_MS, abs=2_000), "at most"
    store.delete(own_key("task_wait_ms"))
    queue.note_wait(int(time.time() * 1e3))
    assert not store.exists(own_key("task_wait_ms")), "there is nothing to remember"


def test_who_runs_when_is_not_for_the_members_to_say(group: Group, store: Any) -> None:
    before = set(store.keys(GroupKeys(group.name).meta.replace("meta", "*")))
    with queue.running(group.name):
        coordinator.want_rebalance(group.name)
        queue.spend(group.name, 0.1)
        assert set(store.keys(GroupKeys(group.name).meta.replace("meta", "*"))) == before


def test_a_killed_run_blocks_its_group_for_seconds(store: Any, group_name: str) -> None:
    with queue.running(group_name) as mine:
        assert mine
        assert 0 < store.pttl(QueueKeys(group_name).running) <= 3_000
        with queue.running(group_name) as another:
            assert not another
    with queue.running(group_name) as mine:
        assert mine


def test_a_long_run_keeps_its_lease(
    store: Any, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE_S", BRIEF_S)
    key, left, renewed = QueueKeys(group_name).running, [1 << 30], 0

    def is_renewed() -> bool:
        left.append(store.pttl(key))
        return bool(left[-1] > left[-2])

    with queue.running(group_name):
        while renewed < 3:
            until(is_renewed)
            renewed += 1
        assert store.exists(key)


def test_a_renew_that_failed_is_tried_again_until_the_lease_is_lost(
    store: Any, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = FlakyLock(StoreUnavailable("away"), None, StoreUnavailable("slow"), None)
    monkeypatch.setattr(leases, "LEASE_S", 0.01)
    monkeypatch.setattr(store, "lock", lambda *_, **__: lock)
    with queue.running(group_name):
        until(lambda: not lock.answers)


HOUR_MS = 3_600_000


def test_what_expires_is_kept_within_its_time_when_the_clock_was_set_back(
    store: Any, group_name: str
) -> None:
    """As Redis keeps them: to the hour at which they would have ended by the clock before."""
    keys, hold = QueueKeys(group_name), GroupKeys(group_name).hold
    store.set(keys.running, "of a worker that is gone", px=HOUR_MS)
    with queue.running(group_name) as mine:
        assert not mine
    assert store.pttl(keys.running) <= leases.LEASE_S * 1000
    store.set(keys.queued, 1, px=HOUR_MS)
    assert not queue.want(group_name)
    assert store.pttl(keys.queued) <= queue.QUEUED_MS
    run(recovery.hold(5_000), group_name)
    store.pexpire(hold, HOUR_MS)
    assert run(recovery.hold(), group_name)
    assert store.pttl(hold) <= 5_000
