"""Durations, counts and sizes as people say and type them: "1 h 30 min", "20 000". Pure.

Each is read and written here alone, so that what a page shows may be typed as it stands.
"""

import re
from fractions import Fraction
from itertools import pairwise

from assignment.errors import InvalidInput

DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS = 86_400_000, 3_600_000, 60_000, 1_000
LONG = (("d", DAY_MS), ("h", HOUR_MS), ("min", MINUTE_MS))
NAMES_MS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), SECOND_MS),
    **dict.fromkeys(("m", "min", "minute", "minutes"), MINUTE_MS),
    **dict.fromkeys(("h", "hour", "hours"), HOUR_MS),
    **dict.fromkeys(("d", "day", "days"), DAY_MS),
}
SIZES = {"TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "B": 1}  # the largest first
MULTIPLES = {"": 1, "k": 1_000, "m": 1_000_000}
TYPED_MAX = 60  # characters
PART = rf"([0-9]+(?:\.[0-9]+)?)\s*({'|'.join(sorted(NAMES_MS, key=len, reverse=True))})\s*"
SPAN = re.compile(rf"(?:{PART})+")
ALONE = re.compile(r"[0-9]+(?:\.[0-9]+)?")
COUNT = re.compile(r"([0-9]{1,3}(?:[\s,][0-9]{3})+|[0-9]+(?:\.[0-9]+)?)\s*([km]?)", re.IGNORECASE)
SIZE = re.compile(r"([0-9]{1,19}(?:\.[0-9]+)?)\s*(?:([KMGT])(iB)?|B)?", re.IGNORECASE)
BETWEEN = re.compile(r"[\s,]")  # thousands


def span(value_ms: float) -> str:
    """A duration in two units at most, rounded down; show.js has the same form."""
    whole_ms = int(abs(value_ms))
    if whole_ms < SECOND_MS:
        return f"{value_ms:.0f} ms"
    if whole_ms < MINUTE_MS:
        return f"{_tenths(whole_ms)} s"
    sizes = [*LONG, ("s", SECOND_MS)]
    if whole_ms < 2 * DAY_MS:
        sizes = sizes[1:]
    (first, size), (second, smaller) = next(
        pair for pair in pairwise(sizes) if whole_ms >= pair[0][1]
    )
    count, rest = divmod(whole_ms, size)
    return f"{count} {first}" + (f" {rest // smaller} {second}" if rest >= smaller else "")


def _tenths(whole_ms: int) -> str:
    return f"{whole_ms // 100 / 10:g}"


def exact_span(value_ms: int) -> str:
    """All of it, in as many units as it takes: what a form shows, and reads back."""
    parts, rest = [], value_ms
    for unit, size in LONG:
        count, rest = divmod(rest, size)
        parts += [f"{count} {unit}"] if count else []
    if rest >= SECOND_MS or (rest and parts):
        parts.append(f"{rest / SECOND_MS:g} s")
    elif rest or not parts:
        parts.append(f"{rest} ms")
    return " ".join(parts)


def parse_span(text: str, alone_ms: int = 1) -> int:
    """Milliseconds. A number without a unit counts in `alone_ms`. InvalidInput names the text."""
    typed = text.strip().lower()
    if len(typed) <= TYPED_MAX and ALONE.fullmatch(typed):
        found = Fraction(typed) * alone_ms
    elif len(typed) <= TYPED_MAX and SPAN.fullmatch(typed):
        parts = re.findall(PART, typed)
        found = sum((Fraction(number) * NAMES_MS[unit] for number, unit in parts), Fraction(0))
    else:
        shown = text[:TYPED_MAX]
        raise InvalidInput(f"{shown!r} is no duration like 10 s, 5 min or 1 h 30 min")
    if found.denominator != 1:
        raise InvalidInput(f"{text!r} is not whole milliseconds")
    return int(found)


def parse_count(text: str) -> int:
    """A whole number, also with spaces between thousands, or in k or M. InvalidInput names it."""
    found = COUNT.fullmatch(text.strip()) if len(text) <= TYPED_MAX else None
    if found is None:
        raise InvalidInput(f"{text[:TYPED_MAX]!r} is no whole number like 500, 20 000 or 20k")
    count = Fraction(BETWEEN.sub("", found[1])) * MULTIPLES[found[2].lower()]
    if count.denominator != 1:
        raise InvalidInput(f"{text!r} is no whole number")
    return int(count)


def exact_size(value: int) -> str:
    """Bytes in the largest unit of which they are a whole number: 512 MiB, 1000 B."""
    unit, size = next((u, s) for u, s in SIZES.items() if not value % s and (value or s == 1))
    return f"{value // size} {unit}"


def parse_size(text: str) -> int:
    """Bytes: a number alone, or with a unit of which the next is 1,024 times as large: 512 MiB,
    1.5 G. InvalidInput names the text.
    """
    found = SIZE.fullmatch(text.strip()) if len(text) <= TYPED_MAX else None
    if found is None:
        raise InvalidInput(f"{text[:TYPED_MAX]!r} is no size like 500 MiB or 2 GiB")
    unit = f"{found[2].upper()}iB" if found[2] else "B"
    size = Fraction(found[1]) * SIZES[unit]
    if size.denominator != 1:
        raise InvalidInput(f"{text!r} is not whole bytes")
    return int(size)
