"""The scripts' texts: the only writers of shared state. Read here, run by both sides' stores."""

from functools import cache
from importlib.resources import files

_OWN_SLOT = frozenset(
    {"append", "appended", "bound", "lift", "trim"}
)  # a stream's script: its keys lie in the stream's slot, not in the group's
_READ_ONLY = frozenset({"appended", "bound"})


@cache
def script(name: str) -> str:
    """The whole text of one script, common parts before it; FileNotFoundError if unknown."""
    common = ("_streams",) if name in _OWN_SLOT else ("_streams", "_common")
    return "".join((files(__name__) / f"{part}.lua").read_text() for part in (*common, name))


def reads_only(name: str) -> bool:
    """Whether it writes nothing, and may be run on keys that may only be read."""
    return name in _READ_ONLY


@cache
def names() -> tuple[str, ...]:
    """Of all scripts."""
    files_of = (file.name for file in files(__name__).iterdir())
    found = (name.removesuffix(".lua") for name in files_of if name.endswith(".lua"))
    return tuple(sorted(name for name in found if not name.startswith("_")))
