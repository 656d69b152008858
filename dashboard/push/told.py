"""The cells of a group as its browsers have them, against what they are now.

Pure.
"""

from collections.abc import Sequence

import numpy as np

from dashboard.live.cells import NOT_NAMED, Cells
from dashboard.live.ownership import NOBODY

COLUMNS = ("owner", "fence", "state", "since", "lag")  # what browsers are told of a cell


class Told:
    """The cells as browsers have them."""

    def __init__(self, cells: Cells) -> None:
        self._names = cells.names
        self._columns = {name: getattr(cells, name).copy() for name in COLUMNS}

    @property
    def size(self) -> int:
        return len(self._columns["owner"])

    def against(self, cells: Cells) -> tuple[list[int], list[int]]:
        """Numbers of cells that changed, and of those whose lag did and nothing else."""
        self._fit(cells)
        most = min(self.size, len(cells))
        other = {n: self._columns[n][:most] != getattr(cells, n)[:most] for n in COLUMNS}
        lag = other.pop("lag")
        changed = np.any(list(other.values()), axis=0)
        return np.flatnonzero(changed).tolist(), np.flatnonzero(lag & ~changed).tolist()

    def take(self, cells: Cells, numbers: Sequence[int]) -> None:
        for name, column in self._columns.items():
            column[numbers] = getattr(cells, name)[numbers]

    def _fit(self, cells: Cells) -> None:
        """A cell that no browser has is of nobody that there is."""
        more = max(0, len(cells) - self.size)
        if more:
            self._columns = {n: np.pad(c, (0, more)) for n, c in self._columns.items()}
            self._columns["owner"][-more:] = NOT_NAMED
        if self._names is not cells.names:
            numbers = {name: i for i, name in enumerate(cells.names)}
            renamed = [numbers.get(name, NOT_NAMED) for name in self._names]
            self._columns["owner"] = np.array([*renamed, NOT_NAMED, NOBODY], np.int32)[
                self._columns["owner"]
            ]
            self._names = cells.names
