"""Coalescing of rebalances (backend.md): many triggers, one run after the current one, none lost.

A trigger counts itself in `wanted` and only who sets `queued` publishes. A run holds `running`,
forgets `queued`, then takes `wanted`; after it has let go it looks at `wanted` again, for triggers
whose own run found it busy. A task whose triggers another one took does nothing. None is too old to
be run: where the workers are behind, all would be. One that was killed never looks again: the next
trigger after its lease is the one that counts, so the task that found it busy lets one be published
again soon.

Whatever its members do, a group's runs take SHARE of one worker's time: what they took beyond that
is waited for before the next one, PAUSE_MAX_S at most. After a quiet while the first runs follow
each other at once. None of these keys is a group's own, which its members may write.

History is kept by one run for all groups that wait for it, which takes one worker at most. Their
names stand in `wanted` until a run takes them; those that died with one are wished for again.
"""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from django.conf import settings

from assignment.coordinator.reading import ticker_away
from assignment.scripts.group_read import NO_TICK, TICKER_AWAY_MS, Gap, Ticker
from dashboard.live.connection import StoreUnavailable, keep_within, ms_of, own_key, sync_client
from dashboard.live.leases import lease
from dashboard.live.together import Question, pack_script, way_to

QUEUED_MS = 5_000  # a published task that no worker took for so long blocks nothing
QUEUED_MOST_MS = 120_000
WAITS = 3  # times what tasks waited last, where that is more: it is there, and has its turn
WAIT_KNOWN_S, WAIT_KEPT_MS = 1.0, 60_000
BUSY_MS = 1_000  # after a task found a run at work: as often as the tick asks
ASK_AGAIN_S = 0.1
TICKER_KNOWN_S = 0.5
SHARE = 0.2  # of a worker: two of them still have more than one for all other groups
SAVED_S = 2.0  # of time that passed without a run counts: 0.4 s of runs at once
PAUSE_MAX_S = 1.0  # as often as a tick looks at the group anyway
_DEBT_MAX_MS = round((SAVED_S + PAUSE_MAX_S) * 1e3)


@dataclass(frozen=True, slots=True)
class QueueKeys:
    group: str

    def _named(self, name: str) -> str:
        return f"{settings.REDIS_PREFIX}:queue:{{{self.group}}}:{name}"

    @property
    def wanted(self) -> str:
        return self._named("wanted")

    @property
    def queued(self) -> str:
        return self._named("queued")

    @property
    def running(self) -> str:
        return self._named("running")

    @property
    def looking(self) -> str:
        return self._named("looking")

    @property
    def spent(self) -> str:
        """Until when what its runs took is paid for, ms by the clock of Redis."""
        return self._named("spent")

    @property
    def rate(self) -> str:
        return self._named("rate")


def want(group: str) -> bool:
    """Whether the caller has to publish a task: nobody has since the last run began."""
    keys, pipe = QueueKeys(group), sync_client().pipeline()
    return _is_first(pipe.incr(keys.wanted), keys.queued)


def _is_first(wish: Any, queued: str) -> bool:
    """`wish`: a pipeline that counts it."""
    queued_ms = _queued_ms()
    is_first = bool(wish.set(queued, 1, nx=True, px=queued_ms).execute()[-1])
    if not is_first:
        keep_within(queued, queued_ms)
    return is_first


def note_wait(published_ms: int) -> None:
    """A task was taken that was published then, by this machine's clock or another's."""
    wait_ms = min(max(int(time.time() * 1e3) - published_ms, 0), QUEUED_MOST_MS)
    if wait_ms * WAITS > QUEUED_MS:
        sync_client().set(own_key("task_wait_ms"), wait_ms, px=WAIT_KEPT_MS)


_wait_known: tuple[str, float, int] = "", -math.inf, 0  # key, when that was read, ms


def _queued_ms() -> int:
    """How long a task that was published blocks another one. Where there are more groups than the
    workers get through in QUEUED_MS, a second task of each would wait behind the first, and a third
    one: they would take the time of what they wait for.
    """
    global _wait_known
    key, now_s = own_key("task_wait_ms"), time.monotonic()
    if _wait_known[0] != key or now_s - _wait_known[1] >= WAIT_KNOWN_S:
        _wait_known = key, now_s, int(sync_client().get(key) or 0)
    return min(max(QUEUED_MS, WAITS * _wait_known[2]), QUEUED_MOST_MS)


