"""What pages and sockets show of a group: one state a group and process, which all of them share.

Uses no SQL.
"""

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from django.conf import settings

from assignment.scripts.group_read import NO_TICK, Ticker
from dashboard.live.cells import LivePartition
from dashboard.live.connection import ANSWER_TIMEOUT_S, StoreUnavailable
from dashboard.live.deadline import left_s
from dashboard.live.following import Following, GroupNotThere
from dashboard.live.reading import NOTHING_ANSWERED, Answered, Stream, progress_of, read_each
from dashboard.live.snapshot import LiveSnapshot

FRESH_MS = 1_000  # of lag, offset and commit in a row
KEPT_PARTITIONS_MAX = 200_000  # of all groups together, some 100 MB


class _Shared:
    """Who asks while another one reads gets what is read after it asked, not one reading each."""

    def __init__(self, group: str) -> None:
        self.following = Following(group)
        self.last: LiveSnapshot | None = None
        self.size = 0  # partitions, as they count in `_size`
        self._reading = threading.Lock()
        self._began_s = 0.0  # the last reading that was whole
        self._was_whole = self._had_progress = False

    def snapshot(
        self,
        whole: bool,
        progress: bool,
        ticker: Ticker = NO_TICK,
        answered: Answered = NOTHING_ANSWERED,
    ) -> LiveSnapshot:
        asked_s = time.monotonic()
        with self._alone():
            has_all = (self._was_whole or not whole) and (self._had_progress or not progress)
            if self.last is None or self._began_s <= asked_s or not has_all:
                began_s = -math.inf if answered else time.monotonic()  # when is not known
                self.last = self.following.look(
                    whole=whole, progress=progress, ticker=ticker, answered=answered
                )
                self._began_s, self._was_whole, self._had_progress = began_s, whole, progress
            return self.last

    def read_progress(self) -> None:
        with self._alone():
            self.following.read_progress()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._reading.acquire(timeout=left_s(ANSWER_TIMEOUT_S)):
            raise StoreUnavailable(f"group {self.following.group!r} takes too long to be read")
        try:
            yield
        finally:
            self._reading.release()


_groups: OrderedDict[tuple[str, str], _Shared] = OrderedDict()  # by server and group, oldest first
_size = 0  # of them all, in partitions
_keeping = threading.Lock()


def last_snapshot(group: str) -> LiveSnapshot | None:
    """What this process saw of the group when Redis answered last; None when it never did."""
    known = _groups.get((settings.REDIS_URL, group))
    return known.last if known else None


def snapshot(
    group: str,
    *,
    whole: bool = False,
    progress: bool = True,
    ticker: Ticker = NO_TICK,
    answered: Answered = NOTHING_ANSWERED,
) -> LiveSnapshot:
    """As of now, but lag, offsets and commits as of the cells' `read_ms`; with `whole` all of it.
    Without `progress` it comes sooner; the caller shows it and then calls `read_progress`. Raises
    StoreUnavailable, GroupNotThere. `ticker`: who ticked last, where the caller knows it.
    `answered`: of just now (`answers`).
    """
    shared = _shared(group)
    try:
        return shared.snapshot(whole, progress, ticker, answered)
    except GroupNotThere:
        with _keeping:
            _drop((settings.REDIS_URL, group))
        raise
    finally:
        _weigh((settings.REDIS_URL, group))


def answers(groups: Mapping[str, Stream]) -> Answered:
    """What is to be read for whole snapshots of these, as far as one trip has it: of a cluster,
    nothing where a node does not answer, and then each is read by itself.
    """
    asked = (_shared(group).following.question(stream) for group, stream in groups.items())
    try:
        return read_each([one for one in asked if one is not None])
    except StoreUnavailable:
        return NOTHING_ANSWERED


def read_progress(group: str) -> None:
    """Reads lag, offsets and commits for the next snapshot, if there was one. Raises
    StoreUnavailable.
    """
    if (shared := _groups.get((settings.REDIS_URL, group))) is not None:
        shared.read_progress()


def rows(snapshot: LiveSnapshot, numbers: Sequence[int]) -> list[LivePartition]:
    """As of now: what was read before is read again. Where Redis does not answer any more they say
    how old they are. `numbers`: some hundreds.
    """
    cells = snapshot.partitions
    old = [number for number in numbers if cells.age_ms(number) > FRESH_MS]
    if old:
        with suppress(StoreUnavailable):
            cells = cells.read_again(progress_of(snapshot.group, cells.stream, old), old)
    return [cells[number] for number in numbers]


def _shared(group: str) -> _Shared:
    key = settings.REDIS_URL, group
    with _keeping:
        found = _groups.setdefault(key, _Shared(group))
        _groups.move_to_end(key)
        return found


def _weigh(key: tuple[str, str]) -> None:
    """It may be larger now: the oldest make room."""
    global _size
    with _keeping:
        if shared := _groups.get(key):
            size = len(shared.last.partitions) if shared.last else 0
            shared.size, _size = size, _size + size - shared.size
        while _size > KEPT_PARTITIONS_MAX and len(_groups) > 1:
            _drop(next(iter(_groups)))


def _drop(key: tuple[str, str]) -> None:
    global _size
    if shared := _groups.pop(key, None):
        _size -= shared.size
