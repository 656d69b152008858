"""The scripts' texts: the only writers of shared state. Read here, run by both sides' stores."""

import re
import textwrap
from functools import cache
from importlib.resources import files
from itertools import pairwise

_OWN_SLOT = frozenset(
    {"append", "appended", "bound", "lift", "look", "make_room", "trim"}
)  # a stream's script: its keys lie in the stream's slot, not in the group's
_OF_LETTERS = frozenset(
    {
        "bind",
        "commit",
        "crash",
        "dead_letters",
        "discard",
        "narrow",
        "replay",
        "restore",
        "set_offset",
    }
)
_READ_ONLY = frozenset({"appended", "bound", "look"})
_READ_FIRST = frozenset({"lift"})
_CALL = re.compile(r"call\(\s*'(\w+)'(?:,\s*'(\w+)')?")
_DEFINED = re.compile(r"^local (?:function )?(\w+(?:, \w+)*)", re.MULTILINE)
_RARELY = re.compile(r"^( *)(.* then -- rarely\n)((?:.*\n)*?)(?=\1e)", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w*")
_COMMENT = re.compile(r"--.*")
_CONTAINERS = frozenset({"INFO", "MEMORY", "XGROUP", "XINFO"})  # allowed by section or subcommand


@cache
def script(name: str) -> str:
    """The whole text of one script, common parts before it; FileNotFoundError if unknown."""
    common = ("_streams",) if name in _OWN_SLOT else ("_streams", "_common")
    letters = ("_letters",) if name in _OF_LETTERS else ()
    return with_common(own_text(name), *common, *letters)


def with_common(text: str, *common: str) -> str:
    """With what it uses of the common parts, and what that uses. Each function that a script has is
    made anew at each run and cleared away after it: what only a branch uses that is marked
    `-- rarely` stands in that branch.
    """
    parts = [part for name in common for part in _parts(own_text(name))]
    always = _used(parts, _RARELY.sub(r"\1\2", text))

    def branch(found: re.Match[str]) -> str:
        indent, condition, body = found.groups()
        own = (part for part in _used(parts, body) if part not in always)
        return "".join(
            (indent, condition, *(textwrap.indent(part, indent + "  ") for part in own), body)
        )

    return "".join(always) + _RARELY.sub(branch, text)


def _used(parts: list[str], text: str) -> list[str]:
    """Those of the parts that it uses, and what they use, in their order."""
    used: list[str] = []
    for part in reversed(parts):
        defined = _DEFINED.match(part)
        if defined and not set(_NAME.findall(defined[1])).isdisjoint(_names_in(text)):
            used.insert(0, part)
            text = part + text
    return used


def _parts(text: str) -> list[str]:
    """One for each name that is local to the whole text, without what comes before the first."""
    starts = [found.start() for found in _DEFINED.finditer(text)]
    return [text[start:end] for start, end in pairwise((*starts, len(text)))]


@cache
def _names_in(text: str) -> frozenset[str]:
    return frozenset(_NAME.findall(_COMMENT.sub("", text)))


@cache
def own_text(name: str) -> str:
    """Without the common parts."""
    return (files(__name__) / f"{name}.lua").read_text()


def commands_in(text: str) -> frozenset[str]:
    """What a script calls, as ACLs name it."""
    return frozenset(
        f"{command}|{sub}".lower() if command in _CONTAINERS and sub else command.lower()
        for command, sub in _CALL.findall(text)
    )


def is_of_stream(name: str) -> bool:
    """Whether its keys are those of one partition's events, all of which it is given."""
    return name in _OWN_SLOT


def reads_only(name: str) -> bool:
    """Whether it writes nothing, and may be run on keys that may only be read."""
    return name in _READ_ONLY


def reads_first(name: str) -> bool:
    """Whether there is mostly nothing to write for it."""
    return name in _READ_FIRST


@cache
def names() -> tuple[str, ...]:
    """Of all scripts."""
    files_of = (file.name for file in files(__name__).iterdir())
    found = (name.removesuffix(".lua") for name in files_of if name.endswith(".lua"))
    return tuple(sorted(name for name in found if not name.startswith("_")))
