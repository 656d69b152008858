"""Reads what was appended, committed and refused, for checks. Changes nothing."""

from collections.abc import Iterator
from typing import Any

from assignment.types import Partition
from assignment.wire import ChangelogEntry, GroupKeys, StreamKeys, parse_changelog
from dashboard.live.connection import reaching_redis, sync_client

ENTRIES_AT_ONCE = 1_000
FIRST_ENTRY = "0-0"
Entry = tuple[str, dict[bytes, bytes]]  # id, fields


def entries(group: str, partition: Partition) -> Iterator[ChangelogEntry]:
    """All that the changelog still holds, oldest first. Raises StoreUnavailable."""
    for entry_id, fields in all_of(GroupKeys(group).changelog(partition)):
        yield parse_changelog(entry_id, fields)


def refused(group: str) -> dict[tuple[str, int], int]:
    """(partition, fence) -> how many of its commits were refused."""
    with reaching_redis():
        counts = sync_client().hgetall(GroupKeys(group).refused)
    found = {}
    for name, count in counts.items():
        partition, _, fence = name.decode().rpartition(" ")
        found[(partition, int(fence))] = int(count)
    return found


def appended(stream: str, number: int) -> Iterator[Entry]:
    """All that lies in a partition of the stream, in order. Raises StoreUnavailable."""
    return all_of(StreamKeys(stream).entries(number))


def all_of(key: str, client: Any = None) -> Iterator[Entry]:
    """Entries of a stream from the first one on. Raises StoreUnavailable."""
    after = FIRST_ENTRY
    while True:
        with reaching_redis():
            found = (client or sync_client()).xrange(key, min=f"({after}", count=ENTRIES_AT_ONCE)
        for entry_id, fields in found:
            after = entry_id.decode()
            yield after, fields
        if len(found) < ENTRIES_AT_ONCE:
            return
