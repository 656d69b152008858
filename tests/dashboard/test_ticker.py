"""The tickers that share the groups: in threads here, each with a name of its own."""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connections

from assignment.coordinator import tick as rules
from assignment.scripts.group_read import TICKER_AWAY_MS, Purpose
from dashboard import coordinator
from dashboard.coordinator import running, ticker
from dashboard.coordinator.lookers import Lookers
from dashboard.coordinator.resting import remembering
from dashboard.coordinator.running import Line, Round, Said
from dashboard.coordinator.ticker import Ticker, ticker_of
from dashboard.live import groups as live_groups
from dashboard.live import health, queue, together
from dashboard.live.connection import StoreUnavailable
from dashboard.models import Group
from tests.dashboard.agents import FakeAgent, make_group, until

pytestmark = pytest.mark.django_db(transaction=True)
FAST = {
    "lease_ms": 1_500, "renew_ms": 500, "session_timeout_ms": 1_200, "heartbeat_ms": 300,
    "grace_ms": 1_000,
}  # fmt: skip
HELD_S = 20.0  # at most, by a test


@pytest.fixture
def started(store: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Ticker]]:
    """Starts a ticker of that name; all of them end with the test."""
    monkeypatch.setattr(ticker, "TICK_S", 0.1)
    monkeypatch.setattr(ticker, "SLICE_S", 0.05)
    monkeypatch.setattr(running, "SAID_AGAIN_S", 0.125)
    running_now: list[tuple[Ticker, threading.Thread]] = []

    def start(name: str) -> Ticker:
        made = Ticker(name)
        thread = threading.Thread(target=lambda: (made.run(), connections.close_all()))
        running_now.append((made, thread))
        thread.start()
        return made

    yield start
    for made, _ in running_now:
        made.ended.set()
    for made, thread in running_now:
        thread.join()
        made._looks.shutdown()


class Looks:
    """Stands before every look: counts them, and holds those at a group for as long as told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.at_once, self.most = Counter[str](), Counter[str](), 0
        self.held: dict[str, threading.Event] = {}
        self._lock, self._look = threading.Lock(), rules.tick
        monkeypatch.setattr(rules, "tick", self)

    def __call__(self, record: Any, by: Any) -> Any:
        with self._lock:
            self.begun[record.name] += 1
            self.at_once[record.name] += 1
            self.most = max(self.most, self.at_once[record.name])
        try:
            if record.name in self.held:
                self.held[record.name].wait(HELD_S)
            return (yield from self._look(record, by))
        finally:
            with self._lock:
                self.at_once[record.name] -= 1


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Looks]:
    made = Looks(monkeypatch)
    yield made
    for event in made.held.values():
        event.set()


def busy(name: str) -> Group:
    """Due at every tick: its member waits for a target."""
    group = make_group(name, lease_ms=600_000, session_timeout_ms=600_000)
    FakeAgent(group, "a").start()
    return group


def test_a_group_whose_look_takes_long_delays_no_other(
    started: Callable[[str], Ticker], looks: Looks, group_name: str
) -> None:
    slow, other = busy(f"{group_name}-a"), busy(f"{group_name}-b")
    looks.held[slow.name] = threading.Event()
    looks.begun.clear()
    started("one")
    until(lambda: looks.begun[other.name] >= 5)
    assert looks.begun[slow.name] == 1, "it goes on, and is not begun again meanwhile"
    looks.held.pop(slow.name).set()
    until(lambda: looks.begun[slow.name] >= 3)


def test_as_many_as_take_long_leave_one_for_the_others(
    started: Callable[[str], Ticker], looks: Looks, group_name: str
) -> None:
    slow = [busy(f"{group_name}-{n}").name for n in range(ticker.LOOKS_MAX - 1)]
    other = busy(f"{group_name}-other").name
    looks.held |= dict.fromkeys(slow, event := threading.Event())
    looks.begun.clear()
    started("one")
    until(lambda: looks.begun[other] >= 3)
    event.set()
    looks.held.clear()
    until(lambda: min(looks.begun[name] for name in slow) >= 2)


def test_some_looks_go_on_at_once_and_no_more(
    started: Callable[[str], Ticker], looks: Looks, group_name: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(ticker, "SLICE_S", HELD_S)
    names = [busy(f"{group_name}-{n}").name for n in range(ticker.LOOKS_AT_ONCE + 2)]
    looks.held |= dict.fromkeys(names, event := threading.Event())
    looks.begun.clear()
    started("one")
    until(lambda: len(looks.begun) == ticker.LOOKS_AT_ONCE)
    time.sleep(3 * ticker.TICK_S)
    assert len(looks.begun) == ticker.LOOKS_AT_ONCE
    event.set()
    until(lambda: len(looks.begun) == len(names))


def test_a_redis_that_takes_no_writes_is_told_once_a_round(
    store: Any, group_name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And not of each group."""
    for n in range(20):
        busy(f"{group_name}-{n}")

    def refused(*_: Any) -> Any:
        raise StoreUnavailable("it has no room")

    monkeypatch.setattr(queue, "looking", refused)
    monkeypatch.setattr(live_groups, "redis_now_ms", refused)
    made = Ticker("one")
    for _ in range(3):
        made.round()
    made._looks.shutdown()
    said = [record.message for record in caplog.records if "it has no room" in record.message]
    assert set(said) == {"no tick: it has no room"}
    assert len(said) <= 3


