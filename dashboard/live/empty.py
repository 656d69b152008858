"""Groups in which nobody is: all there is to show of such a group is how far its streams are, which
is read of many at once. Uses no SQL.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from assignment.coordinator.reading import ticked
from assignment.scripts.group_read import read_meta
from assignment.scripts.rows import UNREADABLE
from assignment.scripts.values import pairs_of
from assignment.types import START, Partition
from assignment.wire import GroupKeys, StreamKeys
from dashboard.live.connection import RedisError, sync_client
from dashboard.live.groups import StoredAdvance, advanced, redis_now_ms
from dashboard.live.progress import UNKNOWN, Progress
from dashboard.live.queue import last_ticker
from dashboard.live.scripts import try_each

PARTITIONS_MAX = 500  # of one trip to Redis, and of a group: a larger one is read as ever
# Of `meta`: that the group is there, and what a sample shows.
META = ("identity", "group_epoch", "tick_ms", "away", "coordination", "flapping")


class Stream(NamedTuple):
    name: str
    partitions: int


class Empty(NamedTuple):
    """`tick_age_ms`, `group_epoch`: as in a snapshot; `lag_records` None: not known; `stored`: what
    its consumers once reached.
    """

    at_ms: int
    tick_age_ms: int
    group_epoch: int
    lag_records: int | None
    applied_total: int
    stored: StoredAdvance


def empty(groups: Mapping[str, Stream]) -> dict[str, Empty]:
    """Those of the groups without a member, a report, a lock, a pause, or anything that goes back
    and forth. Raises StoreUnavailable.
    """
    found = dict[str, Empty]()
    for names in _parts(groups):
        found |= _empty({name: groups[name] for name in names})
    return found


def _parts(groups: Mapping[str, Stream]) -> Iterator[list[str]]:
    part, size = list[str](), 0
    for name, (_, partitions) in groups.items():
        if partitions > PARTITIONS_MAX:
            continue
        if size + partitions > PARTITIONS_MAX:
            yield part
            part, size = [], 0
        part.append(name)
        size += partitions
    if part:
        yield part


def _empty(groups: Mapping[str, Stream]) -> dict[str, Empty]:
    metas = {name: meta for name, meta in _metas(groups).items() if meta is not None}
    stored = dict(zip(metas, advanced([*metas]), strict=True))
    progress = _progress({name: groups[name] for name in metas}, stored)
    ticker, now_ms = last_ticker(), redis_now_ms()
    found = dict[str, Empty]()
    for name, meta in metas.items():
        try:
            known = ticked(read_meta(meta), ticker)
        except UNREADABLE:
            continue
        if (how_far := progress.get(name)) is not None and not known.flapping:
            lag = how_far.lag()
            found[name] = Empty(
                at_ms=now_ms,
                tick_age_ms=now_ms - known.tick_ms,
                group_epoch=known.group_epoch,
                lag_records=None if (lag == UNKNOWN).any() else int(lag.sum()),
                applied_total=int(how_far.total.sum()),
                stored=stored[name],
            )
    return found


def _metas(groups: Mapping[str, Stream]) -> dict[str, dict[str, bytes] | None]:
    """What `meta` says of each; None where somebody is in it, or it is not there."""
    pipe = sync_client().pipeline(transaction=False)
    for name, stream in groups.items():
        keys = GroupKeys(name)
        pipe.hmget(keys.meta, *META)
        for key in (keys.members, keys.reports, keys.pauses):
            pipe.hlen(key)
        pipe.exists(*map(keys.lock, map(str, _of(stream))))
    answers, found = iter(pipe.execute(raise_on_error=False)), dict[str, dict[str, bytes] | None]()
    for name in groups:
        values, *counts = islice(answers, 5)
        is_sound = not any(isinstance(answer, Exception) for answer in (values, *counts))
        is_empty = is_sound and values[0] is not None and not any(counts)
        found[name] = (
            {n: v for n, v in zip(META, values, strict=True) if v is not None} if is_empty else None
        )
    return found


def _progress(
    groups: Mapping[str, Stream], stored: Mapping[str, StoredAdvance]
) -> dict[str, Progress]:
    """Without those whose rows are damaged."""
    offsets = {name: dict(pairs_of(stored[name].offsets)) for name in groups}
    asked = []
    for name, stream in groups.items():
        keys = StreamKeys(stream.name)
        for partition in _of(stream):
            offset = offsets[name].get(str(partition), str(START).encode())
            of = keys.entries(partition.number), keys.producers(partition.number)
            asked.append((of, [offset]))
    answers = iter(try_each("appended", asked))
    found = dict[str, Progress]()
    for name, stream in groups.items():
        texts, applied = [*map(str, _of(stream))], dict(pairs_of(stored[name].applied))
        told = islice(answers, len(texts))
        backlog = [b"" if isinstance(one, RedisError) else one for one in told]
        made = Progress(len(texts))
        rows = [*map(offsets[name].get, texts)], [*map(applied.get, texts)], backlog
        try:
            made.take(range(len(texts)), 0, *rows)
        except UNREADABLE:
            continue
        found[name] = made
    return found


def _of(stream: Stream) -> Sequence[Partition]:
    return [Partition(stream.name, number) for number in range(stream.partitions)]
