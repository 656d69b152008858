"""One partition's state: key -> JSON value in one LMDB file, its offset in the same transaction.

The file is written without fsync: it is a replica, and its name carries the machine's boot id, so
that a replica which a power cut may have torn is never opened again. One that cannot be used any
more stays until another one is whole, and is then replaced at once (`replacement`, `become`).
"""

import hashlib
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Any, Self

import lmdb
import msgspec

from agent.state import files
from agent.state.errors import StateError, WriterReplaced
from assignment.types import START, Offset, Partition
from assignment.wire import ChangelogEntry, unpack_changes

MAP_BYTES = 16 * 2**30  # address space kept per partition, not memory and not disk
KEY_BYTES_MAX = 500  # LMDB holds keys up to 511 bytes; longer ones are stored under their hash
CHUNK_KEYS = 50_000  # a restore of many keys must not hold them all in memory
# Below this a full disk could end the process: LMDB maps the file of its locks and writes to it.
FREE_BYTES_MIN = 2**20

_PLAIN, _HASHED, _META = b"k", b"h", b"m"
_OFFSET, _TOTAL, _CHANGELOG_ID = b"moffset", b"mtotal", b"mchangelog"
_FENCE, _WRITER = b"mfence", b"mwriter"
TOKEN_BYTES = 16
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Applied(StrEnum):
    """What became of one changelog entry: `gap` means that this replica does not lead there."""

    APPLIED = "applied"
    SKIPPED = "skipped"
    GAP = "gap"


