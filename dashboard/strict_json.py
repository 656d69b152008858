"""JSON as people write it, read strictly: a name given twice, NaN and texts that no database holds
are mistakes, not values.
"""

import json
from contextlib import suppress
from typing import Any

import msgspec

from assignment.bounds import not_storable, shown
from assignment.errors import InvalidInput


def read(name: str, content: str | bytes) -> Any:
    """The document. InvalidInput says in a sentence what is wrong with it."""
    found = decoded(name, content)
    if (text := not_storable(found)) is not None:
        raise InvalidInput(f"{shown(text)} has a character that cannot be stored")
    return found


def decoded(name: str, content: str | bytes) -> Any:
    """As `read`, of what is not stored as it stands; `name` begins the sentence."""
    try:
        if isinstance(content, bytes):
            content = content.decode(json.detect_encoding(content))
        return _DECODER.decode(content)
    except InvalidInput:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{name} is not JSON: {error}") from error


def refuse_twins(name: str, content: bytes) -> None:
    """Raises InvalidInput where one object has a name twice. Quick where none has: read and written
    again, a document without escapes has as many quotes as before.
    """
    if b"\\" not in content:
        with suppress(msgspec.MsgspecError):
            again = msgspec.json.encode(msgspec.json.decode(content))
            if again.count(b'"') == content.count(b'"'):
                return
    decoded(name, content)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen = set[str]()
        for name, _ in pairs:
            if name in seen:
                raise InvalidInput(f"{shown(name)} is there twice in one object")
            seen.add(name)
    return found


def _no_number(name: str) -> Any:
    raise InvalidInput(f"{name} is not a number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number)
