"""What is kept of each group's last look (coordinator/resting.py): a hash of the dashboard's own,
and beside it a log of whose row changed, by which a process reads what is new to it and no more.
"""

import math
import time
from collections.abc import Callable, Collection, Mapping, Set
from functools import partial
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar

from django.conf import settings

from dashboard.live.connection import own_key, sync_client
from dashboard.live.together import Question, pack_script, way_to

CHANGES_KEPT = 10_000  # whoever is further behind reads all
NEW_MAX = 5_000  # rows of one answer; unpack takes at most 8,000
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


# Rows that changed after an entry of the log: {that entry if it is still there, the last one, names
# and rows}. {}: of so many the caller reads all. ARGV: the entry, how many to read, how many names.
_NEWS = """
local entries = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])
if #entries == tonumber(ARGV[2]) then return {} end
if #entries == 0 then return {'', '', {}, {}} end
local names, is_known = {}, {}
for i = 2, #entries do
  for j = 1, #entries[i][2], 2 do
    local name = entries[i][2][j]
    if not is_known[name] then names[#names + 1] = name end
    is_known[name] = true
  end
end
if #names > tonumber(ARGV[3]) then return {} end
local rows = #names > 0 and redis.call('HMGET', KEYS[2], unpack(names)) or {}
return {entries[1][1], entries[#entries][1], names, rows}
"""


class _News(NamedTuple):
    """`last`: entry of the log; b"": it had none. `rows`: of the names; all where `is_whole`."""

    of: tuple[str, str]  # server and prefix
    last: bytes
    rows: Mapping[bytes, bytes | None]
    is_whole: bool


def _place() -> tuple[str, str]:
    return settings.REDIS_URL, _key()


def _new(of: tuple[str, str], after: bytes, answers: list[Any]) -> _News | None:
    """None: that is not known."""
    [found] = answers
    if not found or found[0] != after:  # it was trimmed, or lost
        return None
    _, last, names, rows = found
    return _News(of, last, dict(zip(names, rows, strict=True)), False)


def _whole() -> _News:
    pipe = sync_client().pipeline(transaction=True)
    last, rows = pipe.xrevrange(_changes(), count=1).hgetall(_key()).execute()
    return _News(_place(), last[0][0] if last else b"", rows, True)


class Known(Generic[T]):
    """What this process has read. `read`: one row; None: of another version."""

    def __init__(self, read: Callable[[bytes], T | None]) -> None:
        self._read, self._lock = read, Lock()
        self._of: tuple[str, str] | None = None
        self._last, self._whole_s = b"", -math.inf
        self._texts: dict[str, bytes] = {}
        self._rows: dict[str, T] = {}
        self._changed = set[str]()
        self._asked: Question[_News | None] | None = None

    def all(self) -> Mapping[str, T]:
        """By group, as it is now. Raises StoreUnavailable."""
        with self._lock:
            self._bring_forward()
            return self._rows.copy()

    def asked(self) -> list[Question[Any]]:
        """What the next news are of, when it is asked; nothing where all is to be read."""
        self._asked = self._since()
        return [self._asked] if self._asked else []

    def news(self) -> tuple[Mapping[str, T], Set[str]]:
        """As `all`, and of which groups it is another than at the news before, or is gone."""
        with self._lock:
            self._bring_forward()
            changed, self._changed = self._changed, set()
            return self._rows.copy(), changed

    def _bring_forward(self) -> None:
        news = self._ask()
        if news.is_whole:
            self._whole_s = time.monotonic()
            for name in self._texts.keys() - {name.decode() for name in news.rows}:
                self._put(name, None)
        for row, text in news.rows.items():
            self._put(row.decode(), text)
        self._of, self._last = news.of, news.last

    def _ask(self) -> _News:
        asked, self._asked = self._asked or self._since(), None
        return (asked.answer() if asked else None) or _whole()

    def _since(self) -> Question[_News | None] | None:
        """Asks what is new since the last time, if that is known; None: nothing is known."""
        of = _place()
        is_old = time.monotonic() - self._whole_s >= WHOLE_EVERY_S
        if is_old or self._of != of or not self._last:
            return None
        keys = _changes(), _key()
        asked = pack_script(_NEWS, keys, self._last, CHANGES_KEPT, NEW_MAX)
        return Question(partial(way_to, keys[0]), asked, partial(_new, of, self._last))

    def _put(self, name: str, text: bytes | None) -> None:
        """What is as it was stays the same object."""
        if self._texts.get(name) == text:
            return
        self._changed.add(name)
        self._texts.pop(name, None)
        self._rows.pop(name, None)
        if text is not None and (row := self._read(text)) is not None:
            self._texts[name], self._rows[name] = text, row