class PartitionState:
    """Open one per process and partition: LMDB does not allow a second one.

    Many processes may read. One writes: who took it over last. Its token is in the file and is
    compared in every transaction, so whoever wrote before, and was paused meanwhile, is refused:
    all writes raise WriterReplaced then, and StateError.
    """

    def __init__(
        self, environment: lmdb.Environment, path: Path, link: Path, partition: Partition
    ) -> None:
        self._environment = environment
        self._link = link
        self.path = path
        self.partition = partition
        self._token = secrets.token_bytes(TOKEN_BYTES)
        self._readers = 0
        self._read = threading.Condition()  # a reader came or went

    @classmethod
    def open(cls, directory: str | Path, group: str, partition: Partition) -> Self:
        """The replica under `directory`/group; without one, empty at 0-0. Raises StateError."""
        folder = Path(directory) / group
        link = files.link_of(folder, partition)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            files.remove_other_boots(link, partition)
            _check_space(folder)
            environment, path = _current_environment(link)
        except (lmdb.Error, OSError) as error:
            why = f"cannot open the state of {partition}: {error}; its folder is {folder}"
            raise StateError(why) from error
        return cls(environment, path, link, partition)

    def close(self) -> None:
        """Waits for a `reading` in another thread."""
        with self._unread():
            self._environment.close()

    @property
    def is_there(self) -> bool:
        """False when the file was removed or replaced since it was opened."""
        return files.current_file(self._link) == self.path

    @property
    def offset(self) -> Offset:
        text = self._meta(_OFFSET)
        return Offset.parse(text) if text else START

    @property
    def total(self) -> int:
        """Events applied in total, up to `offset`."""
        return int(self._meta(_TOTAL) or 0)

    @property
    def changelog_id(self) -> str:
        """An entry of the changelog: reading on after it misses nothing."""
        return self._meta(_CHANGELOG_ID) or "0-0"

    @property
    def fence(self) -> int:
        """Under which the last entry that was applied was committed: whose history this is."""
        return int(self._meta(_FENCE) or 0)

    def take_over(self) -> None:
        """The one writer from now on, of what is there."""
        with self._write("take over", begins=True):
            pass

    def apply(self, entry: ChangelogEntry) -> Applied:
        """Takes one entry by the rules of pipeline.md section 4."""
        return self.apply_changes(
            entry.from_offset,
            entry.to_offset,
            lambda: unpack_changes(entry.changes),
            total=entry.total,
            changelog_id=entry.entry_id,
            fence=entry.fence,
        )

    def apply_changes(
        self,
        from_offset: Offset,
        to_offset: Offset,
        changes: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
        *,
        total: int,
        changelog_id: str | None,
        fence: int,
    ) -> Applied:
        """Effects of (from, to] and the offset in one transaction; a None value deletes its key."""
        with self._write("apply a commit to") as transaction:
            current = Offset.parse(bytes(transaction.get(_OFFSET, b"0-0")).decode())
            if to_offset <= current:
                return Applied.SKIPPED
            if from_offset != current:
                return Applied.GAP
            _put_all(transaction, (changes() if callable(changes) else changes).items())
            self._stand_at(transaction, to_offset, total, changelog_id, fence)
        return Applied.APPLIED

    @contextmanager
    def replacement(self) -> Iterator["PartitionState"]:
        """An empty replica beside this one, which stays as it is until it `become`s the other.

        Without that the other one is gone at the end. Raises StateError.
        """
        path = files.new_file(self._link)
        try:
            _check_space(path.parent)
            other = type(self)(_environment(path), path, self._link, self.partition)
        except (lmdb.Error, OSError) as error:
            raise StateError(f"cannot restore {self.partition}: {error}") from error
        try:
            other.take_over()
            yield other
        finally:
            if self.path != path:
                other.close()
                files.remove_file(path)

    def become(self, other: "PartitionState") -> None:
        """Puts a whole replica in the place of this one, and of all that was begun beside it.

        The token goes first: who writes here still is refused before the other one counts. The link
        changes within a transaction: whoever took this one over meanwhile keeps it.
        """
        before = [*self.path.parent.glob(f"{self._link.stem}.*{files.SUFFIX}")]
        with self._unread():
            with self._write("replace") as transaction:
                transaction.put(_WRITER, other._token)
            self._token = other._token
            with self._write("replace"):
                files.make_current(self._link, other.path)
            self._environment.close()
            self._environment, self.path = other._environment, other.path
        for path in before:
            if path != self.path:
                files.remove_file(path)

    def add(self, items: Iterable[tuple[str, Any]]) -> None:
        """Some of the content of a `replacement`."""
        with self._write("restore") as transaction:
            _put_all(transaction, items)

    def finish(self, offset: Offset, total: int, changelog_id: str, fence: int) -> None:
        """What was added is the whole state at that offset."""
        with self._write("restore") as transaction:
            self._stand_at(transaction, offset, total, changelog_id, fence)

    def clear(self) -> None:
        """Empty, at offset 0-0."""
        with self._write("clear") as transaction:
            transaction.drop(self._environment.open_db(None, transaction), delete=False)
            transaction.put(_WRITER, self._token)
            self._stand_at(transaction, START, 0, "0-0", 0)

    @contextmanager
    def reading(self) -> Iterator["Reading"]:
        """Everything as it stands at one moment, whatever is written or read meanwhile."""
        with self._read:
            try:
                transaction = self._environment.begin()
            except lmdb.Error as error:
                raise StateError(f"the state of {self.partition} is closed") from error
            self._readers += 1
        try:
            with transaction:
                yield Reading(transaction)
        finally:
            with self._read:
                self._readers -= 1
                self._read.notify_all()

    @contextmanager
    def _unread(self) -> Iterator[None]:
        """Once nobody reads, and while nobody begins to."""
        with self._read:
            self._read.wait_for(lambda: not self._readers)
            yield

    def _meta(self, name: bytes) -> str:
        try:
            with self._environment.begin() as transaction:
                return bytes(transaction.get(name, b"")).decode()
        except lmdb.Error as error:
            raise StateError(f"cannot read the state of {self.partition}: {error}") from error

    @staticmethod
    def _stand_at(
        transaction: lmdb.Transaction,
        offset: Offset,
        total: int,
        changelog_id: str | None,
        fence: int,
    ) -> None:
        transaction.put(_OFFSET, str(offset).encode())
        transaction.put(_TOTAL, str(total).encode())
        transaction.put(_FENCE, str(fence).encode())
        if changelog_id is not None:
            transaction.put(_CHANGELOG_ID, changelog_id.encode())

    @contextmanager
    def _write(self, what: str, *, begins: bool = False) -> Iterator[lmdb.Transaction]:
        try:
            with self._environment.begin(write=True) as transaction:
                if begins:
                    transaction.put(_WRITER, self._token)
                elif transaction.get(_WRITER) != self._token:
                    raise WriterReplaced(f"cannot {what} {self.partition}: another one writes it")
                yield transaction
        except lmdb.MapFullError as error:
            raise StateError(
                f"cannot {what} {self.partition}: its state is above {MAP_BYTES} bytes"
            ) from error
        except (lmdb.Error, OSError) as error:
            full = "No space left" in str(error)
            reason = f"no space left for {self.path}" if full else str(error)
            raise StateError(f"cannot {what} the state of {self.partition}: {reason}") from error


