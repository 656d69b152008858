"""What this dashboard wrote into a group's keys itself. Who else may write there (agents, and
whoever has a token) has no SECRET_KEY to sign with.
"""

from typing import Any

from django.core import signing

_SALT = "evenkeel: written into Redis by this dashboard"


def prove(*facts: str | int) -> str:
    """A text that says these facts, and that whoever wrote it has this dashboard's SECRET_KEY."""
    return signing.dumps(facts, salt=_SALT)


def proven(text: str) -> tuple[Any, ...] | None:
    """The facts; None for a text that this dashboard did not write."""
    try:
        return tuple(signing.loads(text, salt=_SALT))
    except signing.BadSignature:
        return None
