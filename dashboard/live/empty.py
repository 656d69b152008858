"""Groups in which nobody is: all there is to show of such a group is how far its streams are, which
is read of many at once. Uses no SQL.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from assignment.coordinator.reading import ticked
from assignment.scripts.group_read import Meta, read_meta
from assignment.scripts.rows import UNREADABLE
from assignment.types import START, Partition
from assignment.wire import GroupKeys, StreamKeys
from dashboard.live.advance import StoredAdvance
from dashboard.live.connection import RedisError, StoreUnavailable, sync_client
from dashboard.live.groups import redis_now_ms
from dashboard.live.progress import UNKNOWN, Progress
from dashboard.live.queue import last_ticker
from dashboard.live.reading import Stream
from dashboard.live.scripts import script, try_each

PARTITIONS_MAX = 500  # of one trip to Redis, and of a group: a larger one is read as ever
ANSWERS = 9  # of Redis, of each group


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
    """Those of the groups without a member, a target, a report, a lock, a pause, or anything that
    goes back and forth. Whoever is left out is to be read as ever, which says why: so are all of
    one trip, when a server does not answer.
    """
    found = dict[str, Empty]()
    for names in _parts(groups):
        with suppress(StoreUnavailable):
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
    read = _read(groups)
    progress = _progress({name: groups[name] for name in read}, read)
    ticker, now_ms = last_ticker(), redis_now_ms()  # nodes' clocks go alike, as for leases
    found = dict[str, Empty]()
    for name, (meta, stored) in read.items():
        try:
            known = ticked(read_meta(meta), ticker)
        except UNREADABLE:
            continue
        how_far = progress.get(name)
        if how_far is not None and _is_of(groups[name], known) and not known.flapping:
            lag = how_far.lag()
            found[name] = Empty(
                at_ms=now_ms,
                tick_age_ms=now_ms - known.tick_ms,
                group_epoch=known.group_epoch,
                lag_records=None if (lag == UNKNOWN).any() else int(lag.sum()),
                applied_total=int(how_far.total.sum()),
                stored=stored,
            )
    return found


def _is_of(stream: Stream, meta: Meta) -> bool:
    """False: its settings are others in Redis, or are not there."""
    settings = meta.settings
    return settings is not None and stream == (settings.stream, settings.partitions)


class _Stored(NamedTuple):
    meta: Mapping[bytes, bytes]
    reached: StoredAdvance


def _read(groups: Mapping[str, Stream]) -> dict[str, _Stored]:
    """Of those in which nobody is."""
    pipe = sync_client().pipeline(transaction=False)
    for name, stream in groups.items():
        keys = GroupKeys(name)
        pipe.hgetall(keys.meta)
        for key in (keys.members, keys.target, keys.reports, keys.pauses):
            pipe.hlen(key)
        pipe.exists(*(keys.lock(str(partition)) for partition in _of(stream)))
        for key in StoredAdvance.keys(name):
            pipe.hgetall(key)
    answers, found = iter(pipe.execute(raise_on_error=False)), dict[str, _Stored]()
    for name in groups:
        of_group = [*islice(answers, ANSWERS)]
        if any(isinstance(answer, Exception) for answer in of_group):
            continue
        meta, *counts = of_group[:-3]
        if not any(counts):
            found[name] = _Stored(meta, StoredAdvance.of(of_group[-3:]))
    return found


def _progress(groups: Mapping[str, Stream], read: Mapping[str, _Stored]) -> dict[str, Progress]:
    """Without those whose rows are damaged."""
    rows = {name: _rows(stream, read[name].reached) for name, stream in groups.items()}
    asked = []
    for name, stream in groups.items():
        keys = StreamKeys(stream.name)
        for number, offset in enumerate(rows[name].offsets):
            of = keys.entries(number), keys.producers(number)
            asked.append((of, [offset or str(START)]))
    answers = iter(try_each(script("appended"), asked))
    found = dict[str, Progress]()
    for name, stream in groups.items():
        told, made = islice(answers, stream.partitions), Progress(stream.partitions)
        backlog = [b"" if isinstance(one, RedisError) else one for one in told]
        with suppress(*UNREADABLE):
            made.take(range(stream.partitions), 0, *rows[name], backlog)
            found[name] = made
    return found


class _Rows(NamedTuple):
    """Of each partition."""

    offsets: list[bytes | None]
    applied: list[bytes | None]


def _rows(stream: Stream, reached: StoredAdvance) -> _Rows:
    names = [str(partition).encode() for partition in _of(stream)]

    def of(row: Sequence[bytes]) -> list[bytes | None]:
        return [*map(dict(zip(row[::2], row[1::2], strict=True)).get, names)]

    return _Rows(of(reached.offsets), of(reached.applied))


def _of(stream: Stream) -> Sequence[Partition]:
    return [Partition(stream.name, number) for number in range(stream.partitions)]