def unpublish(group: str) -> None:
    """The task could not be published: the next trigger tries again at once."""
    sync_client().delete(QueueKeys(group).queued)


def found_busy(group: str) -> None:
    """Whoever runs may be dead: triggers publish again soon, not only when `queued` ends."""
    sync_client().pexpire(QueueKeys(group).queued, BUSY_MS)


def take_wanted(group: str) -> None:
    """From now on a trigger publishes again."""
    sync_client().delete(QueueKeys(group).queued, QueueKeys(group).wanted)


def is_wanted(group: str) -> bool:
    return int(sync_client().get(QueueKeys(group).wanted) or 0) > 0


def spend(group: str, seconds: float) -> None:
    """A run of the group took so long."""
    key, pipe = QueueKeys(group).spent, sync_client().pipeline()
    now, paid_ms = pipe.time().get(key).execute()
    now_ms = ms_of(*now)
    until_ms = max(int(paid_ms or 0), now_ms) + round(seconds / SHARE * 1e3)
    until_ms = min(until_ms, now_ms + _DEBT_MAX_MS)
    sync_client().set(key, until_ms, px=max(1, until_ms - now_ms))


def pause_s(group: str) -> float:
    """How long its next run has to wait; 0: not at all."""
    now, paid_ms = sync_client().pipeline().time().get(QueueKeys(group).spent).execute()
    left_s = (int(paid_ms or 0) - ms_of(*now)) / 1e3 - SAVED_S
    return min(max(left_s, 0.0), PAUSE_MAX_S)


def running(group: str) -> AbstractContextManager[bool]:
    """Whether this process is the one that runs the group's rebalance."""
    return lease(QueueKeys(group).running)


def looking(group: str) -> AbstractContextManager[bool]:
    """Whether this process is the one that looks at the group."""
    return lease(QueueKeys(group).looking)


def of_history(name: str) -> str:
    return own_key(f"history:{name}")


def want_history(awaited: Mapping[str, bool]) -> bool:
    """Of these groups, and whether somebody awaits it. Whether the caller has to publish a task."""
    wish = sync_client().pipeline()
    for group, is_awaited in awaited.items():
        wish.hset(of_history("wanted"), group, int(is_awaited))
    return _is_first(wish, of_history("queued"))


def unpublish_history() -> None:
    """As `unpublish`."""
    sync_client().delete(of_history("queued"))


def history_found_busy() -> None:
    """As `found_busy`."""
    sync_client().pexpire(of_history("queued"), BUSY_MS)


def take_wanted_history() -> dict[str, bool]:
    """Group -> whether somebody awaits it. From now on a wish publishes again."""
    pipe = sync_client().pipeline(transaction=True)
    pipe.delete(of_history("queued")).hgetall(of_history("wanted"))
    found = pipe.delete(of_history("wanted")).execute()[1]
    return {group.decode(): awaited == b"1" for group, awaited in found.items()}


def is_history_wanted() -> bool:
    return bool(sync_client().exists(of_history("wanted")))


def keeping_history() -> AbstractContextManager[bool]:
    """Whether this process is the one that keeps history."""
    return lease(of_history("running"))


@contextmanager
def nobody_looks(group: str, wait_s: float) -> Iterator[None]:
    """Not before the look at it that is under way has ended. Raises StoreUnavailable when it does
    not.
    """
    until_s = time.monotonic() + wait_s
    while True:
        with looking(group) as mine:
            if mine:
                yield
                return
        if time.monotonic() >= until_s:
            raise StoreUnavailable(
                f"the group has been looked at for longer than {wait_s:g} s; try again"
            )
        time.sleep(ASK_AGAIN_S)


_OF_TICKER = ("seen_ms", *Gap._fields)


def _ticker() -> str:
    return own_key("ticker")


def ticker_age_ms() -> float:
    """Since somebody ticked last; without end when nobody ever did."""
    now, seen_ms = sync_client().pipeline().time().hget(_ticker(), "seen_ms").execute()
    return math.inf if seen_ms is None else ms_of(*now) - int(seen_ms)


