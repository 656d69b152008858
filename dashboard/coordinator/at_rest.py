"""Which groups would rest by their rows and by what was kept of their last looks, from round to
round: only what changed is gone through, so a round costs what changes and not what there is.
"""

from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import msgspec

from assignment.coordinator.resting import Rest
from dashboard.coordinator.rows import Row

SPARE_MAX = 1_000  # moments that do not count any more, beside as many as count


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """`digest`: of the row then. `until_ms`: then it is looked at, asked or not. `since_ms`: the
    first of the looks after which it rests as it does. `waits`: it does not rest, but for others.
    """

    rest: Rest
    digest: int
    until_ms: int
    since_ms: int
    waits: bool = False


def read(text: bytes) -> Kept | None:
    """None: it is of another version."""
    try:
        return _decoder.decode(text)
    except msgspec.MsgspecError:
        return None


_decoder = msgspec.json.Decoder(Kept)
Stored = Callable[[], tuple[Mapping[str, Kept], Set[str]]]


class AtRest:
    """`stored`: what is kept, and of which groups it is another than when it was asked before.

    `names`: the share. `kept`: of all groups. `rests`: of those of the share that would rest.
    `changed`: whose rest is another, or none, since somebody cleared it.
    """

    def __init__(self, stored: Stored) -> None:
        self.names: Set[str] = frozenset()
        self.kept: Mapping[str, Kept] = {}
        self.rests: dict[str, Rest] = {}
        self.changed = set[str]()
        self._stored = stored
        self._share: Collection[str] = ()
        self._rows: Mapping[str, Row] = {}
        self._moments: list[tuple[int, str]] = []  # a heap
        self._due = set[str]()

    def bring_forward(self, rows: Mapping[str, Row], share: Collection[str]) -> None:
        """`rows`: of all groups. `share`: of their names; of either, the same object is known to be
        the same. Raises StoreUnavailable.
        """
        self.kept, new = self._stored()
        changed = set(new)
        if share is not self._share:
            before, self._share, self.names = self.names, share, frozenset(share)
            changed |= before ^ self.names
        if rows is not self._rows:
            before_rows, self._rows = self._rows, rows
            if rows != before_rows:
                both = rows.keys() | before_rows.keys()
                changed |= {name for name in both if rows.get(name) != before_rows.get(name)}
        self.changed |= changed
        for name in changed:
            self._note(name)
        if len(self._moments) > 2 * len(self.rests) + SPARE_MAX:
            self._moments = [(self.kept[name].until_ms, name) for name in self.rests]
            heapify(self._moments)

    def _note(self, name: str) -> None:
        self._due.discard(name)
        kept = self.kept.get(name) if name in self.names else None
        if kept is None or self._rows[name].digest not in (None, kept.digest):
            self.rests.pop(name, None)
            return
        self.rests[name] = kept.rest
        heappush(self._moments, (kept.until_ms, name))

    def due(self, now_ms: int) -> set[str]:
        """Those that would rest, and are looked at nevertheless."""
        while self._moments and self._moments[0][0] <= now_ms:
            _, name = heappop(self._moments)
            if name in self.rests and self.kept[name].until_ms <= now_ms:
                self._due.add(name)
        return self._due.copy()
