"""Where a snapshot may lie: below the agent's own --snapshot-url, whatever a record in Redis says.

Whoever holds a token of the group writes its records. Pure but for the working folder, from which
a local path that is no absolute one begins.
"""

import os
from typing import NamedTuple

from assignment.scripts.agent_side import is_snapshot_of
from assignment.types import Partition

_LOCAL = ("", "file", "local")


class _Place(NamedTuple):
    protocol: str
    host: str
    path: tuple[str, ...]


def is_below(url: str, folder: str, group: str, partition: Partition) -> bool:
    """By protocol, host and path: `folder`/group/partition/file, with no way out of it."""
    place, root = _place_of(url), _place_of(folder)
    depth = len(root.path)
    is_same_root = (*place[:2], place.path[:depth]) == root
    return is_same_root and is_snapshot_of(place.path[depth:] or ("",), group, partition)


def _place_of(url: str) -> _Place:
    """`..` and empty parts stay as they are: they are in no name of ours."""
    protocol, separator, rest = url.partition("://")
    protocol, rest = (protocol.lower(), rest) if separator else ("", url)
    if protocol in _LOCAL:
        absolute = rest if rest.startswith("/") else f"{os.getcwd()}/{rest}"
        return _Place("file", "", tuple(absolute.strip("/").split("/")))
    host, _, path = rest.partition("/")
    return _Place(protocol, host.lower(), tuple(path.strip("/").split("/")) if path else ())
