"""Where a snapshot may lie: below a folder that was given, whatever a record in Redis says.

Whoever holds a token of the group writes its records.
"""

from typing import NamedTuple

from assignment.scripts.agent_side import is_snapshot_of
from assignment.types import Partition

_LOCAL = ("", "file", "local")
_WITHOUT_HOST = ("memory",)


class _Place(NamedTuple):
    protocol: str
    host: str
    path: tuple[str, ...]


def is_below(url: str, folder: str, group: str, partition: Partition, *, working: str) -> bool:
    """By protocol, host and path: `folder`/group/partition/file, with no way out of it. `folder`:
    local, or any fsspec URL; a local one that is no absolute path begins at `working`.
    """
    place, root = _place_of(url, working), _place_of(folder, working)
    depth = len(root.path)
    is_same_root = (*place[:2], place.path[:depth]) == root
    return is_same_root and is_snapshot_of(place.path[depth:] or ("",), group, partition)


def local_path(url: str, *, working: str) -> str | None:
    """The absolute path of a local folder; None for an object store."""
    place = _place_of(url, working)
    return "/" + "/".join(place.path) if place.protocol == "file" else None


def _place_of(url: str, working: str) -> _Place:
    """`..` and empty parts stay as they are: they are in no name of ours."""
    protocol, separator, rest = url.partition("://")
    protocol, rest = (protocol.lower(), rest) if separator else ("", url)
    if protocol in _LOCAL:
        return _Place("file", "", _parts(rest if rest.startswith("/") else f"{working}/{rest}"))
    if protocol in _WITHOUT_HOST:
        return _Place(protocol, "", _parts(rest))
    host, _, path = rest.partition("/")
    return _Place(protocol, host.lower(), _parts(path))


def _parts(path: str) -> tuple[str, ...]:
    whole = path.strip("/")
    return tuple(whole.split("/")) if whole else ()
