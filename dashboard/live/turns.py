"""When work that comes again and again was done last for each name, and when it is due again: a
hash of the dashboard's own. Where it is lost, everything is due.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dashboard.live.connection import own_key, sync_client


class Turn(NamedTuple):
    """Times by the clock of Redis. `took_ms`: the work itself, the last time."""

    done_ms: int
    due_ms: int
    took_ms: int = 0


def turns(of: str) -> dict[str, Turn]:
    """Of this work, by name; without what cannot be read. Raises StoreUnavailable."""
    stored = sync_client().hgetall(_key(of)).items()
    found = ((name.decode(errors="replace"), value.split()) for name, value in stored)
    return {
        name: Turn(*map(int, times))
        for name, times in found
        if len(times) == len(Turn._fields) and all(map(bytes.isdigit, times))
    }


def keep(of: str, taken: Mapping[str, Turn], gone: Iterable[str] = ()) -> None:
    """Raises StoreUnavailable."""
    pipe, left = sync_client().pipeline(transaction=False), list(gone)
    if left:
        pipe.hdel(_key(of), *left)
    if taken:
        pipe.hset(
            _key(of), mapping={name: " ".join(map(str, turn)) for name, turn in taken.items()}
        )
    if left or taken:
        pipe.execute()


def _key(of: str) -> str:
    return own_key(f"turns:{of}")
