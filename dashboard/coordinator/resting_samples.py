"""What samples of groups need that rest without members. Only their streams go on, so no more is
read than how far those are, of many groups at once; all else is as in the sample before.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from assignment.scripts.group_read import TICKER_AWAY_MS
from assignment.scripts.rows import UNREADABLE
from assignment.scripts.values import pairs_of
from assignment.types import START, Partition
from assignment.wire import StreamKeys
from dashboard.live import groups as live_groups
from dashboard.live.connection import RedisError
from dashboard.live.groups import StoredAdvance
from dashboard.live.progress import UNKNOWN, Progress
from dashboard.live.queue import last_ticker
from dashboard.live.scripts import try_each
from dashboard.models import Group, Sample

PARTITIONS_MAX = 500  # of one trip to Redis, and of a group: a larger one is read as ever


class Still(NamedTuple):
    """A group that is as it was at `before`, but for its streams. `lag_records` None: not known."""

    group: Group
    before: Sample
    at_ms: int
    tick_age_ms: int
    lag_records: int | None
    applied_total: int
    stored: StoredAdvance


def still(
    groups: Iterable[Group], quiet: Mapping[str, int], before: Mapping[int, Sample]
) -> list[Still]:
    """Those of them that are so. `quiet`: names of groups that rest without members -> since when;
    `before`: the newest sample by key. Raises StoreUnavailable.
    """
    ticker, now_ms = last_ticker(), live_groups.redis_now_ms()
    if now_ms - ticker.seen_ms > TICKER_AWAY_MS:
        return []  # nobody would have noticed a change
    same = [
        group
        for group in groups
        if group.name in quiet
        and group.partitions <= PARTITIONS_MAX
        and group.pk in before
        and quiet[group.name] <= before[group.pk].at_ms < now_ms
        and _is_plain(before[group.pk])
    ]
    return [
        Still(
            group=group,
            before=before[group.pk],
            at_ms=now_ms,
            tick_age_ms=now_ms - ticker.seen_ms,
            lag_records=None if (progress.lag() == UNKNOWN).any() else int(progress.lag().sum()),
            applied_total=int(progress.total.sum()),
            stored=stored,
        )
        for part in _parts(same)
        for group, stored, progress in _read(part, now_ms)
    ]


def _is_plain(sample: Sample) -> bool:
    """Nobody and nothing but the streams was in it."""
    seen = (sample.members, sample.owned, sample.conflicts, sample.stalled, sample.paused)
    return not any(seen) and not sample.flapping


def _parts(groups: Iterable[Group]) -> Iterator[list[Group]]:
    part, size = list[Group](), 0
    for group in groups:
        if part and size + group.partitions > PARTITIONS_MAX:
            yield part
            part, size = [], 0
        part.append(group)
        size += group.partitions
    if part:
        yield part


def _read(groups: Sequence[Group], now_ms: int) -> Iterator[tuple[Group, StoredAdvance, Progress]]:
    """Without those whose rows are damaged."""
    stored = live_groups.advanced([group.name for group in groups])
    offsets = [dict(pairs_of(one.offsets)) for one in stored]
    asked = list[tuple[tuple[str, str], list[bytes]]]()
    for group, of_group in zip(groups, offsets, strict=True):
        keys = StreamKeys(group.stream)
        for number in range(group.partitions):
            offset = of_group.get(_name(group, number), str(START).encode())
            asked.append(((keys.entries(number), keys.producers(number)), [offset]))
    answers = iter(try_each("appended", asked))
    for group, rows, of_group in zip(groups, stored, offsets, strict=True):
        names = [_name(group, number) for number in range(group.partitions)]
        backlog = [b"" if isinstance(a, RedisError) else a for a in islice(answers, len(names))]
        applied = dict(pairs_of(rows.applied))
        progress = Progress(len(names))
        try:
            columns = [*map(of_group.get, names)], [*map(applied.get, names)], backlog
            progress.take(range(len(names)), now_ms, *columns)
        except UNREADABLE:
            continue
        yield group, rows, progress


def _name(group: Group, number: int) -> str:
    return str(Partition(group.stream, number))
