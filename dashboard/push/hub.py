"""One per process and group: waits for the log of its locks while somebody watches, and tells every
watcher the same numbered frames.

Bounded: one read at a time and at most five frames a second; at most WAITING_MAX frames wait for
one browser, then they are replaced by the word that it should fetch a snapshot; at most
FOLLOWED_MAX groups wait at Redis. Uses no SQL.
"""

import asyncio
import contextlib
import json
import logging
from functools import partial
from weakref import WeakKeyDictionary

from dashboard.live import watching
from dashboard.live.awaiting import has_event
from dashboard.live.connection import StoreUnavailable
from dashboard.live.deadline import within
from dashboard.live.push import channel_group, listen
from dashboard.push.frames import Changes, Json
from dashboard.web.counts import MANY_CHANGES, SLOW_BROWSER, counts

# Five a second: of four (dashboard.md section 3) a change waits up to 250 ms for the next, before
# anything is done with it, and nineteen of twenty are to be on the screen within 300 ms.
FRAME_EVERY_S = 0.2
READ_EVERY_S = 1.0  # without an event, or a word of the channel layer: lag, and what members said
FOLLOWED_MAX = 16  # each keeps a connection; the others are read every READ_EVERY_S
# A group that is slow to read is read no more than a quarter of the time, and its progress apart.
REST_SHARE = 3
BEAT_EVERY_S = 2.0  # silence longer than a few of these is a broken connection
WAITING_MAX = 16
NOT_READ = "the dashboard failed to read this group: its log says why"
WATCHERS_MAX = 1_000  # of one group in one process, twice the browsers aimed at

log = logging.getLogger(__name__)


