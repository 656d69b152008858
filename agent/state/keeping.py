"""Which snapshot files stay, and a manifest beside them of the newest two.

A file goes by its age, never by count, and never while a record names it: Redis may come back from
a backup, and then a newer file, which the manifest or the mirror in the database names, is what its
partition is moved forward to.
"""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from agent.state.errors import StateError
from agent.state.snapshots import SNAPSHOT_SUFFIX, names_in, read_whole, write_whole
from assignment.scripts.agent_side import SnapshotRecord, read_snapshots, record_values
from assignment.scripts.offsets import is_undone_by
from assignment.types import Partition
from assignment.wire import MANIFEST

MIRROR_LATE_MS = 60_000  # what the database's mirror names may be superseded for so long
KEEP_MS = 3_600_000  # then only what a record names stays
SPACING_MS = 600_000  # of those in between one is kept in so long: a state may be large


def removable(urls: Iterable[str], named: Collection[str], now_ms: int) -> list[str]:
    """Files of one partition that may go; the oldest first."""
    found: list[str] = []
    kept_ms = -SPACING_MS
    for written_ms, url in sorted((_written_ms(url), url) for url in urls if url not in named):
        age_ms = now_ms - written_ms
        if age_ms <= MIRROR_LATE_MS:
            break
        if age_ms > KEEP_MS or written_ms - kept_ms < SPACING_MS:
            found.append(url)
        else:
            kept_ms = written_ms
    return found


def snapshot_files(folder: str, group: str, partition: Partition) -> list[str]:
    """Raises StateError."""
    beside = _beside(folder, group, partition)
    try:
        names = names_in(beside)
        return [f"{beside}/{name}" for name in names if name.endswith(SNAPSHOT_SUFFIX)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StateError(f"cannot look into {beside}: {error}") from error


def read_manifest(folder: str, group: str, partition: Partition) -> Sequence[SnapshotRecord]:
    """The newest first; none where there is no manifest that can be read."""
    try:
        return read_snapshots(read_whole(f"{_beside(folder, group, partition)}/{MANIFEST}"))
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def write_manifest(
    folder: str, group: str, partition: Partition, record: SnapshotRecord
) -> Sequence[SnapshotRecord]:
    """Takes a written file into the manifest, which goes back only where a person set the offset
    back; answers what it names. Raises StateError.
    """
    known = read_manifest(folder, group, partition)
    before = [one for one in known if not is_undone_by(one, record)]
    records = sorted({record, *before}, key=lambda one: one.rank, reverse=True)[:2]
    url = f"{_beside(folder, group, partition)}/{MANIFEST}"
    try:
        write_whole(url, msgspec.json.encode([*map(record_values, records)]))
    except OSError as error:
        raise StateError(f"cannot write {url}: {error}") from error
    return records


def _beside(folder: str, group: str, partition: Partition) -> str:
    return "/".join((folder.rstrip("/"), group, str(partition)))


def _written_ms(url: str) -> int:
    """As the file's name says; 0 for another form of name."""
    parts = url.rpartition("/")[2].split("-")
    return int(parts[3]) if len(parts) > 4 else 0
