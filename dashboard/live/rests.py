"""What is kept of each group's last look (coordinator/resting.py): a hash of the dashboard's own,
and beside it a log of whose row changed, by which a process reads what is new to it and no more.
"""

import math
import time
from collections.abc import Callable, Collection, Mapping, Set
from threading import Lock
from typing import Any, Generic, TypeVar

from django.conf import settings

from dashboard.live.connection import own_key, sync_client

CHANGES_KEPT = 10_000  # whoever is further behind reads all
WHOLE_EVERY_S = 60.0  # in case somebody else wrote

T = TypeVar("T")


def keep(group: str, rest: bytes) -> None:
    pipe = sync_client().pipeline(transaction=True)
    _log(pipe.hset(_key(), group, rest), [group]).execute()


def forget(groups: Collection[str]) -> None:
    if groups:
        pipe = sync_client().pipeline(transaction=True)
        _log(pipe.hdel(_key(), *groups), groups).execute()


def _log(pipe: Any, groups: Collection[str]) -> Any:
    return pipe.xadd(_changes(), dict.fromkeys(groups, b""), maxlen=CHANGES_KEPT, approximate=True)


def kept_of(group: str) -> bytes | None:
    return sync_client().hget(_key(), group)  # type: ignore[no-any-return]


def _key() -> str:
    return own_key("rests")


def _changes() -> str:
    return own_key("rests_changed")


class Known(Generic[T]):
    """What this process has read. `read`: one row; None: of another version."""

    def __init__(self, read: Callable[[bytes], T | None]) -> None:
        self._read, self._lock = read, Lock()
        self._of: tuple[str, str] | None = None  # server and prefix
        self._last, self._whole_s = b"", -math.inf  # entry of the log; b"": it had none
        self._texts: dict[str, bytes] = {}
        self._rows: dict[str, T] = {}
        self._changed = set[str]()

    def all(self) -> Mapping[str, T]:
        """By group, as it is now. Raises StoreUnavailable."""
        with self._lock:
            self._bring_forward()
            return self._rows.copy()

    def news(self) -> tuple[Mapping[str, T], Set[str]]:
        """The same, and of which groups it is another than at the news before, or is gone."""
        with self._lock:
            self._bring_forward()
            changed, self._changed = self._changed, set()
            return self._rows.copy(), changed

    def _bring_forward(self) -> None:
        of = settings.REDIS_URL, _key()
        is_old = time.monotonic() - self._whole_s >= WHOLE_EVERY_S
        new = None if is_old or self._of != of else self._new()
        if new is None:
            self._read_whole()
            self._of = of
        elif new:
            changed = list({name: None for _, fields in new for name in fields})
            found = sync_client().hmget(_key(), changed)
            for name, text in zip(changed, found, strict=True):
                self._put(name.decode(), text)
            self._last = new[-1][0]

    def _new(self) -> list[Any] | None:
        """Entries of the log since the last time; None: that is not known."""
        if not self._last:
            return None
        known, *new = sync_client().xrange(_changes(), self._last, count=CHANGES_KEPT) or [None]
        is_there = known is not None and known[0] == self._last  # not trimmed, or lost
        return new if is_there and len(new) < CHANGES_KEPT - 1 else None

    def _read_whole(self) -> None:
        pipe = sync_client().pipeline(transaction=True)
        last, rows = pipe.xrevrange(_changes(), count=1).hgetall(_key()).execute()
        self._last, self._whole_s = last[0][0] if last else b"", time.monotonic()
        for name in self._texts.keys() - {name.decode() for name in rows}:
            self._put(name, None)
        for name, text in rows.items():
            self._put(name.decode(), text)

    def _put(self, name: str, text: bytes | None) -> None:
        """What is as it was stays the same object."""
        if self._texts.get(name) == text:
            return
        self._changed.add(name)
        self._texts.pop(name, None)
        self._rows.pop(name, None)
        if text is not None and (row := self._read(text)) is not None:
            self._texts[name], self._rows[name] = text, row
