"""Attempts that come in floods: the first of a kind is one entry, the others are counted.

What was done is never coalesced; what was tried is: a stranger who tries passwords all night may
not fill the database. Each source has kinds of its own: all strangers together are one, each person
and each token is another, so nobody's flood hides what somebody else tried. Counted per process,
written once a minute and when a web process ends; one that is killed takes at most a minute's count
with it, never the first.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import DatabaseError, connection
from django.utils import timezone

WINDOW_S = 60.0
STRANGERS = None  # the source of whoever has not said, or not shown, who they are
STRANGERS_KINDS_MAX = 200  # in a window; then kinds are told more and more roughly
KINDS_MAX = 30  # of one person, or of one token
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
Kinds = dict[Kind, _Counted]


def _bounded(kind: Kind, kinds: Kinds, source: str | None) -> Kind:
    """The kind, or where there are too many a rougher one, and of those the roughest: of who is
    known never without who it was.
    """
    most = STRANGERS_KINDS_MAX if source is STRANGERS else KINDS_MAX
    if kind in kinds or len(kinds) < most:
        return kind
    rough = replace(kind, address="", object=MANY, result=kind.result.partition(":")[0])
    if source is STRANGERS:
        rough = replace(rough, actor=MANY, group="")
    if rough in kinds or len(kinds) < 2 * most:
        return rough
    return replace(rough, action=MANY, group="")


class Floods:
    def __init__(self, write: Write) -> None:
        self._write = write
        self._of: dict[str | None, Kinds] = {}  # by source
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def admit(self, kind: Kind, source: str | None) -> Kind | None:
        """What an entry is to be written for now; None: it is counted. `source`: the name of the
        person or the token that is known to be who tries it, or STRANGERS.
        """
        now = timezone.now()
        with self._lock:
            self._forget_quiet(now)
            kinds = self._of.setdefault(source, {})
            kind = _bounded(kind, kinds, source)
            counted = kinds.get(kind)
            if counted is None:
                kinds[kind] = _Counted(now)
                return kind
            counted.count += 1
            counted.first, counted.last = counted.first or now, now
            self._wake_later()
            return None

    def _wake_later(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(WINDOW_S, self._tell_later)
            self._timer.daemon = True
            self._timer.start()

    def tell(self) -> None:
        """Writes what was counted. Raises DatabaseError: then it stays counted."""
        with self._lock:
            due = [
                (kinds, kind, replace(counted))
                for kinds in self._of.values()
                for kind, counted in kinds.items()
                if counted.count
            ]
        for kinds, kind, counted in due:
            assert counted.first and counted.last
            self._write(kind, counted.count, counted.first, counted.last)
            with self._lock:
                if (now := kinds.get(kind)) and now.count == counted.count:
                    del kinds[kind]
                elif now:
                    now.count -= counted.count
                    now.first = counted.last

    def forget(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
            self._of.clear()

    def _forget_quiet(self, now: datetime) -> None:
        """Of which nothing came after the first for a whole window."""
        for source, kinds in list(self._of.items()):
            for kind, counted in list(kinds.items()):
                if not counted.count and (now - counted.began).total_seconds() > WINDOW_S:
                    del kinds[kind]
            if not kinds:
                del self._of[source]

    def _tell_later(self) -> None:
        with self._lock:
            self._timer = None
        try:
            self.tell()
        except DatabaseError as error:
            log.warning("attempts that were counted are not written yet: %s", error)
            with self._lock:
                self._wake_later()
        finally:
            connection.close()