def test_a_look_that_fails_as_nobody_thought_is_told_where_and_counted(
    store: Any, group_name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name = busy(group_name).name

    def fails(*_: Any) -> Any:
        raise LookupError("as planted")

    monkeypatch.setattr(ticker, "look_at", fails)
    made = Ticker("one")
    made.round()
    made._wait(HELD_S)
    made.round()
    made._looks.shutdown()
    assert "as planted" in caplog.text and "Traceback" in caplog.text
    assert health.look().failing_named == (name,)


def test_a_look_that_goes_on_for_too_long_ends_the_ticker_and_one_that_is_over_does_not(
    store: Any, looks: Looks, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = busy(group_name).name
    looks.held[name] = threading.Event()
    made = Ticker("one")
    made.round()
    assert not made._is_hung()
    monkeypatch.setattr(ticker, "HUNG_S", 0.0)
    made._moved_s = math.inf
    assert made._is_hung()
    looks.held.pop(name).set()
    made._wait(HELD_S)
    assert not made._is_hung()
    made._looks.shutdown()


def test_when_all_take_long_how_many_wait_is_told(
    started: Callable[[str], Ticker], looks: Looks, group_name: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(ticker, "LOOKS_MAX", 1)
    monkeypatch.setattr(running, "SAID_EVERY_S", 0.0)
    monkeypatch.setattr(running, "LATE_S", 0.1)
    names = [busy(f"{group_name}-{n}").name for n in range(4)]
    event = threading.Event()
    looks.held |= dict.fromkeys(names, event)
    started("one")
    until(lambda: health.look().late_groups)
    event.set()


def test_a_round_ends_when_the_next_is_due_and_who_is_left_comes_first(
    store: Any, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that of all groups is asked every second whether something happened."""
    names = {busy(f"{group_name}-{n}").name for n in range(5)}
    clock = SimpleNamespace(now_s=100.0, monotonic=lambda: clock.now_s)
    monkeypatch.setattr(running, "time", clock)
    looked: list[str] = []

    def give(one: Any) -> bool:
        looked.append(one.name)
        clock.now_s += 0.4 * ticker.TICK_S
        return True

    line = Line()
    for _ in range(2):
        Round(Said(), give=give, line=line, until_s=clock.now_s + ticker.TICK_S).run()
    assert (len(looked), {*looked[:5]}, looked[5]) == (6, names, looked[0])


def test_a_round_that_found_its_groups_late_has_time_for_some(
    store: Any, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy(group_name)
    assert Round(Said(), line=Line(), until_s=0.0).run() == 1


def test_who_rested_until_now_comes_before_those_that_are_looked_at_all_the_time() -> None:
    line = Line()
    for name in ("b", "a", "b", "a"):
        line.took(name)
    assert line.in_order(["a", "b", "new"]) == ["new", "b", "a"]
    line.forget_all_but({"a"})
    assert line.in_order(["a", "b"]) == ["b", "a"]


def test_whom_nobody_can_look_at_is_told_as_late(
    store: Any, group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From round to round, although none of these takes long."""
    monkeypatch.setattr(running, "SAID_EVERY_S", 0.0)
    busy(group_name)
    line, began_s = Line(), time.monotonic()
    Round(Said(), give=lambda one: None, line=line).run()
    assert not health.look().late_groups
    clock = SimpleNamespace(monotonic=lambda: began_s + running.LATE_S + 60.0)
    monkeypatch.setattr(running, "time", clock)
    Round(Said(), give=lambda one: None, line=line).run()
    assert health.look().late_groups == 1


def test_who_takes_very_long_is_counted_with_those_that_fail_until_it_is_done(
    started: Callable[[str], Ticker], looks: Looks, group_name: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(ticker, "LONG_S", 0.2)
    slow = busy(group_name).name
    looks.held[slow] = threading.Event()
    started("one")
    until(lambda: health.look().failing_named == (slow,))
    looks.held.pop(slow).set()
    until(lambda: not health.look().failing_groups)


def test_a_round_that_waits_is_no_time_in_which_nobody_ticked(
    started: Callable[[str], Ticker], group_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the database, say; the ticker lives, so sessions that end meanwhile are over
    when it goes on: what it is late counts.
    """
    monkeypatch.setattr(queue, "TICKER_AWAY_MS", 400)
    group = make_group(group_name, **FAST)
    FakeAgent(group, "a").start()
    waits, found = threading.Event(), threading.Event()
    awake = running.resting.awake

    def late(*arguments: Any) -> Any:
        found.set()
        waits.wait(HELD_S)
        return awake(*arguments)

    started("one")
    until(lambda: queue.last_ticker().seen_ms)
    monkeypatch.setattr(running.resting, "awake", late)
    found.wait(HELD_S)
    before = queue.last_ticker()
    until(lambda: queue.last_ticker().seen_ms - before.seen_ms > TICKER_AWAY_MS)
    assert queue.last_ticker().away == before.away
    waits.set()
    until(lambda: not live_groups.read(group.name, Purpose.LOOK).members, seconds=1.0)


def test_what_a_round_asks_first_it_asks_at_once(
    group_name: str, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Redis is busy each trip waits for its turn: five, one after the other, five times."""
    make_group(group_name)
    line = Line(remembering())
    for _ in range(2):
        Round(Said(), line=line).run()
    trips = list[bytes]()

    def steps(way: Any, packed: together.Packed) -> Any:
        trips.append(packed.commands)
        return at_once(way, packed)

    at_once = together._steps
    monkeypatch.setattr(together, "_steps", steps)
    assert Round(Said(), line=line).run() == 0
    first, of_changes, stamp = trips
    for asked in (
        queue.tickers_key(),
        "rows_version",
        "rests_changed",
        health.FAILING,
        health.NO_HISTORY,
        "TIME",
    ):
        assert asked.encode() in first
    assert b"TRACKINGINFO" in of_changes and health.TICKED.encode() in stamp


def test_tickers_share_the_groups_and_take_over_from_one_that_died(
    started: Callable[[str], Ticker],
    looks: Looks,
    group_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queue, "TICKER_AWAY_MS", 500)
    shares: dict[str, list[str]] = {"one": [], "two": []}
    for n in range(100):
        name = f"{group_name}-{n}"
        share = shares[ticker_of(name, ("one", "two"))]
        if len(share) < 3:
            share.append(name)
    names = [busy(name).name for share in shares.values() for name in share]
    assert all(shares.values())
    started("one")
    two = started("two")
    until(lambda: health.look().tickers == 2)
    monkeypatch.setattr(queue, "ticker_ends", lambda name: None)  # as one that is killed
    two.ended.set()
    until(lambda: health.look().tickers == 1)
    looks.begun.clear()
    until(lambda: all(looks.begun[name] >= 2 for name in names))


def test_no_two_tickers_look_at_one_group_at_once(
    started: Callable[[str], Ticker],
    looks: Looks,
    group_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Although both take all groups for theirs, as while they disagree on who lives."""
    monkeypatch.setattr(Ticker, "_share_of", lambda self, groups: groups)
    names = [busy(f"{group_name}-{n}").name for n in range(3)]
    looks.held[names[0]] = threading.Event()
    looks.begun.clear()
    started("one"), started("two")
    until(lambda: all(looks.begun[name] >= 5 for name in names[1:]))
    assert looks.begun[names[0]] == 1
    looks.held.pop(names[0]).set()
    until(lambda: looks.begun[names[0]] >= 5)
    assert looks.most == 1


def test_a_herd_of_new_groups_is_looked_at_once_each_and_then_rests(
    started: Callable[[str], Ticker], looks: Looks, group_name: str
) -> None:
    names = [f"{group_name}-{n}" for n in range(20)]
    Group.objects.bulk_create(
        Group(name=name, stream=name, partitions=4, settings={"stream": name, "partitions": 4})
        for name in names
    )
    started("one"), started("two")
    until(lambda: all(live_groups.stored_settings(name)[0] for name in names), 40.0)
    assert looks.most == 1
    until(lambda: not coordinator.tick(), 40.0)


def test_a_heavy_group_is_looked_at_by_another_process(
    started: Callable[[str], Ticker],
    looks: Looks,
    group_name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = Counter[str]()
    monkeypatch.setattr(ticker, "HEAVY_PARTITIONS", 4)
    monkeypatch.setattr(Lookers, "want", lambda self, group: wanted.update([group]))
    name = busy(group_name).name
    looks.begun.clear()
    started("one")
    until(lambda: wanted[name] >= 2)
    assert not looks.begun


def test_no_two_look_at_a_group_in_whatever_process(group_name: str, store: Any) -> None:
    name = busy(group_name).name
    assert coordinator.look(name) == 1
    with queue.looking(name) as mine:
        assert mine
        assert coordinator.look(name) == 0, "somebody is at it"


def test_only_the_share_of_who_comes_or_goes_goes_over() -> None:
    groups = [f"g{n}" for n in range(300)]
    before = {g: ticker_of(g, ("a", "b", "c")) for g in groups}
    after = {g: ticker_of(g, ("a", "c")) for g in groups}
    assert all(after[g] == before[g] for g in groups if before[g] != "b")
    assert min(Counter(before.values()).values()) > 60
    assert min(Counter(after.values()).values()) > 100


def test_one_whose_sign_of_life_lies_in_the_future_is_not_waited_for(store: Any) -> None:
    """The clock was set back since."""
    queue.ticker_lives("dead")
    store.zincrby(queue.tickers_key(), 3_600_000, "dead")
    assert queue.ticker_lives("one").living == ("one",)
    assert store.zrange(queue.tickers_key(), 0, -1) == [b"one"]
