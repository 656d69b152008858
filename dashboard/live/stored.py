"""A group's keys as they lie in Redis, whatever is in them: for whoever repairs them."""

from collections.abc import Iterable, Mapping, Sequence

from assignment.coordinator.repair import COORDINATION, KINDS, Stored
from assignment.types import Partition
from assignment.wire import GroupKeys
from dashboard.live import groups as live_groups
from dashboard.live.connection import client_at, sync_client

OF_MEMBERS = ("owned", "progress", "counts", "hints")
NO_MEMBER = ("calls", "hold", "wanted", "queued", "running", "coordinator")


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
        now_ms=live_groups.redis_now_ms(group),
    )


def _texts(rows: Mapping[bytes, bytes]) -> dict[str, bytes]:
    return {_text(name): value for name, value in rows.items()}


def _text(name: bytes) -> str:
    return name.decode(errors="surrogateescape")


def _lock(group: str, partition: str) -> str:
    return GroupKeys(group).meta.removesuffix("meta") + f"lock:{partition}"


# Agents and ticks go on meanwhile: what is not any more as it was found is left alone.
_IF_AS_FOUND = {
    "row": """if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
        return redis.call('HDEL', KEYS[1], ARGV[1])""",
    "lock": """if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
        return redis.call('DEL', KEYS[1])""",
    "key": """if redis.call('TYPE', KEYS[1])['ok'] ~= ARGV[1] then return 0 end
        return redis.call('DEL', KEYS[1])""",
    "member": """if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
        for n = 1, 4 do redis.call('HDEL', KEYS[n], ARGV[1]) end
        return redis.call('ZREM', KEYS[5], ARGV[1])""",
}


def forget(group: str, key: str, name: str, found: Stored) -> bool:
    """The row; with "" the whole key. Whether it was still as it was found."""
    if key == "locks":
        return _done("lock", [_lock(group, name)], found.locks[name])
    keys = [getattr(GroupKeys(group), key)]
    if not name:
        return _done("key", keys, found.kinds[key])
    return _done("row", keys, _bytes(name), found.rows[key][name])


def forget_member(group: str, member: str, found: Stored) -> bool:
    """All its rows, unless it joined anew. Its locks end by themselves: it cannot renew them any
    more.
    """
    of = GroupKeys(group)
    row = found.rows.get("members", {}).get(member, b"")
    keys = [of.members, of.reports, of.asked, of.target, of.beats]
    return _done("member", keys, _bytes(member), row)


def _done(what: str, keys: Sequence[str], *values: str | bytes) -> bool:
    return bool(sync_client().eval(_IF_AS_FOUND[what], len(keys), *keys, *values))


def _bytes(name: str) -> bytes:
    return name.encode(errors="surrogateescape")


def put(group: str, key: str, rows: Mapping[str, str]) -> None:
    if rows:
        sync_client().hset(getattr(GroupKeys(group), key), mapping=dict(rows))


def put_missing(group: str, key: str, rows: Mapping[str, str]) -> None:
    """Those that nobody has written meanwhile."""
    pipe = sync_client().pipeline()
    for name, value in rows.items():
        pipe.hsetnx(getattr(GroupKeys(group), key), name, value)
    pipe.execute()


def forget_coordination(group: str, partitions: Iterable[str]) -> None:
    """As if Redis had never heard of its members; offsets, snapshots and events stay."""
    keys = GroupKeys(group)
    client = client_at(keys.meta)
    prefix = keys.meta.removesuffix("meta")
    names = [prefix + name for name in (*COORDINATION, *NO_MEMBER)]
    names += [_lock(group, partition) for partition in partitions]
    for kind in OF_MEMBERS:
        names += [name.decode() for name in client.scan_iter(match=f"{prefix}{kind}:*")]
    client.delete(*names)
