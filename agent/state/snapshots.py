"""Compacted snapshots of a partition's state: files in a folder or under any fsspec URL.

Form: MAGIC; blocks of (length as 4 bytes big endian, zlib of a MessagePack array of [key, JSON
value] pairs); a length of 0; a last line of JSON with partition, offset, total, number of keys and
the SHA-256 of all bytes before it. Each field of that line is compared, so no byte may be wrong.
"""

import errno
import hashlib
import os
import secrets
import time
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, Self

import msgspec

from agent.state.errors import SnapshotBroken, StateError
from agent.state.partition import PartitionState, Reading
from agent.state.places import is_below
from assignment.scripts.agent_side import SnapshotRecord
from assignment.types import Offset, Partition

MAGIC = b"EVENKEEL SNAPSHOT 1\n"
SNAPSHOT_SUFFIX = ".snapshot"
KEYS_PER_BLOCK = 10_000
BLOCK_BYTES_MAX = 256 * 2**20  # a longer one is a broken file, not a block


class _Footer(msgspec.Struct):
    partition: str
    offset: str
    total: int
    keys: int
    sha256: str

    @classmethod
    def of(cls, partition: Partition, at: Reading | SnapshotRecord, keys: int, sha256: str) -> Self:
        return cls(str(partition), str(at.offset), at.total, keys, sha256)


def write_snapshot(state: PartitionState, folder: str, group: str, fence: int) -> SnapshotRecord:
    """Writes the state as it stands to a new file, whole or not at all.

    Raises StateError, also when the last commit in it is not of that fence: then another one wrote
    it since, and a record must tell whose history it holds.
    """
    with state.reading() as reading:
        if reading.fence != fence:
            raise StateError(f"{state.partition} holds commits of {reading.fence}, not of {fence}")
        written_ms = time.time_ns() // 1_000_000
        parts = (reading.offset, fence, written_ms, secrets.token_hex(4))
        name = "-".join(map(str, parts)) + SNAPSHOT_SUFFIX
        url = "/".join((folder.rstrip("/"), group, str(state.partition), name))
        try:
            with _writing(url) as file:
                keys, digest = _write_blocks(file, reading.items())
                footer = _Footer.of(state.partition, reading, keys, digest)
                file.write(msgspec.json.encode(footer))
        except OSError as error:
            full = "no space left" if error.errno == errno.ENOSPC else str(error)
            raise StateError(f"cannot write the snapshot {url}: {full}") from error
        return SnapshotRecord(
            url=url,
            offset=reading.offset,
            changelog_id=reading.changelog_id,
            total=reading.total,
            fence=fence,
        )


def snapshot_steps(state: PartitionState, snapshot: SnapshotRecord) -> Generator[float, None, None]:
    """Fills an empty replica that nobody uses yet, block by block; yields which part was read.

    Raises SnapshotBroken (the replica is empty then), WriterReplaced or StateError.
    """
    try:
        with _reading(snapshot.url) as file:
            size = file.seek(0, os.SEEK_END) or 1
            file.seek(0)
            blocks = _Blocks(file, state.partition, snapshot)
            for block in blocks.all():
                state.add(block)
                yield min(1.0, blocks.bytes_read / size)
            state.finish(*blocks.position())
    except SnapshotBroken:
        state.clear()
        raise
    except (OSError, zlib.error, msgspec.MsgspecError, ValueError, TypeError) as error:
        state.clear()
        raise SnapshotBroken(f"snapshot {snapshot.url} cannot be read: {error}") from error


def remove_snapshot(url: str, folder: str, group: str, partition: Partition) -> None:
    """No error when it is gone already. Raises StateError, also for what lies elsewhere than the
    snapshots of that partition below `folder`.
    """
    if not is_below(url, folder, group, partition):
        raise StateError(f"{url} is no snapshot of {partition} below {folder}: it is left alone")
    try:
        if "://" in url:
            filesystem, path = filesystem_of(url)
            if filesystem.exists(path):
                filesystem.rm(path)
        else:
            Path(url).unlink(missing_ok=True)
    except OSError as error:
        raise StateError(f"cannot remove the snapshot {url}: {error}") from error


