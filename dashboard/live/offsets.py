"""What people need to know before they set a committed offset: how many events lie between."""

from typing import cast

import redis

from assignment.types import Offset, Partition
from assignment.wire import GroupKeys, StreamKeys
from dashboard.live import decoded, events
from dashboard.live.connection import client_at, sync_client

COUNTED_MAX = 1_000  # entries that are read one by one: as many as lie between two index points
HOLD_MS = 600_000  # longer than a process stands still that read offsets and then trims by them


def hold(partition: Partition, offset: Offset) -> None:
    """From now on nothing above it is trimmed by whoever read committed offsets before. A lower one
    stays: it may be of another group of the stream.
    """
    key = StreamKeys(partition.stream).hold(partition.number)

    def lower(pipe: redis.client.Pipeline) -> None:
        before = cast(bytes | None, pipe.get(key))
        held = offset if before is None else min(offset, Offset.parse(before.decode()))
        pipe.multi()
        pipe.set(key, str(held), px=HOLD_MS)

    client_at(key).transaction(lower, key)


def events_between(partition: Partition, low: Offset, high: Offset) -> int | None:
    """Events of the entries in (low, high]; one that cannot be read counts as one, as it does among
    dead letters. None: they are too many to be counted, and no producer library counted them.
    """
    if low >= high:
        return 0
    if (found := _counted(partition, f"({low}", high)) is not None:
        return found
    at_low, at_high = _up_to(partition, low), _up_to(partition, high)
    return None if at_low is None or at_high is None else max(0, at_high - at_low)


def _up_to(partition: Partition, offset: Offset) -> int | None:
    """Events of the partition, by its index and what lies behind the point."""
    keys, client = StreamKeys(partition.stream), sync_client()
    index = keys.index(partition.number)
    points = client.xrevrange(index, str(offset), "-", count=1)
    if not points:
        return None
    point, values = points[0]
    behind = _counted(partition, f"({point.decode()}", offset)
    return None if behind is None else int(values[b"events"]) + behind


def _counted(partition: Partition, low: str, high: Offset) -> int | None:
    piece = events.look(partition, low, str(high), COUNTED_MAX)
    is_all = not piece.entries or piece.entries[-1].entry_id >= high
    if not is_all:
        behind = f"({piece.entries[-1].entry_id}"
        is_all = not events.look(partition, behind, str(high), 1).entries
    if not is_all:
        return None
    return sum(decoded.decoded(one, frozenset()).count or 1 for one in piece.entries)


def effects_of(group: str) -> str:
    """Where effects live, as the first consumer says that says so; "": none does."""
    keys, pipe = GroupKeys(group), sync_client().pipeline(transaction=False)
    for member in sorted(sync_client().hkeys(keys.members)):
        pipe.hget(keys.progress(member.decode()), "effects")
    return next((found.decode() for found in pipe.execute() if found), "")
