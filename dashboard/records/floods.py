"""Attempts that come in floods: the first of a kind is one entry, the others are counted.

What was done is never coalesced; what was tried is: a stranger who tries passwords all night may
not fill the database. Counted per process, written once a minute and when a web process ends; one
that is killed takes at most a minute's count with it, never the first.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import DatabaseError, connection
from django.utils import timezone

WINDOW_S = 60.0
KINDS_MAX = 200  # in a window; whatever else is tried then is counted by its action alone
MANY = "(many)"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kind:
    """What makes two attempts the same."""

    actor: str
    address: str
    action: str
    object: str
    group: str
    result: str


@dataclass(slots=True)
class _Counted:
    began: datetime
    first: datetime | None = None
    last: datetime | None = None
    count: int = 0


Write = Callable[[Kind, int, datetime, datetime], None]


class Floods:
    def __init__(self, write: Write) -> None:
        self._write = write
        self._kinds: dict[Kind, _Counted] = {}
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def admit(self, kind: Kind) -> Kind | None:
        """What an entry is to be written for now; None: it is counted."""
        now = timezone.now()
        with self._lock:
            self._forget_quiet(now)
            if kind not in self._kinds and len(self._kinds) >= KINDS_MAX:
                kind = Kind(MANY, "", kind.action, MANY, "", kind.result.partition(":")[0])
            counted = self._kinds.get(kind)
            if counted is None:
                self._kinds[kind] = _Counted(now)
                return kind
            counted.count += 1
            counted.first, counted.last = counted.first or now, now
            if self._timer is None:
                self._timer = threading.Timer(WINDOW_S, self._tell_later)
                self._timer.daemon = True
                self._timer.start()
            return None

    def tell(self) -> None:
        """Writes what was counted. Raises DatabaseError: then it stays counted."""
        with self._lock:
            due = {kind: replace(c) for kind, c in self._kinds.items() if c.count}
        for kind, counted in due.items():
            assert counted.first and counted.last
            self._write(kind, counted.count, counted.first, counted.last)
            with self._lock:
                if (now := self._kinds.get(kind)) and now.count == counted.count:
                    del self._kinds[kind]
                elif now:
                    now.count -= counted.count
                    now.first = counted.last

    def forget(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
            self._kinds.clear()

    def _forget_quiet(self, now: datetime) -> None:
        """Of which nothing came after the first for a whole window."""
        for kind, counted in list(self._kinds.items()):
            if not counted.count and (now - counted.began).total_seconds() > WINDOW_S:
                del self._kinds[kind]

    def _tell_later(self) -> None:
        with self._lock:
            self._timer = None
        try:
            self.tell()
        except DatabaseError as error:
            log.warning("attempts that were counted are not written yet: %s", error)
        finally:
            connection.close()
