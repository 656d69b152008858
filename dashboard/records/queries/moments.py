"""Reads a moment as people write it: ISO text in UTC, or milliseconds."""

import re
from datetime import UTC, datetime

from assignment.errors import InvalidInput

MILLISECONDS = re.compile(r"\d{11,14}")


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
    return round(moment.timestamp() * 1000)
