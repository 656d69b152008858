"""Looks for snapshots where the settings say that they lie, and nowhere else.

What a record in Redis names was written by whoever has a token of the group. So a path is made of
the settings' folder and names of our own; no link below it is followed, nothing is opened but a
regular file, and that is read up to a bound.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from django.conf import settings

from assignment.places import is_below, local_path
from assignment.scripts.agent_side import SnapshotRecord
from assignment.types import Partition
from assignment.wire import MANIFEST

MANIFEST_BYTES_MAX = 2**16  # two records of some hundred bytes
_NEVER_WAITS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_WORKING_FOLDER = "\0"  # a record's path that is no absolute one lies in none that we know


class Place(NamedTuple):
    """A partition's folder below one of the settings'."""

    root: str
    group: str
    partition: Partition

    def holds(self, record: SnapshotRecord) -> bool:
        return _is_below(record.url, self.root, self.group, self.partition)

    def manifest(self) -> bytes:
        """Raises OSError, also for what is no file or too long."""
        with self._folder() as folder:
            file = os.open(MANIFEST, _NEVER_WAITS, dir_fd=folder)
            with open(file, "rb") as opened:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise OSError(f"{MANIFEST} is no file")
                content = opened.read(MANIFEST_BYTES_MAX + 1)
        if len(content) > MANIFEST_BYTES_MAX:
            raise OSError(f"{MANIFEST} is longer than {MANIFEST_BYTES_MAX} bytes")
        return content

    def may_have(self, record: SnapshotRecord) -> bool:
        """False: this folder is seen from here, and the file is not in it."""
        try:
            with self._folder() as folder:
                return _is_file(record.url.rpartition("/")[2], folder)
        except OSError:
            return True

    def size_of(self, record: SnapshotRecord) -> int | None:
        """Bytes of the file; None: it is not seen from here."""
        try:
            with self._folder() as folder:
                name = record.url.rpartition("/")[2]
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                return found.st_size if stat.S_ISREG(found.st_mode) else None
        except OSError:
            return None

    @contextmanager
    def _folder(self) -> Iterator[int]:
        """Open; step by step, as each could be exchanged for a link."""
        folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in (self.group, str(self.partition)):
                inner = os.open(name, _NEVER_WAITS | os.O_DIRECTORY, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)


def _is_file(name: str, folder: int) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def place_of(record: SnapshotRecord, group: str, partition: Partition) -> Place | None:
    """None: this machine may not look for it."""
    for url in settings.SNAPSHOT_URLS:
        root = local_path(url, working=_NO_WORKING_FOLDER)
        if root is not None and _is_below(record.url, root, group, partition):
            return Place(root, group, partition)
    return None


def _is_below(url: str, root: str, group: str, partition: Partition) -> bool:
    return is_below(url, root, group, partition, working=_NO_WORKING_FOLDER)
