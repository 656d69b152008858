"""JSON as people write it, read strictly: a name given twice and NaN are mistakes, not values."""

import json
from typing import Any

from assignment.errors import InvalidInput


def read(name: str, content: str | bytes) -> Any:
    """The document. InvalidInput says in a sentence what is wrong with it; `name` begins it."""
    try:
        return json.loads(content, object_pairs_hook=_object, parse_constant=_no_number)
    except InvalidInput:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{name} is not JSON: {error}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise InvalidInput(f"{name!r} is there twice in one object")
        found[name] = value
    return found


def _no_number(name: str) -> Any:
    raise InvalidInput(f"{name} is not a number")
