"""The cells of a group as its browsers have them, against what they are now.

Pure.
"""

from collections.abc import Sequence

import numpy as np

from dashboard.live.cells import NOT_NAMED, Cells
from dashboard.live.ownership import NOBODY, Whole
from dashboard.live.progress import UNKNOWN

CHECK_MODULO = 1_000_003
COLUMNS = ("owner", "fence", "state", "since", "lag")  # what browsers are told of a cell

Cell = tuple[int, str | None, int | None, int, int | None, int | None]


class Told:
    """The cells as browsers have them."""

    def __init__(self, cells: Cells) -> None:
        self._names = cells.names
        self._columns = {name: getattr(cells, name).copy() for name in COLUMNS}
        self._lag_read_ms = _lag_read_ms(cells)

    @property
    def size(self) -> int:
        return len(self._columns["owner"])

    @property
    def lag_read_ms(self) -> int:
        """Each lag that browsers have was still so then; by the clock of Redis."""
        return int(self._lag_read_ms.min())

    def against(self, cells: Cells) -> tuple[list[int], list[int]]:
        """Numbers of cells that changed, and of those whose lag did and nothing else."""
        self._fit(cells)
        most = min(self.size, len(cells))
        other = {n: self._columns[n][:most] != getattr(cells, n)[:most] for n in COLUMNS}
        lag = other.pop("lag")
        np.copyto(self._lag_read_ms[:most], _lag_read_ms(cells)[:most], where=~lag)
        changed = np.any(list(other.values()), axis=0)
        return np.flatnonzero(changed).tolist(), np.flatnonzero(lag & ~changed).tolist()

    def take(self, cells: Cells, numbers: Sequence[int]) -> None:
        for name, column in self._columns.items():
            column[numbers] = getattr(cells, name)[numbers]
        self._lag_read_ms[numbers] = _lag_read_ms(cells)[numbers]

    def _fit(self, cells: Cells) -> None:
        """A cell that no browser has is of nobody that there is."""
        more = max(0, len(cells) - self.size)
        if more:
            self._columns = {n: np.pad(c, (0, more)) for n, c in self._columns.items()}
            self._columns["owner"][-more:] = NOT_NAMED
            self._lag_read_ms = np.pad(self._lag_read_ms, (0, more), constant_values=cells.now_ms)
        if self._names is not cells.names:
            numbers = {name: i for i, name in enumerate(cells.names)}
            renamed = [numbers.get(name, NOT_NAMED) for name in self._names]
            self._columns["owner"] = np.array([*renamed, NOT_NAMED, NOBODY], np.int32)[
                self._columns["owner"]
            ]
            self._names = cells.names


def _lag_read_ms(cells: Cells) -> Whole:
    """What is not known is never old."""
    found: Whole = np.where(cells.lag == UNKNOWN, cells.now_ms, cells.read_ms)
    return found


def cells_of(cells: Cells, numbers: Sequence[int] | None = None) -> list[Cell]:
    """Of these partitions, or of all."""
    chosen = np.arange(len(cells)) if numbers is None else np.array(numbers, np.int64)
    names = cells.names
    columns = (getattr(cells, name)[chosen].tolist() for name in COLUMNS)
    return [
        (
            *(n, None if owner == NOBODY else names[owner], fence or None, state),
            *(since_ms or None, None if lag == UNKNOWN else lag),
        )
        for n, owner, fence, state, since_ms, lag in zip(chosen.tolist(), *columns, strict=True)
    ]


def check_of(cells: Cells) -> int:
    """A sum by which a page sees that its cells are not the server's."""
    sums = _weighted(cells.state.astype(np.int64)) + cells.fence % CHECK_MODULO
    return int(sums.sum()) % CHECK_MODULO


def lag_check_of(cells: Cells) -> int:
    """The same of lag; 0 of what is not known."""
    return int(_weighted(cells.lag % CHECK_MODULO).sum()) % CHECK_MODULO


def _weighted(values: Whole) -> Whole:
    weighted: Whole = np.arange(1, len(values) + 1) * (values + 1)
    return weighted
