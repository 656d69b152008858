"""Durations, sizes and counts as people say and type them: "1 h 30 min", "64 MiB". Pure.

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
MULTIPLES = {"": 1, "k": 1_000, "m": 1_000_000}
BYTES = {"tib": 2**40, "gib": 2**30, "mib": 2**20, "kib": 2**10, "b": 1, "": 1}
SIZE = re.compile(rf"([0-9]+(?:\.[0-9]+)?)\s*({'|'.join(BYTES)})", re.IGNORECASE)
TYPED_MAX = 60  # characters
PART = rf"([0-9]+(?:\.[0-9]+)?)\s*({'|'.join(sorted(NAMES_MS, key=len, reverse=True))})\s*"
SPAN = re.compile(rf"(?:{PART})+")
ALONE = re.compile(r"[0-9]+(?:\.[0-9]+)?")
COUNT = re.compile(r"([0-9]{1,3}(?:[\s,][0-9]{3})+|[0-9]+(?:\.[0-9]+)?)\s*([km]?)", re.IGNORECASE)
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
    """In the largest unit that divides it: what a form shows, and reads back."""
    unit = next(name for name, size in BYTES.items() if size <= max(value, 1) and not value % size)
    return f"{value // BYTES[unit]} {unit[:1].upper()}{unit[1:].replace('b', 'B')}"


def parse_size(text: str) -> int:
    """Bytes. A number without a unit is bytes. InvalidInput names the text."""
    found = SIZE.fullmatch(text.strip()) if len(text) <= TYPED_MAX else None
    if found is None:
        raise InvalidInput(f"{text[:TYPED_MAX]!r} is no size like 512 KiB, 64 MiB or 1 GiB")
    size = Fraction(found[1]) * BYTES[found[2].lower()]
    if size.denominator != 1:
        raise InvalidInput(f"{text!r} is not whole bytes")
    return int(size)
