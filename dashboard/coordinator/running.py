"""Runs the rules (coordination.md section 3): the look at a group that does not rest, and one
rebalance of a group at a time; triggers that come meanwhile make it run again.

Who looks at a group holds its lease, so that nobody does so twice at once. Safety does not depend
on it: what a look changes is fenced by epochs in Redis, and by transactions in the database.
"""

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from dataclasses import replace

from assignment.coordinator import rebalance as rebalancing
from assignment.coordinator import tick as ticking
from assignment.coordinator.effects import RecordsAway
from assignment.coordinator.reading import why_waiting
from assignment.scripts.group_read import NO_TICK
from assignment.types import Coordination
from dashboard.coordinator import resting
from dashboard.coordinator.carrying import AWAY, Here, carry_out, want_rebalance
from dashboard.coordinator.outbox import Task
from dashboard.coordinator.resting import Awake
from dashboard.coordinator.rows import is_asking
from dashboard.live import groups as live_groups
from dashboard.live import health, queue
from dashboard.live.connection import StoreUnavailable
from dashboard.live.together import Question
from dashboard.models import Group

SAID_EVERY_S = 1.0
SAID_AGAIN_S = 1.25  # by who is not at its next round by then
LATE_S = 3.0
LOOKS_LEAST_S = 0.5  # of a round, however long it took to find who does not rest
ROUNDS_MAX = 5  # triggers that keep coming wait for the next task

log = logging.getLogger(__name__)


# --- looks ----------------------------------------------------------------------------------------


def tick() -> int:
    """A round over all groups, whoever else ticks: how many were looked at, of those that do not
    rest. Raises StoreUnavailable.
    """
    return Round(Said()).run()


def look(group_name: str) -> int:
    """1 when it was looked at; 0 when it rests, or somebody is at it. Raises StoreUnavailable."""
    return sum(map(look_at, resting.awake_one(group_name, queue.last_ticker())))


class Said:
    """Signs of life, of `name` if it takes part in sharing: with each round's first trip, and when
    it is asked a second later. What was said last.
    """

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._said_s = self._share_s = -math.inf  # when it was to be said; of what is known
        self._share = queue.Share(NO_TICK, ())
        self._asked: tuple[Question[queue.Share], float] | None = None

    def asked(self) -> Question[queue.Share]:
        """To be asked at once; what comes of it is taken by the next call."""
        self._said_s = time.monotonic()
        self._asked = queue.sign_of_life(self._name), self._said_s
        return self._asked[0]

    def __call__(self) -> queue.Share:
        """Raises StoreUnavailable."""
        if self._asked is not None:
            (asked, at_s), self._asked = self._asked, None
            self._take(asked.answer(), at_s)
        elif time.monotonic() - self._said_s >= SAID_EVERY_S:
            self.say()
        return self._share

    def say(self) -> None:
        """Now. Raises StoreUnavailable."""
        self._said_s = at_s = time.monotonic()
        self._take(queue.ticker_lives(self._name), at_s)

    def _take(self, share: queue.Share, at_s: float) -> None:
        """Of two threads the later word counts."""
        if at_s >= self._share_s:
            self._share, self._share_s = share, at_s

    def left_s(self) -> float:
        """Until it is to be said once more, beside the rounds."""
        return max(0.0, self._said_s + SAID_AGAIN_S - time.monotonic())


class Line:
    """From round to round: what is known of groups, and which wait for a look. First comes who
    was not looked at for longest: that is who rested until now, of which a member may just have
    died, rather than who waits for others and is looked at again and again.
    """

    def __init__(self, known: resting.Known | None = None) -> None:
        self.known = known
        self._looked_s: dict[str, float] = {}  # when that began the last time, by group; monotonic
        self._since_s: dict[str, float] = {}  # of those that wait
        self._told_s = time.monotonic()

    def in_order(self, due: Iterable[str]) -> list[str]:
        """These wait now, and no others."""
        now_s = time.monotonic()
        self._since_s = {name: self._since_s.get(name, now_s) for name in due}
        return sorted(self._since_s, key=lambda name: self._looked_s.get(name, -math.inf))

    def took(self, group: str) -> None:
        self._looked_s[group] = time.monotonic()
        self._since_s.pop(group, None)

    def tell(self) -> None:
        """How many wait for longer than LATE_S, every second."""
        now_s = time.monotonic()
        if now_s - self._told_s < SAID_EVERY_S:
            return
        self._told_s = now_s
        if late := sum(now_s - since_s >= LATE_S for since_s in self._since_s.values()):
            health.stamp_late(late)

    def forget_all_but(self, groups: Set[str]) -> None:
        """Once there are more than groups: to compare them costs each round."""
        if len(self._looked_s) > len(groups):
            self._looked_s = {n: at_s for n, at_s in self._looked_s.items() if n in groups}


