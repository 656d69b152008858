"""Leases that one process holds at a time, on a real Redis."""

import threading
import time
from typing import Any

import pytest

from dashboard.live import leases
from dashboard.live.connection import own_key
from dashboard.live.leases import lease
from tests.dashboard.agents import until


@pytest.fixture(autouse=True)
def short(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "LEASE_S", 0.4)
    monkeypatch.setattr(leases, "_leases", leases._Leases())  # that of before may sleep for longer


def is_free(name: str) -> bool:
    with lease(own_key(name)) as mine:
        return mine


def test_leases_that_are_held_shortly_need_no_thread_each() -> None:
    before, seen = threading.active_count(), set()
    for _ in range(50):
        with lease(own_key("a")):
            seen.add(threading.active_count())
    assert max(seen) <= before + 1


def test_one_that_cannot_be_renewed_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = threading.Event()
    renew = leases._renew

    def slowly(held: Any) -> None:
        if held.lock.name == own_key("hangs"):
            hangs.wait(20.0)
        renew(held)

    monkeypatch.setattr(leases, "_renew", slowly)
    with lease(own_key("hangs")), lease(own_key("b")):
        until(lambda: is_free("hangs"))
        ends_s = time.monotonic() + 2 * leases.LEASE_S
        until(lambda: is_free("b") or time.monotonic() > ends_s)
        assert not is_free("b")
        hangs.set()


def test_what_was_lost_is_not_taken_from_whoever_has_it_now(store: Any) -> None:
    with lease(own_key("a")):
        store.set(own_key("a"), "another", px=60_000)
        until(lambda: leases._leases._watcher is None)
        assert store.pttl(own_key("a")) > 50_000
    assert store.get(own_key("a")) == b"another"
