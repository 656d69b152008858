"""What outlives a Redis that was wiped, where no database is: files beside the snapshots.

The highest incarnation, so that no fence comes again, in a file of its own for each: whoever stood
still between reading and writing takes nothing back. And each partition's newest snapshot
(agent.state.keeping). As safe as that folder: one that every member sees, unless all of them run on
one machine.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from agent.state.errors import StateError
from agent.state.keeping import read_manifest
from agent.state.places import is_below
from agent.state.snapshots import make_new, names_in, read_whole
from assignment.coordinator.facts import Mirror
from assignment.types import GroupSettings, Partition

INCARNATIONS = "incarnations"
BEFORE = "incarnation"  # one file with the highest, as an earlier version kept it
T = TypeVar("T")


class NotKept(StateError):
    """It cannot be written now; what was kept before is known."""


class Memory:
    """`folder`: local, or any fsspec URL."""

    def __init__(self, folder: str, group: str) -> None:
        self._folder, self._group = folder, group
        self._beside = "/".join((folder.rstrip("/"), group))
        self._kept = f"{self._beside}/{INCARNATIONS}"
        self._known = 0

    def highest(self) -> int:
        """Incarnation that is kept, as it was read last; 0: none."""
        return self._known or self._read()

    def keep(self, incarnation: int) -> bool:
        """False: that one or a higher was kept before. Raises NotKept; StateError as `highest`."""
        if incarnation <= self._known or incarnation <= self._read():
            return False
        try:
            make_new(f"{self._kept}/{incarnation}", str(incarnation).encode())
        except FileExistsError:
            return False
        except OSError as error:
            raise NotKept(f"cannot write {self._kept}/{incarnation}: {error}") from error
        return self._read() == incarnation

    def mirror(self, settings: GroupSettings) -> Mirror:
        partitions = settings.all_partitions() if settings.stateful else ()
        kept = {p: read_manifest(self._folder, self._group, p) for p in partitions}
        whole = {
            p: [r for r in records if self._may_be_there(r.url, p)] for p, records in kept.items()
        }
        newest = {p: (whole[p] or records)[0] for p, records in kept.items() if records}
        return Mirror(
            target_epoch=0,
            event_seq=0,
            snapshots=newest,
            offsets={partition: record.offset for partition, record in newest.items()},
            broken=frozenset(p for p in newest if not whole[p]),
        )

    def _may_be_there(self, url: str, partition: Partition) -> bool:
        is_ours = is_below(url, self._folder, self._group, partition)
        return is_ours and ("://" in url or Path(url).exists())

    def _read(self) -> int:
        """Raises StateError: whoever cannot read it must not choose one."""
        before = f"{self._beside}/{BEFORE}"
        try:
            names = _unless_gone(names_in, self._kept, list[str]())
            text = _unless_gone(read_whole, before, b"0")
        except OSError as error:
            raise StateError(f"cannot read the incarnation in {self._beside}: {error}") from error
        if not text.isdigit():
            raise StateError(f"{before} holds {text[:40]!r}, not an incarnation")
        kept = [int(name) for name in names if name.isdecimal()]
        self._known = max(self._known, int(text), *kept)
        return self._known


def _unless_gone(read: Callable[[str], T], url: str, none: T) -> T:
    try:
        return read(url)
    except FileNotFoundError:
        return none
