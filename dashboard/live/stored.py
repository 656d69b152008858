"""A group's keys as they lie in Redis, whatever is in them: for whoever repairs them."""

from collections.abc import Iterable, Mapping, Sequence

from assignment.coordinator.repair import COORDINATION, KINDS, Stored
from assignment.types import Partition
from assignment.wire import GroupKeys
from dashboard.live import groups as live_groups
from dashboard.live.connection import sync_client

OF_MEMBERS = ("owned", "progress", "counts")
NO_MEMBER = ("hold", "wanted", "queued", "running", "coordinator")


def read(group: str, partitions: Sequence[str]) -> Stored:
    keys, pipe = GroupKeys(group), sync_client().pipeline()
    for name in KINDS:
        pipe.type(getattr(keys, name))
    kinds = dict(zip(KINDS, (kind.decode() for kind in pipe.execute()), strict=True))
    kinds = {name: kind for name, kind in kinds.items() if kind != "none"}
    hashes = [name for name, kind in kinds.items() if kind == KINDS[name] == "hash"]
    for name in hashes:
        pipe.hgetall(getattr(keys, name))
    if kinds.get("beats") == "zset":
        pipe.zrange(keys.beats, 0, -1, withscores=True)
    *found, beats = [*pipe.execute(), ()][: len(hashes) + 1]  # of one moment
    rows = dict(zip(hashes, map(_texts, found), strict=True))
    locks = sync_client().mget([_lock(group, name) for name in partitions])
    last = live_groups.last_ids(map(Partition.parse, partitions))
    return Stored(
        kinds=kinds,
        rows=rows,
        beats={_text(member): score for member, score in beats},
        locks={n: lock for n, lock in zip(partitions, locks, strict=True) if lock is not None},
        last={str(partition): offset for partition, offset in last.items()},
        now_ms=live_groups.redis_now_ms(),
    )


def _texts(rows: Mapping[bytes, bytes]) -> dict[str, bytes]:
    return {_text(name): value for name, value in rows.items()}


def _text(name: bytes) -> str:
    return name.decode(errors="surrogateescape")


def _lock(group: str, partition: str) -> str:
    return GroupKeys(group).meta.removesuffix("meta") + f"lock:{partition}"


def forget(group: str, key: str, name: str) -> None:
    """The row; with "" the whole key."""
    if key == "locks":
        sync_client().delete(_lock(group, name))
    elif name:
        sync_client().hdel(getattr(GroupKeys(group), key), _bytes(name))
    else:
        sync_client().delete(getattr(GroupKeys(group), key))


def forget_member(group: str, member: str) -> None:
    """All its rows. Its locks end by themselves: it cannot renew them any more."""
    keys, pipe = GroupKeys(group), sync_client().pipeline()
    for name in (keys.members, keys.reports, keys.asked, keys.target):
        pipe.hdel(name, _bytes(member))
    pipe.zrem(keys.beats, _bytes(member)).execute()


def _bytes(name: str) -> bytes:
    return name.encode(errors="surrogateescape")


def put(group: str, key: str, rows: Mapping[str, str]) -> None:
    if rows:
        sync_client().hset(getattr(GroupKeys(group), key), mapping=dict(rows))


def forget_coordination(group: str, partitions: Iterable[str]) -> None:
    """As if Redis had never heard of its members; offsets, snapshots and events stay."""
    keys, client = GroupKeys(group), sync_client()
    prefix = keys.meta.removesuffix("meta")
    names = [prefix + name for name in (*COORDINATION, *NO_MEMBER)]
    names += [_lock(group, partition) for partition in partitions]
    for kind in OF_MEMBERS:
        names += [name.decode() for name in client.scan_iter(match=f"{prefix}{kind}:*")]
    client.delete(*names)
