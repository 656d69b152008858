"""A group's partitions as one strip: whose they are, and which change hands. Drawn as rectangles of
an SVG, so that a page shows it without a script.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from dashboard.records.planned import PlannedMove

CELLS_MAX = 1_200  # no screen shows more side by side; then each stands for several partitions


class Rect(NamedTuple):
    """Of a strip that is 1000 wide. `member` "": nobody."""

    x: str
    width: str
    member: str
    is_later: bool


def moved(partitions: int, moves: Iterable[PlannedMove]) -> list[Rect]:
    """Only what changes hands, in the colour of who gets it."""
    by_number = {move.number: (move.taker, move.is_later) for move in moves}
    return _rects(partitions, by_number.get)


def owned(owners: Sequence[str | None]) -> list[Rect]:
    """All that somebody has."""
    return _rects(len(owners), lambda number: (owners[number] or "", False))


def _rects(partitions: int, cell: Callable[[int], tuple[str, bool] | None]) -> list[Rect]:
    """Neighbours that look the same are one. Of the partitions of a cell the first one is shown
    that has anything to show.
    """
    if not partitions:
        return []
    step = -(-partitions // CELLS_MAX)
    cells: list[tuple[str, bool] | None] = []
    for low in range(0, partitions, step):
        several = (cell(number) for number in range(low, min(low + step, partitions)))
        cells.append(next((one for one in several if one is not None), None))
    wide = 1000 / len(cells)
    found = []
    for shown, run in groupby(enumerate(cells), key=_shown):
        numbers = [number for number, _ in run]
        if shown is not None:
            x, width = f"{numbers[0] * wide:.2f}", f"{len(numbers) * wide:.2f}"
            found.append(Rect(x, width, *shown))
    return found


def _shown(numbered: tuple[int, tuple[str, bool] | None]) -> tuple[str, bool] | None:
    return numbered[1]


def owners_of(rows: Mapping[str, Mapping[str, Sequence[int]]], partitions: int) -> list[str | None]:
    """Partition number -> its member by a target."""
    found: list[str | None] = [None] * partitions
    for member, roles in rows.items():
        for number in roles["active"]:
            found[number] = member
    return found


def before(after: Sequence[str | None], moves: Iterable[PlannedMove]) -> list[str | None]:
    """The owners from whom these moves lead there."""
    found = list(after)
    for move in moves:
        if not move.is_later:
            found[move.number] = move.giver or None
    return found
