"""Every few seconds: numbers for the charts, what needs attention, the mirror for a wiped Redis,
and trimming of what all have read.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from assignment.coordinator import trimming
from assignment.errors import InvalidInput
from assignment.scripts.group_read import Purpose
from assignment.types import GroupSettings, Partition
from dashboard.coordinator import attending, mirror, strips
from dashboard.live import groups as live_groups
from dashboard.live import settled, watching
from dashboard.live.connection import StoreUnavailable
from dashboard.live.following import GroupNotThere
from dashboard.models import Group, Sample
from dashboard.records.queries import attention, flapping

SAMPLES_KEPT_MS = 7 * 86_400_000
PRUNE_EVERY = 100  # samples of a group between two prunings

AS_SEEN = (
    *("lag_records", "applied_total", "members", "owned", "conflicts", "stalled"),
    *("paused", "pausing", "lag_paused"),
)
SILENT = ("suspect", "unreachable", "lost")

log = logging.getLogger(__name__)


def sample() -> int:
    """How many groups were sampled. Raises StoreUnavailable."""
    taken = 0
    for group in Group.objects.all():
        try:
            _sample(group)
            mirror.keep(group, live_groups.read(group.name, Purpose.LOOK))
            taken += 1
        except GroupNotThere:
            continue  # the tick sets it up
        except StoreUnavailable as error:
            live_groups.redis_now_ms()  # is away too when it is Redis, and not what it has of one
            log.error("sample failed group=%s: %s", group.name, error)
        except Exception:  # the top of a loop
            log.exception("sample failed group=%s", group.name)
    return taken


def _sample(group: Group) -> None:
    snapshot = watching.snapshot(group.name, whole=True)
    before = group.samples.order_by("-at_ms").first()
    if before is not None and before.at_ms >= snapshot.at_ms:
        return
    numbers, limits = snapshot.numbers, attention.limits_of(group)
    row = Sample.objects.create(
        group=group,
        at_ms=snapshot.at_ms,
        events_per_second=_rate(before, snapshot.at_ms, numbers.applied_total),
        suspect=sum(m.state in SILENT for m in snapshot.members),
        flapping=flapping.why(group, snapshot.at_ms, limits),
        member_states=Counter(m.state for m in snapshot.members),
        group_epoch=snapshot.group_epoch,
        tick_age_ms=snapshot.tick_age_ms,
        **{name: getattr(numbers, name) for name in AS_SEEN},
    )
    strips.keep(group, snapshot)
    attending.look(group, row, limits)
    if row.pk % PRUNE_EVERY == 0:
        attending.prune(group, snapshot.at_ms)
        group.samples.filter(at_ms__lt=snapshot.at_ms - SAMPLES_KEPT_MS).delete()


def _rate(before: Sample | None, at_ms: int, applied_total: int | None) -> float | None:
    """Events applied a second since the sample before; None when they cannot be compared."""
    if before is None or before.applied_total is None or applied_total is None:
        return None
    applied = applied_total - before.applied_total
    return applied * 1000 / (at_ms - before.at_ms) if applied >= 0 else None


def trim() -> int:
    """Drops events that every group of their stream has committed; how many entries went."""
    groups = list(Group.objects.all())
    dropped = 0
    for stream, partitions in sorted({(g.stream, g.partitions) for g in groups}):
        known = {g.name: g.values for g in groups if g.stream == stream}
        try:
            dropped += _trim(stream, partitions, known)
        except (InvalidInput, StoreUnavailable) as error:
            live_groups.redis_now_ms()  # is away too when it is Redis, and not what it has of one
            log.error("stream=%s not trimmed: %s", stream, error)
        except Exception:  # the top of a loop
            log.exception("stream=%s not trimmed", stream)
    return dropped


def _trim(stream: str, partitions: int, known: Mapping[str, GroupSettings]) -> int:
    history = live_groups.histories()  # read first: whoever trims later finds it changed
    in_redis = live_groups.readers(stream)
    readers = trimming.readers({name: of.trimming for name, of in known.items()}, in_redis)
    all_partitions = [Partition(stream, number) for number in range(partitions)]
    committed = (settled.committed(name, all_partitions) for name in readers)
    kept = trimming.kept([*known.values(), *_wishes(in_redis - known.keys())])
    return live_groups.trim_entries(stream, trimming.lowest(committed), history, kept)


def _wishes(founded: Iterable[str]) -> Iterator[GroupSettings]:
    """Of groups that no dashboard has taken over."""
    for name in founded:
        try:
            settings, _ = live_groups.stored_settings(name)
        except (InvalidInput, ValueError) as error:  # its offsets count all the same
            log.error("settings of group=%s cannot be read: %s", name, error)
            continue
        if settings is not None:
            yield settings
