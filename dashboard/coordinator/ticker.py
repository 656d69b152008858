"""The process that ticks, one beside each Celery worker (dashboard/celery.py).

All that live share the groups: each group is its ticker's by the names of those that live, so a
ticker's share goes to the others once it gave no sign of life for TICKER_AWAY_MS, and at once when
it ends. Where two do not yet agree on who lives, the group's lease lets one look at it.

No group delays another: some looks go on at once, since most of a look is waiting for Redis and
the database, and one that takes longer than SLICE_S counts no more among them. A look that takes
much CPU would take it from all threads; it has a process of its own (lookers.py). Nor do many: a
round ends when the next one is due, and whoever is left then comes first.
"""

import logging
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from django.db import close_old_connections

from dashboard import memory, priority
from dashboard.coordinator.lookers import Lookers
from dashboard.coordinator.resting import Awake, remembering
from dashboard.coordinator.rows import ROWS_MAX
from dashboard.coordinator.running import Line, Round, Said, look_at
from dashboard.live import health, queue
from dashboard.live.connection import StoreUnavailable

TICK_S = 1.0
SLICE_S = 0.25  # many times what a group of usual size takes
LOOKS_AT_ONCE = 4  # that are quick; more would wait for each other's CPU
LOOKS_MAX = 8  # with those that are not
LONG_S = 15.0  # a group that takes longer is counted with those that fail
HUNG_S = 60.0  # a look, or the round: then the process ends, and is begun anew
HEAVY_S = 0.25  # of CPU
HEAVY_FOR_S = 600.0  # then a look is made here again, to see what it takes
HEAVY_PARTITIONS = 10_000  # take about HEAVY_S
STOP_S = 3.0  # for looks that go on; whatever ends there, the next look does the rest

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Look:
    """One that was begun, which may go on beside several rounds."""

    look: Future[bool]
    since_s: float
    is_told: bool = False


