"""Dead letters of a group in Redis: how many, a look at some, what people do with them."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import redis

from assignment.scripts import dead_letters as scripts
from assignment.scripts.dead_letters import Bounds, KeptLetters, LetterId
from assignment.scripts.values import Call
from assignment.types import Offset, Partition
from assignment.wire import GroupKeys, StreamKeys
from dashboard.live.connection import StoreUnavailable, sync_client
from dashboard.live.scripts import run, run_each

T = TypeVar("T")
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


def discard(
    group: str, stream: str, letters: Sequence[LetterId]
) -> dict[LetterId, scripts.Discard]:
    """What became of each. Raises StoreUnavailable."""
    return _run_on(group, letters, scripts.discard(_named(stream, letters)))


def replay(
    group: str, stream: str, letters: Sequence[LetterId], actor: str
) -> dict[LetterId, scripts.Replay]:
    """What became of asking for each. Raises StoreUnavailable."""
    return _run_on(group, letters, scripts.replay(_named(stream, letters), actor))


def make_room(letters: Mapping[Partition, int]) -> None:
    """For so many of each to be committed, also when no event comes. Raises StoreUnavailable."""
    run_each(
        "make_room",
        [
            ([StreamKeys(partition.stream).entries(partition.number)], [str(count)])
            for partition, count in letters.items()
        ],
    )


def _named(stream: str, letters: Sequence[LetterId]) -> list[tuple[Partition, Offset]]:
    return [(Partition(stream, one.number), one.at) for one in letters]


def _run_on(
    group: str, letters: Sequence[LetterId], call: Call[tuple[T, ...]]
) -> dict[LetterId, T]:
    try:
        answers: tuple[T, ...] = run(call, group)
        return dict(zip(letters, answers, strict=True))
    except redis.ResponseError as error:
        raise _unreadable(group, error) from error


def _unreadable(group: str, error: redis.ResponseError) -> StoreUnavailable:
    return StoreUnavailable(f"group {group!r}: its dead letters cannot be read: {error}")