class Share(NamedTuple):
    """What a ticker knows of all that tick: `living`, of which it is one unless it has no name."""

    ticker: Ticker
    living: tuple[str, ...]


# The usual sign, in one trip: Redis may take long where groups are large, and what a first trip has
# read is old when a second one writes. Where nobody gave a sign for too long it changes nothing.
_GIVE_SIGN = """
local time = redis.call('TIME')
local now_ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local known = redis.call('HMGET', KEYS[1], 'seen_ms', 'from_ms', 'until_ms')
local tickers = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
local seen_ms = tonumber(known[1] or '0')
for i = 2, #tickers, 2 do
  local at_ms = tonumber(tickers[i])
  if at_ms <= now_ms then seen_ms = math.max(seen_ms, at_ms) end
end
local is_given = seen_ms > 0 and now_ms >= seen_ms and now_ms - seen_ms <= tonumber(ARGV[2])
if is_given then
  redis.call('HSET', KEYS[1], 'seen_ms', string.format('%.0f', now_ms))
  if ARGV[1] ~= '' then redis.call('ZADD', KEYS[2], string.format('%.0f', now_ms), ARGV[1]) end
end
return {is_given and 1 or 0, now_ms, {string.format('%.0f', seen_ms), known[2], known[3]}, tickers}
"""


def sign_of_life(name: str = "") -> Question[Share]:
    """To be given by whoever ticks, every second; without a name it takes no part in sharing."""
    keys = _ticker(), tickers_key()
    asked = pack_script(_GIVE_SIGN, keys, name, TICKER_AWAY_MS)
    return Question(partial(way_to, keys[0]), asked, partial(_share, name))


def ticker_lives(name: str = "") -> Share:
    """Gives that sign now."""
    return sign_of_life(name).answer()


def _share(name: str, answers: Sequence[Any]) -> Share:
    """Where the sign was no usual one, it is given by this."""
    [[is_given, now_ms, known, flat]] = answers
    tickers = {one: float(at_ms) for one, at_ms in zip(flat[::2], flat[1::2], strict=True)}
    before = _ticker_in(known)
    living = living_of(now_ms, tickers.items()) | ({name} if name else set())
    pipe = sync_client().pipeline()
    if dead := [one for one in tickers if one.decode() not in living]:
        pipe.zrem(tickers_key(), *dead)
    away = before.away
    if not is_given:
        away = ticker_away(now_ms, before.seen_ms or None, away)
        pipe.hset(_ticker(), mapping={"seen_ms": now_ms, **away._asdict()})
        if name:
            pipe.zadd(tickers_key(), {name: now_ms})
    if len(pipe):
        pipe.execute()
    return Share(Ticker(now_ms, away), tuple(sorted(living)))


def ticker_ends(name: str) -> None:
    """Others take over what was its share at once."""
    sync_client().zrem(tickers_key(), name)


def tickers_key() -> str:
    """Of the tickers, by when they gave their last sign of life."""
    return own_key("tickers")


def living_of(now_ms: int, tickers: Iterable[tuple[bytes, float]]) -> set[str]:
    """One whose sign lies in the future gave it before the clock was set back."""
    return {name.decode() for name, at_ms in tickers if abs(now_ms - at_ms) <= TICKER_AWAY_MS}


def last_ticker() -> Ticker:
    """Of whoever said so last; `seen_ms` is 0 when nobody ever did."""
    return _ticker_in(sync_client().hmget(_ticker(), *_OF_TICKER))


class LastTicker:
    """`last_ticker`, for whoever reads many groups one after the other."""

    def __init__(self) -> None:
        self._found, self._asked_s = NO_TICK, -math.inf

    def __call__(self) -> Ticker:
        if (now_s := time.monotonic()) - self._asked_s >= TICKER_KNOWN_S:
            self._found, self._asked_s = last_ticker(), now_s
        return self._found


def _ticker_in(known: Sequence[bytes | None]) -> Ticker:
    seen_ms, *away = (int(value or 0) for value in known)
    return Ticker(seen_ms, Gap(*away))
