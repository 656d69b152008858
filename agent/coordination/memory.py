"""What outlives a Redis that was wiped, where no database is: files beside the snapshots.

The highest incarnation, so that no fence comes again, and each partition's newest snapshot
(agent.state.keeping). As safe as that folder: one that every member sees, unless all of them run on
one machine.
"""

from pathlib import Path

from agent.state.errors import StateError
from agent.state.keeping import read_manifest
from agent.state.snapshots import read_whole, write_whole
from assignment.coordinator.facts import Mirror
from assignment.types import GroupSettings

INCARNATION = "incarnation"


class NotKept(StateError):
    """It cannot be written now; what was kept before is known."""


class Memory:
    """`folder`: local, or any fsspec URL."""

    def __init__(self, folder: str, group: str) -> None:
        self._folder, self._group = folder, group
        self._url = "/".join((folder.rstrip("/"), group, INCARNATION))
        self._known = 0

    def highest(self) -> int:
        """Incarnation that is kept, as it was read last; 0: none."""
        return self._known or self._read()

    def keep(self, incarnation: int) -> bool:
        """False: that one or a higher was kept before. Raises NotKept; StateError as `highest`."""
        if incarnation <= self._known or incarnation <= self._read():
            return False
        try:
            write_whole(self._url, str(incarnation).encode())
        except OSError as error:
            raise NotKept(f"cannot write {self._url}: {error}") from error
        self._known = incarnation
        return True

    def mirror(self, settings: GroupSettings) -> Mirror:
        partitions = settings.all_partitions() if settings.stateful else ()
        kept = {p: read_manifest(self._folder, self._group, p) for p in partitions}
        whole = {p: [r for r in records if _may_be_there(r.url)] for p, records in kept.items()}
        newest = {p: (whole[p] or records)[0] for p, records in kept.items() if records}
        return Mirror(
            target_epoch=0,
            event_seq=0,
            snapshots=newest,
            offsets={partition: record.offset for partition, record in newest.items()},
            broken=frozenset(p for p in newest if not whole[p]),
        )

    def _read(self) -> int:
        """Raises StateError: whoever cannot read it must not choose one."""
        try:
            text = read_whole(self._url)
        except FileNotFoundError:
            text = b"0"
        except OSError as error:
            raise StateError(f"cannot read {self._url}: {error}") from error
        if not text.isdigit():
            raise StateError(f"{self._url} holds {text[:40]!r}, not an incarnation")
        self._known = max(self._known, int(text))
        return self._known


def _may_be_there(url: str) -> bool:
    return "://" in url or Path(url).exists()
