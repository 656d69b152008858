"""Every few seconds: numbers for the charts, what needs attention, the mirror for a wiped Redis."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import NamedTuple

from django.db import transaction

from assignment.scripts.group_read import Ticker
from dashboard.coordinator import attending, mirror, resting, strips
from dashboard.coordinator.attending import Taken
from dashboard.coordinator.carrying import AWAY
from dashboard.coordinator.rota import Rota, Work
from dashboard.live import empty as live_empty
from dashboard.live import groups as live_groups
from dashboard.live import watching
from dashboard.live.advance import advanced
from dashboard.live.connection import StoreUnavailable
from dashboard.live.empty import Empty
from dashboard.live.following import GroupNotThere
from dashboard.live.queue import LastTicker
from dashboard.live.reading import Answered, Stream
from dashboard.live.snapshot import LiveSnapshot
from dashboard.models import Group, Sample
from dashboard.records.queries import attention, flapping
from dashboard.records.queries import groups as group_queries

AT_ONCE = 50  # groups, in one go at the database
QUIET_AT_ONCE = 250  # which are read in one go at Redis, too: half of it is what each go costs
SAMPLES = Work(
    name="samples",
    period_ms=5_000,
    quiet_ms=group_queries.QUIET_MS,
    share_s=0.15,  # three hundredths of a processor, where many groups are
    late_ms=25_000,  # and a run later it says something of now yet (FRESH_MS)
    late_share_s=4.0,
)
SAMPLES_KEPT_MS = 7 * 86_400_000
PRUNE_EVERY = 100  # samples of a group between two prunings

AS_SEEN = (
    *("lag_records", "applied_total", "members", "owned", "conflicts", "stalled"),
    *("paused", "pausing", "lag_paused"),
)
NOBODYS = ("members", "owned", "conflicts", "suspect", "stalled")
SILENT = ("suspect", "unreachable", "lost")

log = logging.getLogger(__name__)


def sample_due() -> int:
    """How many groups were sampled, of those whose turn it is. Raises StoreUnavailable."""
    pks, quiet = dict(Group.objects.values_list("name", "pk")), resting.quiet()
    rota = Rota(work=SAMPLES, now_ms=live_groups.redis_now_ms(), names=pks, quiet=quiet)
    taken = 0
    for part in rota.parts(AT_ONCE, QUIET_AT_ONCE):
        groups = Group.objects.filter(pk__in=[pks[name] for name in part])
        done = _sample(groups)
        taken += len(done)
        for name in part:
            soon, took_s = done.get(name, NOT_DONE)
            rota.took(name, took_s, is_quiet=name in quiet and not soon)
    return taken


def sample() -> int:
    """How many groups were sampled, of all. Raises StoreUnavailable."""
    return len(_sample(Group.objects.all()))


class Done(NamedTuple):
    """`soon`: something of it may need attention. `took_s`: to read the group."""

    soon: bool
    took_s: float


NOT_DONE = Done(soon=False, took_s=0.0)


def _sample(of: Iterable[Group]) -> dict[str, Done]:
    """Names of those that were -> what came of it."""
    groups = list(of)
    try:
        return _sampled(groups)
    except AWAY as error:
        log.warning("samples wait for the database: %s", error)
        return {}
    except StoreUnavailable:
        raise
    except Exception:  # the top of a loop: one group's trouble is not the others'
        if len(groups) > 1:
            return {name: done for group in groups for name, done in _sample([group]).items()}
        log.exception("sample failed group=%s", groups[0].name)
        return {}


def _sampled(groups: Sequence[Group]) -> dict[str, Done]:
    before = _newest(groups)
    empty = _empty(groups, before)
    others = [group for group in groups if group.name not in empty]
    seen, took_s = list[tuple[Group, LiveSnapshot]](), dict[str, float]()
    ticker, began_s = LastTicker(), monotonic()
    answered = watching.answers({group.name: _stream_of(group) for group in others})
    share_s = (monotonic() - began_s) / max(1, len(others))
    for group in others:
        began_s = monotonic()
        if (snapshot := _seen(group, ticker, answered)) is not None:
            seen.append((group, snapshot))
        took_s[group.name] = share_s + monotonic() - began_s
    nobody = [(group, empty[group.name]) for group in groups if group.name in empty]
    found = [group for group, _ in (*seen, *nobody)]
    stored = advanced([group.name for group, _ in seen])
    stored |= {group.name: one.stored for group, one in nobody}
    _keep(seen, nobody, before)
    mirror.keep_changed((group, stored[group.name]) for group in found if group.name in stored)
    soon = attending.may_raise(found)
    return {g.name: Done(g.pk in soon, took_s.get(g.name, 0.0)) for g in found}


def _newest(groups: Iterable[Group]) -> Mapping[int, Sample]:
    return group_queries.newest(Sample.objects.order_by("-at_ms"), [group.pk for group in groups])


def _empty(groups: Iterable[Group], before: Mapping[int, Sample]) -> Mapping[str, Empty]:
    """Those in which nobody is; looked for where nobody was."""
    return live_empty.empty(
        {
            group.name: _stream_of(group)
            for group in groups
            if group.pk not in before or not before[group.pk].members
        }
    )


def _stream_of(group: Group) -> Stream:
    return Stream(group.stream, group.partitions)


def _seen(group: Group, ticker: Callable[[], Ticker], answered: Answered) -> LiveSnapshot | None:
    try:
        return watching.snapshot(group.name, whole=True, ticker=ticker(), answered=answered)
    except GroupNotThere:
        return None  # the tick sets it up
    except StoreUnavailable as error:
        live_groups.redis_now_ms()  # is away too when it is Redis, and not what it has of one
        log.error("sample failed group=%s: %s", group.name, error)
    except Exception:  # the top of a loop
        log.exception("sample failed group=%s", group.name)
    return None


def _keep(
    seen: Iterable[tuple[Group, LiveSnapshot]],
    nobody: Iterable[tuple[Group, Empty]],
    before: Mapping[int, Sample],
) -> None:
    """A whole part at once: to begin with each group anew costs more than its numbers."""

    def is_newer(of: tuple[Group, LiveSnapshot | Empty]) -> bool:
        group, what = of
        return group.pk not in before or before[group.pk].at_ms < what.at_ms

    seen, nobody = [*filter(is_newer, seen)], [*filter(is_newer, nobody)]
    groups = [group for group, _ in (*seen, *nobody)]
    limits = attention.limits_of_all(groups)
    times = [snapshot.at_ms for _, snapshot in seen] + [one.at_ms for _, one in nobody]
    may_flap = flapping.may_flap(
        groups,
        min(times, default=0),
        min((limits[group.pk]["flapping_joins"] for group in groups), default=0),
    )
    rows = [_row(group, snapshot, before.get(group.pk)) for group, snapshot in seen]
    rows += [_row_of_empty(group, one, before.get(group.pk)) for group, one in nobody]
    said = [snapshot.flapping for _, snapshot in seen] + [""] * len(nobody)
    for group, row, known in zip(groups, rows, said, strict=True):
        if group.pk in may_flap:
            row.flapping = flapping.why(group, row.at_ms, limits[group.pk])
        if row.flapping != known:  # for whoever shows the group without the database
            live_groups.note_flapping(group.name, row.flapping)
    kept = strips.of(seen) + strips.of_empty((group, one.at_ms) for group, one in nobody)
    with transaction.atomic():  # nobody else writes meanwhile
        rows = Sample.objects.bulk_create(rows)
        strips.keep(kept)
    attending.look([Taken(g, row, limits[g.pk]) for g, row in zip(groups, rows, strict=True)])
    for group, row in zip(groups, rows, strict=True):
        if row.pk % PRUNE_EVERY == 0:
            attending.prune(group, row.at_ms)
            group.samples.filter(at_ms__lt=row.at_ms - SAMPLES_KEPT_MS).delete()


def _row(group: Group, snapshot: LiveSnapshot, before: Sample | None) -> Sample:
    numbers = snapshot.numbers
    return Sample(
        group=group,
        at_ms=snapshot.at_ms,
        events_per_second=_rate(before, snapshot.at_ms, numbers.applied_total),
        suspect=sum(m.state in SILENT for m in snapshot.members),
        member_states=Counter(m.state for m in snapshot.members),
        group_epoch=snapshot.group_epoch,
        tick_age_ms=snapshot.tick_age_ms,
        **{name: getattr(numbers, name) for name in AS_SEEN},
    )


def _row_of_empty(group: Group, one: Empty, before: Sample | None) -> Sample:
    return Sample(
        group=group,
        at_ms=one.at_ms,
        lag_records=one.lag_records,
        events_per_second=_rate(before, one.at_ms, one.applied_total),
        applied_total=one.applied_total,
        member_states={},
        group_epoch=one.group_epoch,
        tick_age_ms=one.tick_age_ms,
        **dict.fromkeys(NOBODYS, 0),
    )


def _rate(before: Sample | None, at_ms: int, applied_total: int | None) -> float | None:
    """Events applied a second since the sample before; None when they cannot be compared."""
    if before is None or before.applied_total is None or applied_total is None:
        return None
    applied = applied_total - before.applied_total
    return applied * 1000 / (at_ms - before.at_ms) if applied >= 0 else None