class Ticker:
    """`name`: no other's, ever."""

    def __init__(self, name: str, is_wanted: Callable[[], bool] = lambda: True) -> None:
        self.name, self._is_wanted = name, is_wanted
        self.ended = threading.Event()
        self._said = Said(name)
        self._looks = ThreadPoolExecutor(LOOKS_MAX, thread_name_prefix="look")
        self._begun: dict[str, _Look] = {}  # until the round after the one in which they ended
        self._going: list[_Look] = []  # of them, and some that have ended
        self._lookers = Lookers()
        self._away: StoreUnavailable | None = None  # which a look found
        self._heavy: dict[str, float] = {}  # group -> when that was found
        self._line = Line(remembering())
        self._groups: Collection[str] = ()
        self._living: tuple[str, ...] = ()
        self._mine: list[str] = []  # of these groups, beside these tickers
        self._moved_s = time.monotonic()

    def run(self) -> None:
        """Until `ended` is set, or it is not wanted any more."""
        life = threading.Thread(target=self._live, name="life", daemon=True)
        life.start()
        while not self.ended.is_set():
            began_s = time.monotonic()
            self.round()
            self.ended.wait(max(0.0, began_s + TICK_S - time.monotonic()))
        life.join()
        self._lookers.close()
        self._wait(STOP_S)
        with suppress(StoreUnavailable):
            queue.ticker_ends(self.name)

    # --- its life, told by a thread too: whatever the round waits for, there is one that ticks

    def _live(self) -> None:
        """Where no round gives a sign for some time. Counted from when the last one was begun, so
        that what one waits for does not delay the next: Redis may take long where groups are large.
        """
        while not self.ended.wait(self._said.left_s()):
            if not self._is_wanted():
                self.ended.set()
            elif self._is_hung():
                log.critical("nothing went on for %g s: the ticker ends", HUNG_S)
                os._exit(1)
            elif not self._said.left_s():
                self._say()

    def _say(self) -> None:
        try:
            self._said.say()
        except StoreUnavailable as error:
            log.warning("the ticker gave no sign of life: %s", error)
        except Exception:  # the top of a loop
            log.exception("the ticker gave no sign of life")

    def _is_hung(self) -> bool:
        going = [one.since_s for one in self._going if not one.look.done()]
        return time.monotonic() - min([self._moved_s, *going]) > HUNG_S

    # --- rounds

    def round(self) -> None:
        self._moved_s = time.monotonic()
        close_old_connections()
        try:
            self._take_leave()
            until_s = self._moved_s + TICK_S
            Round(self._said, self._share_of, self._give, self._line, until_s).run()
        except StoreUnavailable as error:
            log.warning("no tick: %s", error)
        except Exception:  # the top of a loop
            log.exception("no tick")

    def _share_of(self, groups: Collection[str]) -> Collection[str]:
        """The same object as long as nobody comes or goes, and the groups are the same."""
        living = self._said().living
        if living == (self.name,):
            return groups
        if groups is not self._groups or living != self._living:
            self._groups, self._living = groups, living
            self._mine = [group for group in groups if ticker_of(group, living) == self.name]
        return self._mine

    def _give(self, one: Awake) -> bool | None:
        """Whether a look at it begins; None: all that look are at others for long. Raises
        StoreUnavailable that another look of the round found: then all would.
        """
        self._moved_s = time.monotonic()
        if self.ended.is_set() or one.name in self._begun:
            return False
        until_s = self._moved_s + SLICE_S
        while not self._has_place() and (left_s := until_s - time.monotonic()) > 0:
            self._wait(left_s, FIRST_COMPLETED)
        if error := self._away:
            self._away = None
            raise error
        if not self._has_place():  # all others are late, which the round tells
            return None
        begun = _Look(self._looks.submit(self._look, one), time.monotonic())
        self._begun[one.name] = begun
        self._going.append(begun)
        return True

    def _has_place(self) -> bool:
        self._going = [one for one in self._going if not one.look.done()]
        now_s = time.monotonic()
        quick = sum(now_s - one.since_s < SLICE_S for one in self._going)
        return quick < LOOKS_AT_ONCE and len(self._going) < LOOKS_MAX

    def _wait(self, most_s: float, until: str = ALL_COMPLETED) -> None:
        wait([one.look for one in self._going], most_s, until)

    def _take_leave(self) -> None:
        """Of looks that are over, before groups are read anew; those that take long are told of."""
        for group, one in list(self._begun.items()):
            if one.look.done():
                del self._begun[group]
                if error := one.look.exception():
                    log.error("tick failed group=%s", group, exc_info=error)
                if error or one.is_told:
                    health.note_look(group, is_well=not error and one.look.result())
            elif not one.is_told and time.monotonic() - one.since_s > LONG_S:
                log.error("tick of group=%s takes longer than %g s", group, LONG_S)
                health.note_look(group, is_well=False)
                one.is_told = True

    # --- looks, each in a thread

    def _look(self, one: Awake) -> bool:
        close_old_connections()
        try:
            if self._is_heavy(one):
                self._lookers.want(one.name)
                return False
            began_s = time.thread_time()
            done = look_at(one)
            if time.thread_time() - began_s > HEAVY_S:
                self._heavy[one.name] = time.monotonic()
            return done
        except StoreUnavailable as error:  # told by the round, once for all
            self._away = error
            return False
        finally:
            close_old_connections()

    def _is_heavy(self, one: Awake) -> bool:
        if one.group is not None and one.group.partitions >= HEAVY_PARTITIONS:
            return True
        found_s = self._heavy.get(one.name)
        if found_s is None or time.monotonic() - found_s < HEAVY_FOR_S:
            return found_s is not None
        self._heavy.pop(one.name, None)
        return False


@lru_cache(ROWS_MAX)
def ticker_of(group: str, living: tuple[str, ...]) -> str:
    """Whoever comes or goes, only its own share of the groups goes over."""
    return max(living, key=lambda name: blake2b(f"{name}/{group}".encode()).digest())


def main() -> None:
    """argv: the worker's pid; the ticker ends with it, however that ends."""
    priority.leave_session()
    worker = int(sys.argv[1])
    name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    ticker = Ticker(name, is_wanted=lambda: os.getppid() == worker)
    signal.signal(signal.SIGTERM, lambda *_: ticker.ended.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the worker ends first
    log.info("ticker %s", name)
    memory.settle()
    ticker.run()
    os._exit(0)  # whatever look still waits
