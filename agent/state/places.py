"""Where a snapshot may lie: below the agent's own --snapshot-url, whatever a record in Redis says.

Whoever holds a token of the group writes its records. Pure but for the working folder, from which
a local path that is no absolute one begins.
"""

import os
import re
from typing import NamedTuple

_PART = re.compile(r"[A-Za-z0-9_.-]+(:[0-9]+)?")  # group, stream:number or file, as we name them
_LOCAL = ("", "file", "local")
DEPTH = 3  # group, partition, file


class _Place(NamedTuple):
    protocol: str
    host: str
    path: tuple[str, ...]


def is_below(url: str, folder: str) -> bool:
    """By protocol, host and path: `folder`/group/partition/file, with no way out of it."""
    place, root = _place_of(url), _place_of(folder)
    rest = place.path[len(root.path) :]
    return (
        place[:2] == root[:2]
        and place.path[: len(root.path)] == root.path
        and len(rest) == DEPTH
        and all(_PART.fullmatch(part) and part.strip(".") for part in rest)
    )


def _place_of(url: str) -> _Place:
    """`..` and empty parts stay as they are: they are in no name of ours."""
    protocol, separator, rest = url.partition("://")
    protocol, rest = (protocol.lower(), rest) if separator else ("", url)
    if protocol in _LOCAL:
        absolute = rest if rest.startswith("/") else f"{os.getcwd()}/{rest}"
        return _Place("file", "", tuple(absolute.strip("/").split("/")))
    host, _, path = rest.partition("/")
    return _Place(protocol, host.lower(), tuple(path.strip("/").split("/")) if path else ())
