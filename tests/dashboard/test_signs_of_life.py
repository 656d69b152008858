"""The signs of life of whoever ticks: told in one trip, by the clock, and no time away is lost."""

from types import SimpleNamespace
from typing import Any

import pytest

from assignment.scripts.group_read import TICKER_AWAY_MS, Gap
from dashboard.coordinator import ticker
from dashboard.coordinator.running import SAID_AGAIN_S, Said
from dashboard.coordinator.ticker import Ticker
from dashboard.live import queue, together
from dashboard.live.connection import StoreUnavailable, ms_of, own_key

SIGNS = 6


def commands(store: Any) -> int:
    found: int = store.info("commandstats").get("cmdstat_eval", {}).get("calls", 0)
    return found


def given_ago(store: Any, ago_ms: int) -> int:
    """The last sign was given then; when that was."""
    at_ms = ms_of(*store.time()) - ago_ms
    store.hset(own_key("ticker"), "seen_ms", at_ms)
    store.zadd(queue.tickers_key(), {"one": at_ms}, xx=True)
    return at_ms


def test_a_usual_sign_is_one_trip(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first = queue.ticker_lives("one")
    before = commands(store)
    monkeypatch.setattr(store, "pipeline", list)  # which nothing could be asked of
    second = queue.ticker_lives("one")
    assert commands(store) == before + 1
    assert second.living == ("one",)
    assert second.ticker.away == first.ticker.away
    stored = int(store.hget(own_key("ticker"), "seen_ms"))
    assert stored == store.zscore(queue.tickers_key(), "one") == second.ticker.seen_ms


def test_the_first_sign_tells_that_nobody_was_there(store: Any) -> None:
    first = queue.ticker_lives()
    assert first.ticker.away == Gap(0, first.ticker.seen_ms)
    assert queue.last_ticker() == first.ticker


def test_a_time_away_is_told_once_and_kept(store: Any) -> None:
    queue.ticker_lives("one")
    last_ms = given_ago(store, TICKER_AWAY_MS + 500)
    back = queue.ticker_lives("two")
    assert back.ticker.away == Gap(last_ms, back.ticker.seen_ms)
    assert back.living == ("two",)  # the other one is taken out
    assert store.zrange(queue.tickers_key(), 0, -1) == [b"two"]
    assert queue.ticker_lives("two").ticker.away == back.ticker.away
    assert queue.last_ticker().away == back.ticker.away


def test_who_gave_none_for_long_while_another_did_is_there_again_at_once(store: Any) -> None:
    queue.ticker_lives("one")
    given_ago(store, TICKER_AWAY_MS + 500)
    queue.ticker_lives("two")
    store.zadd(queue.tickers_key(), {"one": ms_of(*store.time()) - TICKER_AWAY_MS - 500})
    assert queue.ticker_lives("one").living == ("one", "two")
    assert set(store.zrange(queue.tickers_key(), 0, -1)) == {b"one", b"two"}


def test_a_later_sign_of_another_one_counts(store: Any) -> None:
    """As of an older version, or of one that wrote what it had read before."""
    before = queue.ticker_lives("one").ticker.away
    store.hset(own_key("ticker"), "seen_ms", ms_of(*store.time()) - TICKER_AWAY_MS - 500)
    assert queue.ticker_lives("two").ticker.away == before


def test_of_before_a_clock_that_was_set_back_nothing_is_known(store: Any) -> None:
    queue.ticker_lives("one")
    given_ago(store, -60_000)
    back = queue.ticker_lives("two").ticker
    assert back.away == Gap(back.seen_ms, back.seen_ms)


@pytest.mark.parametrize(
    ("takes_s", "begun_s"),
    [
        (0.3, [0, 1.25, 2.5, 3.75, 5, 6.25]),  # not 0, 1.55, 3.1
        (1.3, [0, 1.3, 2.6, 3.9, 5.2, 6.5]),  # never idle, and none is caught up on
    ],
)
def test_what_one_sign_waits_for_delays_no_other(
    monkeypatch: pytest.MonkeyPatch, takes_s: float, begun_s: list[float]
) -> None:
    clock, begun = SimpleNamespace(now_s=0.0), []

    def waited(for_s: float) -> bool:
        clock.now_s += for_s
        return len(begun) == SIGNS

    def lives(_: str) -> queue.Share:
        begun.append(round(clock.now_s, 3))
        clock.now_s += takes_s
        return queue.Share(queue.NO_TICK, ())

    one = Ticker("one")
    monkeypatch.setattr(one, "ended", SimpleNamespace(wait=waited))
    monkeypatch.setattr(one, "_moved_s", 1e9)
    monkeypatch.setattr(ticker.time, "monotonic", lambda: clock.now_s)
    monkeypatch.setattr(queue, "ticker_lives", lives)
    one._live()
    assert begun == begun_s


def test_while_rounds_give_signs_the_thread_beside_them_gives_none(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "ticker_lives", list)  # which makes no share of a name
    said = Said("one")
    for _ in range(3):
        together.ask([said.asked()])
        assert 1.0 < said.left_s() <= SAID_AGAIN_S
        share = said()
        assert share.living == ("one",)
        assert store.zscore(queue.tickers_key(), "one") == share.ticker.seen_ms


def test_of_two_signs_the_later_one_counts(store: Any) -> None:
    said = Said("one")
    together.ask([said.asked()])
    queue.ticker_lives("two")
    said.say()  # by the thread beside the round, which has not used its answer yet
    assert said().living == ("one", "two")


def test_a_sign_that_cannot_be_given_is_told_to_the_round(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: str) -> Any:
        raise StoreUnavailable("away")

    said = Said("one")
    with monkeypatch.context() as patch:
        patch.setattr(queue, "way_to", away)
        together.ask([said.asked()])
        with pytest.raises(StoreUnavailable):
            said()
    together.ask([said.asked()])
    assert said().living == ("one",)
