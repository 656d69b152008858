"""Values as people read and write them, on page and socket alike: numbers, times, fences."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby

from assignment.bounds import MOMENT_MAX
from assignment.errors import InvalidInput
from assignment.pauses import Pause

THIN = "\u202f"  # narrow no-break space between thousands
DASH = "—"
INCARNATION_BITS = 32
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST_MS = (datetime.min.replace(tzinfo=UTC) - EPOCH) // timedelta(milliseconds=1)
MILLISECONDS = re.compile(r"[0-9]{11,14}")
# What is not seen, or changes how others are: controls but for tabs and ends of lines, marks of
# direction, zero width and tags. Joiners are left: scripts and emoji are written with them.
UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\U000e0000-\U000e007f]"
)


def grouped(value: float, decimals: int = 0) -> str:
    return f"{value:,.{decimals}f}".replace(",", THIN)


def percent(share: float) -> str:
    """100 % only when it is all."""
    shown = 100.0 if share >= 1 else min(share * 100, 99.9)
    return f"{shown:.0f}{THIN}%" if shown in (0.0, 100.0) else f"{shown:.1f}{THIN}%"


def utc(at_ms: int) -> datetime:
    """What is not within the years 1 to 9999 is shown as the nearest that is: a page does not fail
    for what stands in a row.
    """
    return EPOCH + timedelta(milliseconds=min(max(at_ms, EARLIEST_MS), MOMENT_MAX))


def exact(moment: int | datetime) -> str:
    """ISO text in UTC to the millisecond, as `?at=` takes it."""
    at = utc(moment) if isinstance(moment, int) else moment.astimezone(UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def paused_by(pause: Pause | None) -> str:
    """ "since ..., by ...: why"; "" for none."""
    if pause is None:
        return ""
    who = pause.actor or "nobody known"
    why = f": {pause.reason}" if pause.reason else ""
    return f"since {utc(pause.at_ms):%Y-%m-%d %H:%M:%S} UTC, by {who}{why}"


def parse_moment(text: str) -> int:
    """Milliseconds since 1970; InvalidInput names what cannot be read. Without a zone it is UTC."""
    text = text.strip()
    if MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"time {text!r} is not like 2026-01-31T03:12:00 (UTC) or milliseconds since 1970"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    at_ms = round(moment.timestamp() * 1000)
    try:
        EPOCH + timedelta(milliseconds=at_ms)
    except OverflowError:
        raise InvalidInput(f"time {text!r} is not within the years 1 to 9999 in UTC") from None
    return at_ms


def runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """(first, last) of numbers in a row."""
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        found = [number for _, number in run]
        yield found[0], found[-1]


def fence(value: int) -> str:
    """Fences are long: incarnation and counter."""
    return f"{value >> INCARNATION_BITS}.{value & (2**INCARNATION_BITS - 1)}"


def visible(text: str) -> str:
    """With the number of each character that is not seen in its place: [U+202E]."""
    return UNSEEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)


def short_member(member_id: str) -> str:
    """Ids are name and random: the random part is cut to six signs."""
    name, dash, random = member_id.rpartition("-")
    return f"{name}-{random[:6]}" if dash and len(random) > 8 else member_id