class Watcher:
    """One browser's end: frames that wait to be sent to it."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[str] = asyncio.Queue(WAITING_MAX)

    def tell(self, text: str, instead: str) -> bool:
        """`instead` takes the place of everything that waits when there is no room: False then."""
        try:
            self.waiting.put_nowait(text)
            return True
        except asyncio.QueueFull:
            while not self.waiting.empty():
                self.waiting.get_nowait()
            self.waiting.put_nowait(instead)
            return False


class TooManyWatchers(Exception):
    """This process serves as many browsers for the group as it may."""


class Hub:
    def __init__(self, group: str, places: asyncio.Semaphore) -> None:
        """`places`: to wait at Redis, of all hubs of the loop."""
        self.group = group
        self.sequence = 0
        self._places = places
        self._position = ""  # in the log, as it was read last
        self._was_read = asyncio.Event()
        self._watchers: set[Watcher] = set()
        self._changes: Changes | None = None
        self._problem = self._progress_problem = ""
        self._progress_at = 0.0  # not before
        self._told_at = 0.0
        self._framed_at = 0.0
        self._changed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    @property
    def watchers(self) -> int:
        return len(self._watchers)

    def join(self) -> Watcher:
        if len(self._watchers) >= WATCHERS_MAX:
            raise TooManyWatchers(self.group)
        watcher = Watcher()
        watcher.waiting.put_nowait(self._text({"type": "hello"}))
        self._watchers.add(watcher)
        counts.opened(self.group, len(self._watchers))
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())
        return watcher

    def part(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)
        counts.opened(self.group, len(self._watchers))
        if not self._watchers and self._running is not None:
            self._running.cancel()
            self._running = None
            self._changes = None

    async def _run(self) -> None:
        # What the channel layer and the log say is read from Redis anyway; they only say when.
        listener = asyncio.create_task(listen(channel_group(self.group), self._changed.set))
        follower = asyncio.create_task(self._follow())
        now_s = asyncio.get_running_loop().time
        try:
            while True:
                began_s = now_s()
                await self._read()
                took_s = now_s() - began_s
                await asyncio.sleep(self._framed_at + FRAME_EVERY_S - now_s())
                is_more, told_s = await self._tell(), now_s()
                await self._read_progress()
                every_s = max(FRAME_EVERY_S, (1 + REST_SHARE) * took_s)
                await asyncio.sleep(told_s + every_s - took_s - now_s())
                if not is_more:
                    await self._wait_for_change(READ_EVERY_S - FRAME_EVERY_S)
        finally:
            listener.cancel()
            follower.cancel()

    async def _wait_for_change(self, seconds: float) -> None:
        """Until the log or the channel layer says so."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def _follow(self) -> None:
        """Wakes the reading with the first event that it lacks."""
        async with self._places:
            while True:
                await self._was_read.wait()
                self._was_read.clear()
                with contextlib.suppress(StoreUnavailable):  # the next reading says so
                    if await has_event(self.group, self._position):
                        self._changed.set()
                    else:
                        self._was_read.set()

    async def _read(self) -> None:
        """Locks first: they are told although progress cannot be read, and do not wait for it."""
        self._changed.clear()
        try:
            look = partial(within()(watching.snapshot), self.group, progress=False)
            snapshot = await asyncio.to_thread(look)
        except StoreUnavailable as error:
            self._problem = str(error)
            return
        except Exception:
            log.exception("group=%s cannot be read", self.group)
            self._problem = NOT_READ
            return
        self._problem, self._position = "", snapshot.position
        self._was_read.set()
        if self._changes is None:
            self._changes = Changes(snapshot)
        else:
            self._changes.feed(snapshot)

    async def _read_progress(self) -> None:
        """With what changes all the time, now that the locks are told."""
        now_s = asyncio.get_running_loop().time
        began_s = now_s()
        if self._problem or began_s < self._progress_at:
            return
        try:
            await asyncio.to_thread(within()(watching.read_progress), self.group)
            self._progress_problem = ""
        except StoreUnavailable as error:
            self._progress_problem = str(error)
        except Exception:
            log.exception("group=%s: its progress cannot be read", self.group)
            self._progress_problem = NOT_READ
        self._progress_at = now_s() + REST_SHARE * (now_s() - began_s)

    async def _tell(self) -> bool:
        """One frame at most. Whether more is left to tell."""
        changes = self._changes
        if self._problem or changes is None:
            self._beat()
            return False
        if changes.is_too_much:
            changes.forget()
            counts.resynced(self.group, MANY_CHANGES, self._broadcast({"type": "resync"}))
            return False
        frame = changes.frame()
        if frame is None:
            self._beat()
            return False
        self.sequence += 1
        self._framed_at = asyncio.get_running_loop().time()
        trouble = {"problem": self._progress_problem} if self._progress_problem else {}
        counts.told(self.group, self._broadcast(frame | changes.marks() | trouble))
        return not changes.is_owners_told

    def _beat(self) -> None:
        if asyncio.get_running_loop().time() - self._told_at < BEAT_EVERY_S:
            return
        beat: Json = {"type": "beat"}
        if problem := self._problem or self._progress_problem:
            beat["problem"] = problem
        if not self._problem and self._changes is not None:
            beat |= self._changes.marks()
        self._broadcast(beat)

    def _broadcast(self, frame: Json) -> int:
        """How many browsers had room for it."""
        text, instead = self._text(frame), self._text({"type": "resync"})
        self._told_at = asyncio.get_running_loop().time()
        told = sum([watcher.tell(text, instead) for watcher in self._watchers])
        if slow := len(self._watchers) - told:
            counts.resynced(self.group, SLOW_BROWSER, slow)
        return told

    def _text(self, frame: Json) -> str:
        at_ms = self._changes.at_ms if self._changes else 0
        return json.dumps({"at_ms": at_ms, **frame, "seq": self.sequence}, separators=(",", ":"))


class _Hubs(dict[str, Hub]):
    """Of one loop."""

    def __init__(self) -> None:
        super().__init__()
        self._places = asyncio.Semaphore(FOLLOWED_MAX)

    def __missing__(self, group: str) -> Hub:
        hub = self[group] = Hub(group, self._places)
        return hub


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, _Hubs] = WeakKeyDictionary()


def hub_of(group: str) -> Hub:
    """The running loop's hub of the group."""
    hubs = _hubs.setdefault(asyncio.get_running_loop(), _Hubs())
    for name in [name for name, hub in hubs.items() if not hub.watchers and name != group]:
        del hubs[name]
    return hubs[group]