def _write_blocks(file: IO[bytes], items: Iterator[tuple[str, Any]]) -> tuple[int, str]:
    """(number of keys, checksum of all that was written)."""
    digest = hashlib.sha256()

    def put(data: bytes) -> None:
        digest.update(data)
        file.write(data)

    put(MAGIC)
    keys = 0
    while block := list(islice(items, KEYS_PER_BLOCK)):
        packed = zlib.compress(msgspec.msgpack.encode(block), 1)
        put(len(packed).to_bytes(4, "big"))
        put(packed)
        keys += len(block)
    put(bytes(4))
    return keys, digest.hexdigest()


class _Blocks:
    """Reads one file front to back; checks it against its footer and what was recorded."""

    def __init__(self, file: IO[bytes], partition: Partition, snapshot: SnapshotRecord) -> None:
        self._file = file
        self._partition = partition
        self._snapshot = snapshot
        self._digest = hashlib.sha256()
        self._keys = 0
        self.bytes_read = 0

    def all(self) -> Iterator[list[tuple[str, Any]]]:
        if self._take(len(MAGIC)) != MAGIC:
            raise SnapshotBroken(f"{self._snapshot.url} is not a snapshot")
        while length := int.from_bytes(self._take(4), "big"):
            if length > BLOCK_BYTES_MAX:
                raise SnapshotBroken(f"snapshot {self._snapshot.url} has a block of {length} bytes")
            block = msgspec.msgpack.decode(zlib.decompress(self._take(length)))
            self._keys += len(block)
            yield block

    def position(self) -> tuple[Offset, int, str, int]:
        recorded = self._snapshot
        found = msgspec.json.decode(self._file.read(), type=_Footer)
        expected = _Footer.of(self._partition, recorded, self._keys, self._digest.hexdigest())
        if found != expected:
            raise SnapshotBroken(f"snapshot {recorded.url} holds {found}, recorded is {expected}")
        return recorded.offset, recorded.total, recorded.changelog_id, recorded.fence

    def _take(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) != count:
            raise SnapshotBroken(f"snapshot {self._snapshot.url} is cut short")
        self._digest.update(data)
        self.bytes_read += count
        return data


@contextmanager
def _writing(url: str) -> Iterator[IO[bytes]]:
    """It has its name only when whole and on the disk: a changelog is trimmed on its strength."""
    if "://" in url:
        filesystem, path = filesystem_of(url)
        filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
        with filesystem.open(path, "wb") as file:  # recorded in Redis only after this succeeded
            yield file
        return
    finished = Path(url)
    _make_folders(finished.parent)
    unfinished = finished.with_suffix(f".{secrets.token_hex(4)}.unfinished")
    try:
        with unfinished.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(finished)
        _sync_folder(finished.parent)
    finally:
        unfinished.unlink(missing_ok=True)


def _make_folders(folder: Path) -> None:
    if not folder.is_dir():
        _make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def write_whole(url: str, data: bytes) -> None:
    with _writing(url) as file:
        file.write(data)


def make_new(url: str, data: bytes) -> None:
    """Raises FileExistsError, where the file system can tell."""
    if "://" in url:
        filesystem, path = filesystem_of(url)
        filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
        try:
            file = filesystem.open(path, "xb")
        except (NotImplementedError, ValueError):  # an object store without conditional writes
            file = filesystem.open(path, "wb")
        with file:
            file.write(data)
        return
    folder = Path(url).parent
    _make_folders(folder)
    with Path(url).open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(folder)


def names_in(folder: str) -> list[str]:
    """Raises OSError; FileNotFoundError: there is none."""
    if "://" not in folder:
        return os.listdir(folder)
    filesystem, path = filesystem_of(folder)
    filesystem.invalidate_cache(path)
    names = (str(name).rstrip("/") for name in filesystem.ls(path, detail=False))
    return [name.rpartition("/")[2] for name in names]


def read_whole(url: str) -> bytes:
    with _reading(url) as file:
        data: bytes = file.read()
    return data


def _reading(url: str) -> Any:
    if "://" in url:
        filesystem, path = filesystem_of(url)
        return filesystem.open(path, "rb")
    return Path(url).open("rb")


def filesystem_of(url: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs  # heavy, and not needed for a local folder

    filesystem, path = url_to_fs(url)
    return filesystem, str(path)
