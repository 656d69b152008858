"""Who did or tried what to what, and why: one entry per action, chained (chain.py), only added."""

import getpass
import inspect
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from django.db import DatabaseError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from assignment.errors import EvenkeelError
from dashboard.actions.roles import EVERYTHING, Rights
from dashboard.live.connection import StoreUnavailable
from dashboard.models import AuditEntry, AuditSource, Group
from dashboard.records import chain, stored
from dashboard.records.floods import STRANGERS, Floods, Kind
from dashboard.records.queries.pages import Filters, narrowed

REASON_MAX = stored.REASON_MAX
FOUND = "found"  # by Evenkeel itself
RESULTS = DONE, REFUSED, DENIED, FAILED = "done", "refused", "denied", "failed"  # a first word
AUTOMATIC = "evenkeel"  # the actor when nobody asked
WIPED, WRITES_LOST = "redis wiped", "writes lost"
QUARANTINED = "quarantined"  # what a member wrote and nobody can read is left out
LOSSES = {  # action -> reason
    WIPED: "this Redis does not know the group any more",
    WRITES_LOST: "Redis was restarted or replaced: its last writes may be gone",
}

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class By:
    """Who did it, by which way, why, from which address when there was one, and what such a one
    may: the one value in which all that travels, from whoever is asked to what is put on record.
    Without `rights` it is the system itself, or who runs its machine; a page says them, in
    `pages.views.base.by` alone. `token`: the name of the actor's own that was shown to the API.
    `is_stranger`: `actor` is only what somebody says, or nothing.
    """

    actor: str
    source: AuditSource | str
    reason: str = ""
    _: KW_ONLY
    address: str = ""
    token: str = ""
    rights: Rights = EVERYTHING
    is_stranger: bool = False

    @property
    def kept_reason(self) -> str:
        """As much of it as rows keep."""
        return self.reason[:REASON_MAX]


def automatically(reason: str) -> By:
    return By(AUTOMATIC, AuditSource.AUTOMATIC, reason)


# --- writing --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Waiting:
    """Entries of a transaction, until its end; `tried` those that stay when it is taken back."""

    all: list[AuditEntry]
    tried: list[AuditEntry]


class _OfThread(threading.local):
    waiting: _Waiting | None = None  # outside of `atomic`


_thread = _OfThread()


@contextmanager
def atomic() -> Iterator[None]:
    """transaction.atomic whose entries are chained by its last statements: the head of the chain,
    which all writers wait for, is never locked while something else is done.

    What was only tried stays on record when everything else is taken back.
    """
    outer, mine = _thread.waiting, _Waiting([], [])
    _thread.waiting = mine
    try:
        with transaction.atomic():
            yield
            if outer is None:
                chain.append(mine.all)
    except BaseException:
        mine.all = mine.tried
        if outer is None:
            _append_anyway(mine.tried)
        raise
    finally:
        _thread.waiting = outer
        if outer is not None:
            outer.all += mine.all
            outer.tried += mine.tried


def _append_anyway(entries: list[AuditEntry]) -> None:
    """Behind an error that is told already."""
    try:
        chain.append(entries)
    except DatabaseError:
        log.exception("not on record: %s", [str(entry) for entry in entries])


def record(
    by: By,
    action: str,
    group: Group | str | None = None,
    *,
    object: str = "",
    before: Any = None,
    after: Any = None,
    result: str = DONE,
) -> None:
    """`object` is the group itself when it is not named. `before` and `after` are JSON values; of
    changed settings only those that changed. In a transaction to be called inside of `atomic`.
    """
    entry = _entry(by, action, str(group or ""), object, result)
    entry.before, entry.after = before, after
    _keep(entry)


def _entry(by: By, action: str, group: str, object: str, result: str) -> AuditEntry:
    return AuditEntry(
        at=timezone.now(),
        actor=_text(by.actor, stored.ACTOR_MAX),
        address=_text(by.address, stored.ADDRESS_MAX),
        action=_text(action, stored.ACTION_MAX),
        object=_text(object or group, stored.OBJECT_MAX),
        group=_text(group, stored.GROUP_MAX),
        reason=_text(by.reason, REASON_MAX),
        source=AuditSource(by.source),
        token=_text(by.token, stored.TOKEN_MAX),
        result=_text(result, stored.RESULT_MAX),
    )


def _keep(entry: AuditEntry, *, is_tried: bool = False) -> None:
    if _thread.waiting is None:
        chain.append([entry])
        return
    _thread.waiting.all.append(entry)
    if is_tried:
        _thread.waiting.tried.append(entry)


def _text(value: str, most: int) -> str:
    """As every database can hold it."""
    return value.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")[:most]


