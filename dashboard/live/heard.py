"""What members said and what they were told, remembered by its bytes: what is as it was is not
read anew. Of 100,000 partitions only the changes since a member's last complete report are.

Pure.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from assignment import columns, wire
from assignment.columns import Places
from assignment.scripts.group_read import GroupRead, MemberRow, read_member
from assignment.scripts.held import Holdings
from assignment.scripts.reports import Report, Said, StoredReport, read_said, report_of
from assignment.scripts.rows import each
from assignment.scripts.values import pairs_of, texts_of
from assignment.types import TargetRow
from dashboard.live.ownership import Index, Whole

T = TypeVar("T")
WHOLE_MS = 10_000  # all is read again, whatever is known
NOTHING_HELD = Holdings.of({})
Rows = Collection[tuple[str, bytes]]


class Known(NamedTuple):
    """What need not be read again."""

    since_ms: int  # reports of members that did not beat since; 0: none
    numbers: bytes  # the group's, as long as which targets are as they were


NOTHING_KNOWN = Known(0, b"")


class Claims(NamedTuple):
    """Which partitions one member says to hold: number, fence, index of STATES."""

    number: Index
    fence: Whole
    state: NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is the group's and its members', of one moment. Of `read` the partitions' mappings and
    the reports' `owned` are empty: they are in the arrays.
    """

    read: GroupRead
    claims: dict[str, Claims]
    targets: dict[str, Index]
    computes: bytes


class Remembered(Generic[T]):
    def __init__(self, read: Callable[[str, bytes], T]) -> None:
        self._read = read
        self._known: dict[str, tuple[bytes, T]] = {}

    def each(self, rows: Rows) -> tuple[dict[str, T], dict[str, str]]:
        """What could be read, and of what could not be why; the others are forgotten."""
        found, bad = each(rows, self.read)
        self._known = {name: (raw, found[name]) for name, raw in rows if name in found}
        return found, bad

    def read(self, name: str, raw: bytes) -> T:
        known = self._known.get(name)
        return known[1] if known and known[0] == raw else self._read(name, raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    """A report without its numbers; `said_first` and `claims_first`: of `complete` alone."""

    complete: bytes
    changes: bytes
    said_first: Said
    claims_first: Claims
    said: Said
    claims: Claims


class Heard:
    """Of one group, whose partitions are `stream`:0 up to `partitions`."""

    def __init__(self, stream: str, partitions: int) -> None:
        self._stream, self._partitions = stream, partitions
        self._bodies: dict[str, _Body] = {}
        self._whole_ms, self.known = 0, NOTHING_KNOWN
        self.said: dict[str, bytes] = {}  # by member, its report
        self.placed: Rows = ()  # its targets
        self.members: Remembered[MemberRow] = Remembered(read_member)
        self.targets: Remembered[tuple[TargetRow, Index]] = Remembered(self._target)
        self.reports: Remembered[tuple[Report, Claims]] = Remembered(self._report)

    def _report(self, member: str, raw: bytes) -> tuple[Report, Claims]:
        """The report without `owned`, which is in the claims."""
        stored = StoredReport.parse(raw)
        body = self._bodies.get(member)
        if body is None or (body.complete, body.changes) != (stored.complete, stored.changes):
            self._bodies[member] = body = self._body(stored, body)
        return report_of(stored, body.said, NOTHING_HELD), body.claims

    def _body(self, stored: StoredReport, before: "_Body | None") -> "_Body":
        if before is not None and before.complete == stored.complete:
            said, complete = before.said_first, before.claims_first
        else:
            said = read_said(stored.complete)
            complete = self.claims_of(_held(said.owned))
        first, claims = said, complete
        if stored.changes != b"{}":
            said = read_said(stored.changes)
            claims = self._changed(complete, said.owned)
        return _Body(
            complete=stored.complete,
            changes=stored.changes,
            said_first=first,
            claims_first=complete,
            said=said,
            claims=claims,
        )

    def claims_of(self, held: Holdings) -> Claims:
        number = self._index().at(held.places)
        is_one = number < self._partitions
        found = number[is_one], held.fence[is_one], held.state[is_one]
        return Claims(found[0].astype(np.int32), found[1], found[2].astype(np.uint8))

    def _index(self) -> columns.Index:
        return columns.Index(self._stream, self._partitions)

    def _changed(self, claims: Claims, told: Mapping[str, str | None]) -> Claims:
        if not told:
            return claims
        index = self._index()
        is_told = index.mask(index.at(Places.parse(list(told))))
        stay = ~is_told[claims.number]
        new = self.claims_of(_held(told))
        return Claims(
            np.concatenate((claims.number[stay], new.number)),
            np.concatenate((claims.fence[stay], new.fence)),
            np.concatenate((claims.state[stay], new.state)),
        )

    def _target(self, member: str, raw: bytes) -> tuple[TargetRow, Index]:
        """With the numbers of its active partitions."""
        row = wire.parse_target(raw.decode())
        return row, self.numbers_of(row)

    def numbers_of(self, row: TargetRow) -> Index:
        most, stream = self._partitions, self._stream
        numbers = [p.number for p in row.active if p.stream == stream and p.number < most]
        return np.array(numbers, np.int32)

    def take(self, now_ms: int, reports: Sequence[Any], target: Sequence[Any]) -> None:
        """As a reading has them, of which `known` was known."""
        numbers, *rows = target
        if rows:
            self.placed = pairs_of(rows[0])
        spoke, *more = reports
        if more:
            lacks = self._add(spoke, *more)
        else:
            self.said, lacks = dict(pairs_of(spoke)), False
        if rows and not more:
            self._whole_ms = now_ms
        is_due = lacks or now_ms - self._whole_ms >= WHOLE_MS
        self.known = NOTHING_KNOWN if is_due else Known(now_ms, numbers)

    def _add(self, spoke: Sequence[bytes], values: Sequence[Any], every: Sequence[bytes]) -> bool:
        """True: there is a report that nobody has read, of a member that did not beat."""
        known, names = self.said | dict(zip(texts_of(spoke), values, strict=True)), texts_of(every)
        self.said = {name: known[name] for name in names if name in known}
        return len(self.said) < len(names)

    def forget_all_but(self, members: Mapping[str, object]) -> None:
        self._bodies = {m: kept for m, kept in self._bodies.items() if m in members}


def _held(owned: Mapping[str, str | None]) -> Holdings:
    return Holdings.parse({name: text for name, text in owned.items() if text is not None})