class Reading:
    """One read transaction of a PartitionState."""

    def __init__(self, transaction: lmdb.Transaction) -> None:
        self._transaction = transaction
        self.offset = Offset.parse(bytes(transaction.get(_OFFSET, b"0-0")).decode())
        self.total = int(transaction.get(_TOTAL, b"0"))
        self.changelog_id = bytes(transaction.get(_CHANGELOG_ID, b"0-0")).decode()
        self.fence = int(transaction.get(_FENCE, b"0"))

    def get_many(self, keys: Iterable[str]) -> dict[str, Any]:
        """key -> value of those that are there."""
        wanted = sorted(set(map(_stored_key, keys)))  # neighbours lie on the same page
        found = self._transaction.cursor().getmulti(wanted)
        return dict(_value(bytes(key), bytes(value)) for key, value in found)

    def items(self) -> Iterator[tuple[str, Any]]:
        for stored_key, stored in self._transaction.cursor():
            if stored_key[:1] != _META:
                yield _value(bytes(stored_key), bytes(stored))


def _check_space(folder: Path) -> None:
    disk = os.statvfs(folder)
    if disk.f_bavail * disk.f_frsize < FREE_BYTES_MIN:
        raise OSError("no space left on the disk")


def _current_environment(link: Path) -> tuple[lmdb.Environment, Path]:
    """A file that is no LMDB any more is a lost replica: the changelog is the truth."""
    while True:
        path = files.current_file(link)
        if path is None:
            files.make_current(link, files.new_file(link))
            continue
        try:
            environment = _environment(path)
        except (lmdb.InvalidError, lmdb.CorruptedError, lmdb.VersionMismatchError):
            link.unlink(missing_ok=True)
            files.remove_file(path)
            continue
        if files.current_file(link) == path:
            return environment, path
        environment.close()  # replaced meanwhile, and made anew by opening it
        files.remove_file(path)


def _environment(path: Path) -> lmdb.Environment:
    environment = lmdb.open(
        str(path), subdir=False, map_size=MAP_BYTES, sync=False, metasync=False, readahead=False
    )
    environment.reader_check()  # places of readers that were killed
    return environment


def _stored_key(key: str) -> bytes:
    text = key.encode()
    if len(text) <= KEY_BYTES_MAX:
        return _PLAIN + text
    return _HASHED + hashlib.sha256(text).digest()


def _put_all(transaction: lmdb.Transaction, items: Iterable[tuple[str, Any]]) -> None:
    """In chunks, each in the order of its keys: that is a third of the time of one by one."""
    remaining = iter(items)
    while chunk := list(islice(remaining, CHUNK_KEYS)):
        stored = []
        for key, value in chunk:
            stored_key = _stored_key(key)
            if value is None:
                transaction.delete(stored_key)
            else:
                hashed = stored_key[:1] == _HASHED
                stored.append((stored_key, _encode([key, value] if hashed else value)))
        stored.sort()
        with transaction.cursor() as cursor:
            cursor.putmulti(stored)


def _value(stored_key: bytes, stored: bytes) -> tuple[str, Any]:
    """(key, value) of one stored pair."""
    value = _decode(stored)
    if stored_key[:1] == _HASHED:
        return value[0], value[1]
    return stored_key[1:].decode(), value
