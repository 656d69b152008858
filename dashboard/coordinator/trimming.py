"""Drops events of the streams that nobody reads any more, every few seconds."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from assignment.coordinator import trimming
from assignment.coordinator.trimming import Kept
from assignment.errors import InvalidInput
from assignment.types import GroupSettings, Offset
from dashboard.coordinator import resting
from dashboard.coordinator.rota import Rota, Work
from dashboard.live import groups as live_groups
from dashboard.live import settled
from dashboard.live.connection import StoreUnavailable
from dashboard.models import Group

AT_ONCE = 50  # streams, in one go at Redis
TRIMS = Work(
    name="trims",
    period_ms=10_000,
    quiet_ms=600_000,  # nobody commits: only what people keep for a time comes of age
    share_s=0.5,  # a twentieth of a processor
    late_ms=20_000,  # what is not dropped fills the memory of Redis
    late_share_s=5.0,
    idle_periods=3,  # of many streams most have nothing to drop, and to find that costs as much
)

log = logging.getLogger(__name__)


def trim_due() -> int:
    """Drops what every group of a stream has committed, of the streams whose turn it is; how many
    entries went. Raises StoreUnavailable.
    """
    streams: dict[str, list[str]] = {}
    for name, stream in Group.objects.order_by("name").values_list("name", "stream"):
        streams.setdefault(stream, []).append(name)
    still = resting.quiet()
    quiet = {
        stream: max(still[name] for name in names)
        for stream, names in streams.items()
        if still.keys() >= set(names)
    }
    rota = Rota(work=TRIMS, now_ms=live_groups.redis_now_ms(), names=streams, quiet=quiet)
    dropped = 0
    for part in rota.parts(AT_ONCE):
        for stream, gone in _trimmed(part):
            dropped += gone
            rota.took(stream, is_quiet=stream in quiet and not gone, was_idle=not gone)
    return dropped


def trim() -> int:
    """As `trim_due`, of all streams."""
    streams = Group.objects.order_by("stream").values_list("stream", flat=True).distinct()
    return sum(gone for _, gone in _trimmed([*streams]))


class _Stream(NamedTuple):
    """`lowest`: what all its readers reached, of each partition that has it."""

    lowest: Mapping[int, Offset]
    kept: Kept


def _trimmed(streams: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Each with how many of its entries went."""
    history = live_groups.histories()  # read first: whoever trims later finds it changed
    for name, stream in _read(streams).items():
        gone = 0
        try:
            if stream.lowest:
                gone = live_groups.trim_entries(name, stream.lowest, history, stream.kept)
        except StoreUnavailable as error:
            live_groups.redis_now_ms()  # is away too when it is Redis, and not what it has of one
            log.error("stream=%s not trimmed: %s", name, error)
        except Exception:  # the top of a loop
            log.exception("stream=%s not trimmed", name)
        yield name, gone


def _read(streams: Sequence[str]) -> dict[str, _Stream]:
    groups: dict[str, list[Group]] = {name: [] for name in streams}
    for group in Group.objects.filter(stream__in=streams):
        groups[group.stream].append(group)
    in_redis = dict(zip(streams, live_groups.readers_of(streams), strict=True))
    known = {name: {g.name: g.values for g in groups[name]} for name in streams}
    asked = {name: _readers(known[name], in_redis[name]) for name in streams}
    sizes = {name: max((g.partitions for g in groups[name]), default=0) for name in streams}
    pairs = [(reader, name, sizes[name]) for name in streams for reader in asked[name]]
    committed = iter(settled.committed_of(pairs))
    found = {}
    for name in streams:
        offsets = [next(committed) for _ in asked[name]]
        try:
            wishes = [*known[name].values(), *_wishes(in_redis[name] - known[name].keys())]
            found[name] = _Stream(trimming.lowest(offsets), trimming.kept(wishes))
        except (InvalidInput, ValueError) as error:
            log.error("stream=%s not trimmed: %s", name, error)
    return found


def _readers(groups: Mapping[str, GroupSettings], in_redis: frozenset[str]) -> list[str]:
    return trimming.readers({name: known.trimming for name, known in groups.items()}, in_redis)


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
