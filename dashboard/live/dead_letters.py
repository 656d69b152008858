"""Dead letters of a group in Redis: how many, a look at some, and their removal."""

from collections.abc import Sequence

import redis

from assignment.scripts import dead_letters as scripts
from assignment.scripts.dead_letters import Bounds, KeptLetters, LetterId
from assignment.types import Offset, Partition
from assignment.wire import GroupKeys
from dashboard.live.connection import StoreUnavailable, sync_client
from dashboard.live.scripts import run

COUNTED_AT_ONCE = 1_000  # partitions, so that Redis answers others in between


def counts(group: str, partitions: Sequence[Partition]) -> dict[Partition, int]:
    """Of those that have some. Raises StoreUnavailable."""
    found: list[int] = []
    for n in range(0, len(partitions), COUNTED_AT_ONCE):
        pipe = sync_client().pipeline(transaction=False)
        for partition in partitions[n : n + COUNTED_AT_ONCE]:
            pipe.xlen(GroupKeys(group).dead(partition))
        try:
            found += pipe.execute()
        except redis.ResponseError as error:
            raise _unreadable(group, error) from error
    return {p: count for p, count in zip(partitions, found, strict=True) if count}


def look(
    group: str,
    partitions: Sequence[Partition],
    bounds: Bounds,
    *,
    reason: str,
    below: Offset | None = None,
    until_ms: int | None = None,
) -> KeptLetters:
    """As scripts.dead_letters. Raises StoreUnavailable."""
    asked = scripts.dead_letters(partitions, bounds, reason=reason, below=below, until_ms=until_ms)
    try:
        return run(asked, group)
    except redis.ResponseError as error:
        raise _unreadable(group, error) from error


def discard(group: str, stream: str, letters: Sequence[LetterId]) -> list[LetterId]:
    """Those that were there until now. Raises StoreUnavailable."""
    named = [(Partition(stream, one.number), one.at) for one in letters]
    try:
        gone = run(scripts.discard(named), group)
    except redis.ResponseError as error:
        raise _unreadable(group, error) from error
    return [one for one, is_gone in zip(letters, gone, strict=True) if is_gone]


def _unreadable(group: str, error: redis.ResponseError) -> StoreUnavailable:
    return StoreUnavailable(f"group {group!r}: its dead letters cannot be read: {error}")
