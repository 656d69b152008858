"""Errors of the pure core, by what the caller can do about them; what errors of Redis mean."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

# Of a server that is no primary now, or not the one it was: the name may lead to another by now.
ELSEWHERE = frozenset(
    (
        "READONLY",
        "MASTERDOWN",
        "LOADING",
        "UNBLOCKED",  # a wait that ended because the server became a replica
        "NOREPLICAS",  # an old primary whose replicas have left it
        "CLUSTERDOWN",
        "TRYAGAIN",
        "MOVED",
        "ASK",  # its slot is being moved key by key: what is asked there would see half of it
    )
)
BUGS = frozenset(("WRONGTYPE", "NOSCRIPT", "CROSSSLOT"))
# Of what begins with ERR: what we asked wrongly. Everything else says how the server fares.
BUG_TEXTS = (
    "user_script",
    "unknown command",
    "unknown subcommand",
    "wrong number of arguments",
    "syntax error",
    "nvalid stream ID",
)
# By an operator, with SCRIPT KILL; and what a user may not do, whose rights a dashboard puts right.
NO_BUGS = ("Script killed by user", "ACL failure in script", "The user executing the script can't")
INSIDE = re.compile(r"user_script:.*?\s-([A-Z]+) ")  # Redis 6.2 packs what a command answered


class Trouble(StrEnum):
    """What an error that Redis answered means to whoever asked."""

    PASSING = "passing"  # the same may succeed later
    ELSEWHERE = "elsewhere"  # so it may, over a new connection: resolve the name again
    BUG = "bug"  # of ours: the same fails again


def trouble_of(text: str, code: str | None = None) -> Trouble:
    """`code`: the error's first word, where the client has taken it away from the text.

    What is not known as a bug of ours is passing: no server's state may end an agent.
    """
    text = text.rpartition("caused error: ")[2]  # before it the client names the command
    inside = INSIDE.search(text)
    word = inside[1] if inside else code or text.partition(" ")[0]
    if word in ELSEWHERE:
        return Trouble.ELSEWHERE
    asked_wrongly = word == "ERR" and any(part in text for part in BUG_TEXTS)
    is_bug = word in BUGS or (asked_wrongly and not any(part in text for part in NO_BUGS))
    return Trouble.BUG if is_bug else Trouble.PASSING


def why_not_usable(hello: Mapping[Any, Any] | Sequence[Any], in_cluster: bool = False) -> str:
    """Why nothing may be asked of a server that answers so to HELLO, in either version of the
    protocol; "": it is a primary that has all keys or, `in_cluster`, a node of a Redis Cluster. A
    replica among these knows where the others are, and refers each key to its primary (MOVED).
    """
    said = hello.values() if isinstance(hello, Mapping) else hello
    is_of_cluster = any(value in ("cluster", b"cluster") for value in said)
    if in_cluster:
        return "" if is_of_cluster else "it is no node of a Redis Cluster, as its address says"
    if is_of_cluster:
        return "it is a node of a Redis Cluster, whose address begins with redis+cluster://"
    return "it is a replica" if any(value in ("replica", b"replica") for value in said) else ""


class EvenkeelError(Exception):
    """Root of all this package raises on purpose; the text is one sentence that names the value."""


class InvalidInput(EvenkeelError, ValueError):
    """What was given cannot be right: correct it and ask again. Nothing was changed."""


class Fenced(EvenkeelError):
    """Others may own by now what was ours: drop everything and join anew."""


class InvariantBroken(EvenkeelError, AssertionError):
    """A state that must not exist: a bug. Stop and report."""


class Damaged(EvenkeelError):
    """What Redis holds of a group cannot be read, so nothing is decided about it: repair it."""


class GroupMissing(EvenkeelError):
    """The group's own settings are not in Redis: configure it, then ask again."""
