"""Every few seconds: numbers for the charts, what needs attention, the mirror for a wiped Redis."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from django.db import transaction

from dashboard.coordinator import attending, mirror, resting, resting_samples, strips
from dashboard.coordinator.attending import Taken
from dashboard.coordinator.carrying import AWAY
from dashboard.coordinator.resting_samples import Still
from dashboard.coordinator.rota import Rota, Work
from dashboard.live import groups as live_groups
from dashboard.live import watching
from dashboard.live.connection import StoreUnavailable
from dashboard.live.following import GroupNotThere
from dashboard.live.snapshot import LiveSnapshot
from dashboard.models import Group, Sample
from dashboard.records.queries import attention, flapping
from dashboard.records.queries import groups as group_queries

AT_ONCE = 50  # groups, in one go at the database
SAMPLES = Work(
    name="samples",
    period_ms=5_000,
    quiet_ms=group_queries.QUIET_MS,
    share_s=0.25,  # a twentieth of a processor, where many groups are
    late_ms=10_000,  # long before it says nothing of now (FRESH_MS)
    late_share_s=4.0,
)
SAMPLES_KEPT_MS = 7 * 86_400_000
PRUNE_EVERY = 100  # samples of a group between two prunings

AS_SEEN = (
    *("lag_records", "applied_total", "members", "owned", "conflicts", "stalled"),
    *("paused", "pausing", "lag_paused"),
)
AS_BEFORE = ("members", "owned", "conflicts", "stalled", "group_epoch")
SILENT = ("suspect", "unreachable", "lost")

log = logging.getLogger(__name__)


def sample_due() -> int:
    """How many groups were sampled, of those whose turn it is. Raises StoreUnavailable."""
    pks, quiet = dict(Group.objects.values_list("name", "pk")), resting.quiet()
    rota = Rota(work=SAMPLES, now_ms=live_groups.redis_now_ms(), names=pks, quiet=quiet)
    taken = 0
    for part in rota.parts(AT_ONCE):
        groups = Group.objects.filter(pk__in=[pks[name] for name in part])
        awaited = _sample(groups, quiet)
        taken += len(awaited)
        for name in part:
            rota.took(name, is_quiet=name in quiet and not awaited.get(name, False))
    rota.keep()
    return taken


def sample() -> int:
    """How many groups were sampled, of all. Raises StoreUnavailable."""
    return len(_sample(Group.objects.all(), {}))


def _sample(groups: Iterable[Group], quiet: Mapping[str, int]) -> dict[str, bool]:
    """Names of those that were -> whether something of it may need attention soon. `quiet`: as
    `resting_samples.still` takes it.
    """
    all_of = list(groups)
    try:
        before = group_queries.newest(Sample.objects.order_by("-at_ms"), [g.pk for g in all_of])
        still = resting_samples.still(all_of, quiet, before)
    except AWAY as error:
        log.warning("samples wait for the database: %s", error)
        return {}
    same = {one.group.name for one in still}
    others = [group for group in all_of if group.name not in same]
    seen = [(group, snapshot) for group in others if (snapshot := _seen(group)) is not None]
    found = [group for group, _ in seen] + [one.group for one in still]
    try:
        _keep(seen, still, before)
        stored = live_groups.advanced([group.name for group, _ in seen])
        mirror.keep_changed([*zip(found, stored + [one.stored for one in still], strict=True)])
        soon = attending.may_raise(found)
    except AWAY as error:
        log.warning("samples wait for the database: %s", error)
        return {}
    except StoreUnavailable:
        raise
    except Exception:  # the top of a loop: one group's trouble is not the others'
        if len(found) > 1:
            return {name: soon for group in found for name, soon in _sample([group], {}).items()}
        log.exception("sample failed group=%s", found[0].name)
        return {}
    return {group.name: group.pk in soon for group in found}


def _seen(group: Group) -> LiveSnapshot | None:
    try:
        return watching.snapshot(group.name, whole=True)
    except GroupNotThere:
        return None  # the tick sets it up
    except StoreUnavailable as error:
        live_groups.redis_now_ms()  # is away too when it is Redis, and not what it has of one
        log.error("sample failed group=%s: %s", group.name, error)
    except Exception:  # the top of a loop
        log.exception("sample failed group=%s", group.name)
    return None


def _keep(
    seen: Iterable[tuple[Group, LiveSnapshot]], still: Iterable[Still], before: Mapping[int, Sample]
) -> None:
    """A whole part at once: to begin with each group anew costs more than its numbers."""
    newer = [
        (group, snapshot)
        for group, snapshot in seen
        if group.pk not in before or before[group.pk].at_ms < snapshot.at_ms
    ]
    awake, same = [group for group, _ in newer], [one.group for one in still]
    groups = awake + same
    limits = attention.limits_of_all(groups)
    may_flap = flapping.may_flap(
        awake,
        min((snapshot.at_ms for _, snapshot in newer), default=0),
        min((limits[group.pk]["flapping_joins"] for group in awake), default=0),
    )
    rows = []
    for group, snapshot in newer:
        row = _row(group, snapshot, before.get(group.pk))
        if group.pk in may_flap:
            row.flapping = flapping.why(group, snapshot.at_ms, limits[group.pk])
        if row.flapping != snapshot.flapping:  # for whoever shows the group without the database
            live_groups.note_flapping(group.name, row.flapping)
        rows.append(row)
    rows += [_again(one) for one in still]
    kept = strips.of(newer)
    with transaction.atomic():  # nobody else writes meanwhile
        rows = Sample.objects.bulk_create(rows)
        strips.keep(kept)
        strips.keep_as_they_were(same, rows[-1].at_ms if same else 0)
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


def _again(one: Still) -> Sample:
    """Of a group that is as it was, without members."""
    return Sample(
        group=one.group,
        at_ms=one.at_ms,
        lag_records=one.lag_records,
        events_per_second=_rate(one.before, one.at_ms, one.applied_total),
        applied_total=one.applied_total,
        tick_age_ms=one.tick_age_ms,
        suspect=0,
        member_states={},
        **{name: getattr(one.before, name) for name in AS_BEFORE},
    )


def _rate(before: Sample | None, at_ms: int, applied_total: int | None) -> float | None:
    """Events applied a second since the sample before; None when they cannot be compared."""
    if before is None or before.applied_total is None or applied_total is None:
        return None
    applied = applied_total - before.applied_total
    return applied * 1000 / (at_ms - before.at_ms) if applied >= 0 else None
