"""The files of replicas in a state folder.

A replica is an LMDB file with a name of its own and LMDB's locks beside it. A symbolic link says
which one is the partition's, so that another is put in its place by one rename, and no file is
ever opened with the locks of the one before it.
"""

import os
import re
import secrets
from pathlib import Path

from agent.state.errors import StateError
from assignment.errors import InvalidInput
from assignment.types import Partition

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
LINK, SUFFIX = ".current", ".lmdb"
LOCKS = "-lock"  # LMDB's own, after the name of each file
_NAME = re.compile(r"(?P<partition>.+:\d+)\.\w+(\.\w+)?\.(lmdb(-lock)?|current(-\w+)?)")


def link_of(folder: Path, partition: Partition) -> Path:
    """Its name carries the boot id of the machine, as those of the files it can point to do."""
    return folder / f"{partition}.{_boot()}{LINK}"


def new_file(link: Path) -> Path:
    return link.with_suffix(f".{secrets.token_hex(4)}{SUFFIX}")


def current_file(link: Path) -> Path | None:
    try:
        return link.with_name(os.readlink(link))
    except FileNotFoundError:
        return None


def make_current(link: Path, file: Path) -> None:
    fresh = link.with_suffix(f"{LINK}-{secrets.token_hex(4)}")
    fresh.symlink_to(file.name)
    fresh.replace(link)


def remove_file(file: Path) -> None:
    """Another process that has it open goes on with a file without a name."""
    file.unlink(missing_ok=True)
    file.with_name(file.name + LOCKS).unlink(missing_ok=True)


def remove_other_boots(link: Path, partition: Partition) -> None:
    """A power cut may have torn them."""
    for path in link.parent.glob(f"{partition}.*"):
        if not path.name.startswith(link.stem):
            path.unlink(missing_ok=True)


def replicas_in(directory: str | Path, group: str) -> list[Partition]:
    """Partitions with a replica of this boot. What no link names is removed, so it must be asked
    before anybody works in the folder: files of an earlier boot, and of restores that were killed.

    Raises StateError.
    """
    folder = Path(directory) / group
    found = []
    kept: set[str] = set()
    try:
        paths = sorted(folder.iterdir()) if folder.is_dir() else []
        for path in paths:
            partition = _partition_of(path.name)
            if partition and path == link_of(folder, partition):
                found.append(partition)
                target = os.readlink(path)
                kept |= {path.name, target, target + LOCKS}
        for path in paths:
            if _partition_of(path.name) and path.name not in kept:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise StateError(f"cannot look into {folder}: {error}") from error
    return found


def remove_replica(directory: str | Path, group: str, partition: Partition) -> None:
    """Not to be asked while this process has it open. Raises StateError.

    Another process that has it open can tell: PartitionState.is_there.
    """
    link = link_of(Path(directory) / group, partition)
    try:
        link.unlink(missing_ok=True)
        for path in link.parent.glob(f"{link.stem}.*"):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise StateError(f"cannot remove {link}: {error}") from error


def _boot() -> str:
    return BOOT_ID.read_text().strip()[:8] if BOOT_ID.exists() else "noboot"


def _partition_of(name: str) -> Partition | None:
    """None for another's file."""
    match = _NAME.fullmatch(name)
    try:
        return Partition.parse(match["partition"]) if match else None
    except InvalidInput:
        return None
