"""What differs between two JSON values, as people read it: `lease_ms: 10000 → 20000`. Pure."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

SHOWN_MAX = 12  # lines of one entry; the files have all of them
VALUE_MAX = 200  # characters of one value
DEPTH_MAX = 4


class _Nothing:
    """There is no such value; None is one."""


NOTHING = _Nothing()


@dataclass(frozen=True, slots=True)
class Change:
    """`was` is "" where there was nothing before, `now` where there is nothing after."""

    name: str
    was: str
    now: str


@dataclass(frozen=True, slots=True)
class Differences:
    shown: list[Change]
    more: int


def between(before: Any, after: Any) -> Differences:
    """`None` on a side: nothing is known of it. What is equal on both is left out."""
    was, now = (NOTHING if value is None else value for value in (before, after))
    found = list(_changes("", was, now, DEPTH_MAX))
    return Differences(found[:SHOWN_MAX], max(0, len(found) - SHOWN_MAX))


def _changes(name: str, was: Any, now: Any, depth: int) -> Iterator[Change]:
    if was is now or (was == now and type(was) is type(now)):
        return
    sides = [side for side in (was, now) if side is not NOTHING]
    if depth and any(sides) and all(isinstance(side, dict) for side in sides):
        before, after = (side if isinstance(side, dict) else {} for side in (was, now))
        for key in sorted({*before, *after}):
            inner = f"{name}.{key}" if name else key
            yield from _changes(inner, before.get(key, NOTHING), after.get(key, NOTHING), depth - 1)
    elif isinstance(was, list) and isinstance(now, list):
        yield Change(
            name, _text([x for x in was if x not in now]), _text([x for x in now if x not in was])
        )
    else:
        yield Change(name, _text(was), _text(now))


def _text(value: Any) -> str:
    if value is NOTHING:
        return ""
    if isinstance(value, list):
        text = ", ".join(map(_text, value)) or "none"
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_MAX else f"{text[:VALUE_MAX]} …"
