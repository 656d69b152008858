"""A consumer's words reach Redis, also when Redis did not take them the first time."""

import time
from collections.abc import Callable

from agent.spark.progress import Progress
from agent.store.group import GroupStore
from assignment.scripts import dashboard_side
from assignment.types import GroupSettings
from tests.fakes import FakeDoor, FakeRedis

DEADLINE_S = 10.0


def until(fact: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not fact():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def group_with_member() -> GroupStore:
    store = GroupStore(FakeDoor(FakeRedis()), "g")
    settings = GroupSettings(stream="s", partitions=1)
    store.run(dashboard_side.configure(settings, "new", rebalance_due=True))
    return store


def join(store: GroupStore) -> None:
    store.run(dashboard_side.join("a", "secret", {}))


def said(store: GroupStore) -> str:
    progress = store.progress("a")
    return progress.state if progress else ""


def test_ready_said_while_it_was_no_member_is_said_again() -> None:
    store = group_with_member()
    progress = Progress(store, "a", say_again_s=0.02)
    progress.say(state="ready")
    join(store)
    until(lambda: said(store) == "ready")
    progress.end("over")
    assert said(store) == "dead"


def test_ready_that_redis_forgot_is_said_again() -> None:
    store = group_with_member()
    join(store)
    progress = Progress(store, "a", say_again_s=0.02)
    progress.say(state="ready")
    until(lambda: said(store) == "ready")
    store.run(dashboard_side.leave("a", "secret"))
    assert said(store) == ""
    join(store)
    until(lambda: said(store) == "ready")
    progress.end("over")


def test_nothing_is_said_after_the_last_word() -> None:
    store = group_with_member()
    join(store)
    progress = Progress(store, "a")
    progress.end("over")
    progress.say(state="starting", why="a query of before was stopped")
    assert (progress.health.state, progress.health.why, said(store)) == ("dead", "over", "dead")
