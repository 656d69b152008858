"""The scripts' texts: the only writers of shared state. Read here, run by both sides' stores."""

from functools import cache
from importlib.resources import files

_OWN_SLOT = frozenset(
    {"append", "appended", "bound", "lift", "trim"}
)  # a stream's script: its keys lie in the stream's slot, not in the group's


@cache
def script(name: str) -> str:
    """The whole text of one script, common parts before it; FileNotFoundError if unknown."""
    common = ("_streams",) if name in _OWN_SLOT else ("_streams", "_common")
    return "".join((files(__name__) / f"{part}.lua").read_text() for part in (*common, name))