def tried(
    by: By, action: str, group: Group | str | None = None, *, object: str = "", result: str
) -> None:
    """What did not happen: refused, denied, failed. Floods of the same are counted."""
    entry = _entry(by, action, str(group or ""), object, result)
    kind = Kind(*(getattr(entry, name) for name in Kind.__dataclass_fields__))
    admitted = floods.admit(kind, STRANGERS if by.is_stranger else kind.actor)
    if admitted == kind:
        _keep(entry, is_tried=True)
    elif admitted is not None:
        _write_many(admitted, 1, timezone.now(), timezone.now())


def found_first(by: By, action: str, group: Group, kind: str) -> bool:
    """What was found wrong. False: something of that kind was a moment ago, and it is counted."""
    named = f"{group.name} {kind}"
    found = Kind(by.actor, by.address, action, named, group.name, FOUND)
    admitted = floods.admit(found, f"group {group.name}")  # no group hides another's
    if admitted is not None:
        record(by, action, group, after={"kind": kind}, result=FOUND)
    return admitted is not None


def denied(
    by: By, action: str, group: Group | str | None = None, *, why: str, object: str = ""
) -> None:
    """Somebody tried what they have no right to."""
    tried(by, action, group, object=object, result=f"{DENIED}: {why}")


def _write_many(kind: Kind, count: int, first: datetime, last: datetime) -> None:
    by = By(kind.actor, AuditSource.AUTOMATIC, "the same again, counted", address=kind.address)
    entry = _entry(by, kind.action, kind.group, kind.object, kind.result)
    entry.count, entry.after = count, {"first": _iso(first), "last": _iso(last)}
    _keep(entry, is_tried=True)


def remove_before(moment: datetime) -> int:
    """Retention: how many entries went. To be asked for a chain that holds."""
    by = by_whoever_acts()
    entry = _entry(by, stored.CHECKPOINT, "", "audit", DONE)
    entry.reason = f"entries before {_iso(moment)} are kept no longer"
    return chain.checkpoint(entry, moment)


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")


floods = Floods(_write_many)


def attempted(
    action: str, *, in_group: bool = True, named: Callable[[Any], str] = str
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Of a function whose first argument says what it acts on (`in_group`: it is a group, or of
    one; else `named` says what) and whose `by` says who asks: what it refuses, or fails at, is on
    record, although everything else is taken back.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)

        @wraps(function)
        def attempt(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return function(*args, **kwargs)
            except EvenkeelError as error:
                bound = signature.bind(*args, **kwargs).arguments
                target, by = next(iter(bound.values())), bound["by"]
                if not getattr(error, "is_on_record", False):  # an action may be part of another
                    word = FAILED if isinstance(error, StoreUnavailable) else REFUSED
                    result = f"{word}: {error}"
                    if in_group:
                        tried(by, action, _group_of(target), result=result)
                    else:
                        tried(by, action, object=named(target), result=result)
                    error.is_on_record = True  # type: ignore[attr-defined]
                raise

        return attempt

    return decorate


def _group_of(target: Any) -> str:
    """Of a group, its name, or what belongs to one."""
    if isinstance(target, str):
        return target
    return str(target.name if isinstance(target, Group) else target.group.name)


# --- who acts, where nobody says so ---------------------------------------------------------------

acting: ContextVar[Callable[[], By] | None] = ContextVar("acting", default=None)


def by_whoever_acts() -> By:
    """The person of the request that is answered, or the one who runs the command."""
    known = acting.get()
    if known is not None:
        return known()
    try:
        return By(getpass.getuser(), AuditSource.COMMAND)
    except (OSError, KeyError):  # a user id without a name
        return By("unknown", AuditSource.COMMAND)


# --- the list -------------------------------------------------------------------------------------


def losses(group: Group) -> QuerySet[AuditEntry]:
    """What its Redis forgot, the newest first."""
    return group.audit.filter(action__in=LOSSES)


def found(filters: Filters) -> QuerySet[AuditEntry]:
    """In the order of the chain, where no row can be put first behind its back."""
    return narrowed(
        AuditEntry.objects.order_by("-seq"),
        actor__icontains=filters.actor,
        action=filters.action,
        object__icontains=filters.object,
        group=filters.group,
        result__startswith=filters.result,
        at__gte=_moment(filters.from_ms),
        at__lt=_moment(filters.to_ms),
        seq__lt=filters.before,
    )


def _moment(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC)


def actions() -> list[str]:
    """Those that occurred, for the filter's choice."""
    names = AuditEntry.objects.order_by().values_list("action", flat=True).distinct()
    return sorted(names[:100])