class Round:
    """One over the groups of a share that do not rest. Looks end when the next one is due, at
    `until_s` (monotonic): who is left waits in `line`. `give` says whether a look at one was made,
    or begun; None: nobody can now.
    """

    def __init__(
        self,
        said: Said,
        share_of: Callable[[Collection[str]], Collection[str]] = resting.all_of,
        give: Callable[[Awake], bool | None] | None = None,
        line: Line | None = None,
        until_s: float = math.inf,
    ) -> None:
        self._said, self._share_of, self._give = said, share_of, give or look_at
        self._line, self._until_s = line or Line(), until_s

    def run(self) -> int:
        """How many were looked at. Raises StoreUnavailable."""
        line, troubles = self._line, health.troubles()
        found = resting.awake(self._said, self._share_of, line.in_order, line.known, troubles)
        health.note_failing(found.away)
        done = sum(map(self._look_at, self._in_time(found.awake)))
        self._line.tell()
        self._line.forget_all_but(found.groups)
        failing, without_history = troubles.answer()
        health.forget((failing | without_history) - found.groups)
        health.stamp_tick(len(found.groups))
        return done

    def _in_time(self, awake: Iterator[Awake]) -> Iterator[Awake]:
        until_s = max(self._until_s, time.monotonic() + LOOKS_LEAST_S)
        while time.monotonic() < until_s and (one := next(awake, None)) is not None:
            yield one

    def _look_at(self, one: Awake) -> bool:
        self._line.tell()
        looked = self._give(replace(one, ticker=self._said().ticker))
        if looked is not None:
            self._line.took(one.name)
        return bool(looked)


def look_at(one: Awake) -> bool:
    """Whether that was done, and well. Raises StoreUnavailable."""
    is_well = False
    try:
        with queue.looking(one.name) as mine:
            if not mine:
                return False
            _look_at(one)
            is_well = True
    except RecordsAway as error:
        log.warning("tick of group=%s waits for the database: %s", one.name, error)
        return False
    except StoreUnavailable as error:
        live_groups.redis_now_ms()  # is away too when it is Redis, and not what it has of one
        log.error("tick failed group=%s: %s", one.name, error)
    except Exception:  # the top of a loop: one group's trouble is not the others'
        log.exception("tick failed group=%s", one.name)
    if one.may_fail or not is_well:
        health.note_look(one.name, is_well=is_well)
    return is_well


def _look_at(one: Awake) -> None:
    began_s = time.thread_time()
    resting.begin(one)
    here = Here(one.name, one.group, ticker=one.ticker, is_asked=one.is_asked)
    looked = carry_out(ticking.tick(one.record, Coordination.SERVER), here)
    resting.keep(one, looked, time.thread_time() - began_s)


# --- rebalances -----------------------------------------------------------------------------------


def rebalance_in_turn(group_name: str, task_id: str, worker: str) -> str:
    """As a task: while the group's runs have had their share it is published anew, for later; of
    one whose triggers were another's there is nothing left to do.
    """
    if not queue.is_wanted(group_name):
        return "an earlier run did it"
    if queue.pause_s(group_name):
        queue.unpublish(group_name)
        want_rebalance(group_name)
        return "others come first"
    return rebalance(group_name, task_id, worker)


def rebalance(group_name: str, task_id: str = "", worker: str = "") -> str:
    """What came of it, in words. Raises StoreUnavailable, Group.DoesNotExist."""
    result = "another run has it"
    for _ in range(ROUNDS_MAX):
        with queue.running(group_name) as mine:
            if not mine:
                queue.found_busy(group_name)
                return result
            queue.take_wanted(group_name)
            began_s = time.monotonic()
            try:
                row = _row(group_name)
                asked = row is not None and is_asking(row.pk)
                here = Here(group_name, row, Task(task_id, worker), is_asked=asked)
                result = _why_waiting(here) or carry_out(
                    rebalancing.rebalance(Coordination.SERVER), here
                )
            finally:
                queue.spend(group_name, time.monotonic() - began_s)
        if not queue.is_wanted(group_name):
            break
        if queue.pause_s(group_name):
            want_rebalance(group_name)  # others come first
            break
    return result


def _why_waiting(here: Here) -> str:
    """Why the run would only find that it has to wait; "" where it may not. While many members join
    nearly all do, and one that reads the group whole costs many times what is read here.
    """
    if here.row is None or here.is_asked:
        return ""
    asked = live_groups.some_asked(here.name)
    return why_waiting(asked) if asked is not None and asked.meta.settings is not None else ""


def _row(group_name: str) -> Group | None:
    """None while the database is away: a group that was there goes on without it."""
    try:
        return Group.objects.get(name=group_name)
    except AWAY:
        if group_name not in live_groups.known_groups():
            raise
        return None
