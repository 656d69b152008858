"""Files that only this user reaches, also where a folder is shared with other users of the machine.

A folder for temporary files is everybody's: whoever comes first may make ours there. So each one
below it must be our own before anything is put in.
"""

import errno
import grp
import os
import pwd
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from assignment.folders import UMASK, others_of, why_open

ABOVE_US = frozenset(Path(__file__).resolve().parents)  # who can exchange these runs as us anyway


def keep_private() -> None:
    """To be called once, before the process makes a file; its children inherit it."""
    os.umask(UMASK)


def own_name() -> str:
    """Of the folder that agents have among everybody's temporary files."""
    return f"evenkeel-{os.geteuid()}"


def runtime_folder(environ: Mapping[str, str]) -> Path:
    """For sockets: in XDG_RUNTIME_DIR where that is this user's alone, as its specification
    demands, else among the temporary files. Small things only: it lies in memory.
    """
    given = Path(environ.get("XDG_RUNTIME_DIR") or ".")
    return (given if given.is_absolute() and _is_own(given) else _temporary()) / own_name()


def state_folder() -> Path:
    """For state, which may be large."""
    return _temporary() / own_name()


def make_own(folder: Path, *, closed: bool) -> None:
    """Makes the folder, and what lacks above it, for this user only. `closed`: so it is where it
    was there before, too; all that lies in the agents' own folder (`own_name`) always is.

    None may be writable by others, unless what lies in it stays its owner's (sticky). From the
    first such folder down each must be this user's or root's, and no link. Raises PermissionError
    with the one that is not.
    """
    is_shared = is_own = False
    for here in (*reversed(folder.parents), folder):
        here.mkdir(mode=0o700, exist_ok=True)
        is_own = is_own or here.name == own_name() or (closed and here == folder)
        if is_own:
            _close(here)
        elif here not in ABOVE_US:
            _look_at(here, is_shared=is_shared)
        is_shared = is_shared or bool(here.stat().st_mode & stat.S_IWOTH)


def _look_at(folder: Path, *, is_shared: bool) -> None:
    if is_shared:
        _demand(folder, {os.geteuid(), 0})
    elif why := _why_open(folder.stat()):
        raise _unusable(folder, why)


def _temporary() -> Path:
    return Path(tempfile.gettempdir())


def _is_own(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    is_folder = stat.S_ISDIR(found.st_mode)
    return is_folder and found.st_uid == os.geteuid() and not found.st_mode & UMASK


def _close(folder: Path) -> None:
    """Nobody else can exchange a folder of ours where deleting is its owner's right alone."""
    found = _demand(folder, {os.geteuid()}, closes=True)
    if found.st_mode & UMASK:
        folder.chmod(0o700)


def _demand(folder: Path, owners: set[int], *, closes: bool = False) -> os.stat_result:
    found = folder.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise _unusable(folder, "is a link")
    if found.st_uid not in owners:
        raise _unusable(folder, f"belongs to another user ({found.st_uid})")
    if not closes and (why := _why_open(found)):
        raise _unusable(folder, why)
    return found


def _why_open(found: os.stat_result) -> str:
    return why_open(found, _others_of)


def _others_of(group: int) -> list[str]:
    return others_of(group, os.geteuid(), pwd.getpwall(), grp.getgrall())


def _unusable(folder: Path, why: str) -> PermissionError:
    return PermissionError(errno.EPERM, f"{folder} {why}: remove it, or choose another folder")
