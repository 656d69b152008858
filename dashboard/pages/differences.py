"""What differs between two JSON values, as people read it: `lease_ms: 10 s → 20 s`. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from assignment.setting import Duration, Size
from assignment.settings import SETTINGS
from dashboard.pages import amounts, texts

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
        gone, new = [x for x in was if x not in now], [x for x in now if x not in was]
        yield Change(name, _text(name, gone), _text(name, new))
    else:
        yield Change(name, _text(name, was), _text(name, now))


def _text(name: str, value: Any) -> str:
    if value is NOTHING:
        return ""
    text = _said(name, value)
    return text if len(text) <= VALUE_MAX else f"{text[:VALUE_MAX]} …"


def _said(name: str, value: Any) -> str:
    """As words and lists of words, by its name as a time; never as JSON."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(_said(name, inner) for inner in value) or "none"
        case dict():
            said = (f"{key} {_said(key, inner)}" for key, inner in sorted(value.items()))
            return ", ".join(said) or "none"
        case _:
            return _number(name, value) if isinstance(value, int) else str(value)


def _number(name: str, value: int) -> str:
    match SETTINGS.get(name.rpartition(".")[2]):
        case Duration() as setting:
            return amounts.exact_span(value * setting.unit_ms)
        case Size():
            return amounts.exact_size(value)
    if f".{name}".endswith((".at_ms", "_at_ms")):
        return texts.exact(value)
    is_span = name.endswith("_ms") and value >= 0
    return amounts.exact_span(value) if is_span else str(value)
