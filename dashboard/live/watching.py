"""Reads what pages and sockets show of a group: two trips to Redis, no SQL."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import redis
from django.conf import settings

from assignment.bounds import NAME_MAX, printable, shortened
from assignment.errors import Damaged
from assignment.scripts.group_read import Purpose, read_group
from assignment.scripts.rows import read_since
from assignment.types import GroupSettings, Offset, Partition
from assignment.wire import GroupKeys, StreamKeys
from dashboard.live.connection import GroupDamaged, StoreUnavailable, sync_client
from dashboard.live.reported import Mode
from dashboard.live.scripts import script
from dashboard.live.snapshot import Backlog, LiveSnapshot, build

FIRST = Offset(0, 0)
KEPT_PARTITIONS_MAX = 200_000  # of all last snapshots together, some 100 MB

_kept: OrderedDict[tuple[str, str], LiveSnapshot] = OrderedDict()  # by server and group
_keeping = threading.Lock()


class GroupNotThere(StoreUnavailable):
    """Redis answers, but holds no such group: it was wiped, or the group is just being made."""


def last_snapshot(group: str) -> LiveSnapshot | None:
    """What this process saw of the group when Redis answered last; None when it never did."""
    return _kept.get((settings.REDIS_URL, group))


def _keep(key: tuple[str, str], found: LiveSnapshot | None) -> None:
    with _keeping:
        _kept.pop(key, None)
        if found is not None:
            _kept[key] = found
        size = sum(len(one.partitions) for one in _kept.values())
        while size > KEPT_PARTITIONS_MAX:
            _, oldest = _kept.popitem(last=False)
            size -= len(oldest.partitions)


def snapshot(group: str) -> LiveSnapshot:
    """Raises StoreUnavailable, GroupNotThere."""
    key = settings.REDIS_URL, group
    try:
        found = _read(group)
    except GroupNotThere:
        _keep(key, None)
        raise
    _keep(key, found)
    return found


def _read(group: str) -> LiveSnapshot:
    pipe = sync_client().pipeline()
    call = read_group(Purpose.LOOK)
    pipe.eval(script(call.script).text, 1, GroupKeys(group).meta, *call.args)
    pipe.hgetall(GroupKeys(group).since)
    pipe.script_load(script("appended").text)  # the second trip calls it for each partition
    pipe.get(GroupKeys(group).coordinator)
    try:
        raw, since, _, computes = pipe.execute()
        read = call.read(raw)
        granted, _ = read_since(since)
    except (Damaged, redis.ResponseError) as error:
        raise GroupDamaged(group, error) from error
    if read.meta.settings is None:
        raise GroupNotThere(f"group {group!r} is not set up in Redis yet")
    backlog = _backlog(read.meta.settings, read.offsets)
    mode = Mode(read.meta.coordination, read.meta.mode_epoch, _name(computes or b""))
    return replace(build(group, read, granted, backlog), mode=mode)


def _name(stored: bytes) -> str:
    """Whoever may write to the group's keys may have written it."""
    return printable(shortened(stored.decode(errors="replace"), NAME_MAX))


def _backlog(of: GroupSettings, committed: Mapping[Partition, Offset]) -> list[Backlog]:
    keys, sha = StreamKeys(of.stream), script("appended").sha
    pipe = sync_client().pipeline()
    for number in range(of.partitions):
        offset = str(committed.get(Partition(of.stream, number), FIRST))
        pipe.evalsha(sha, 2, keys.entries(number), keys.producers(number), offset)
    answers = pipe.execute(raise_on_error=False)
    return [_read_backlog(answer) for answer in answers]


def _read_backlog(answer: Any) -> Backlog:
    """What the producer library counted, and one for every entry that came without it."""
    if isinstance(answer, redis.RedisError):
        return Backlog(None)
    events, entries, added, first, _ = answer
    first_ms = int(first.partition(b"-")[0]) if first else None
    if not added:  # Redis 6.2 does not count what others add
        return Backlog(int(events) if int(entries) else None, first_ms)
    return Backlog(int(events) + max(0, int(added) - int(entries)), first_ms)
