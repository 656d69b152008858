"""Looks with the rules of attention (live/attention.py) at what was sampled of a group, and keeps
what they found: once a sample, in the worker.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from django.db import transaction

from dashboard.live import attention
from dashboard.live.attention import Change, Limits, Look, Open
from dashboard.models import Group, Occurrence, Rebalance, Sample
from dashboard.records.attention import WHY_MAX
from dashboard.records.queries import groups as group_queries
from dashboard.records.queries.rebalances import light
from dashboard.webhooks import queue
from dashboard.webhooks.stored import Event

KEPT_MS = 90 * 86_400_000  # of what is over

log = logging.getLogger(__name__)


class Taken(NamedTuple):
    """`sample`: the newest one of the group."""

    group: Group
    sample: Sample
    limits: Limits


def look(taken: Collection[Taken]) -> list[Occurrence]:
    """Those that were raised or ended by them."""
    of = [one.group.pk for one in taken]
    lasts = group_queries.newest(light(Rebalance.objects.all()), of)
    unended = Occurrence.objects.filter(group__in=of, ended_at_ms=None).order_by()
    has_open = frozenset(unended.values_list("group_id", flat=True))
    changed = []
    for one in taken:
        facts = group_queries.facts_of(one.sample, lasts.get(one.group.pk), one.group)
        found = attention.holding(facts, one.limits)
        if any(found.values()) or one.group.pk in has_open:
            changed += _look(*one, found)
    return changed


def may_raise(groups: Iterable[Group]) -> frozenset[int]:
    """Keys of those where a rule holds, but not yet for long enough."""
    rows = Occurrence.objects.filter(group__in=groups, ended_at_ms=None, raised_at_ms=None)
    return frozenset(rows.order_by().values_list("group_id", flat=True))


def _look(
    group: Group, sample: Sample, limits: Limits, found: Mapping[str, str | None]
) -> list[Occurrence]:
    starting = _is_starting(group, sample, limits)
    changed = []
    with transaction.atomic():
        Group.locked(group.pk)  # one worker at a time
        rows = {row.rule: row for row in group.occurrences.filter(ended_at_ms=None)}
        for rule in attention.RULES:
            why = found[rule.word]
            if starting and why and not rule.counts_at_start:
                why = ""
            row = rows.get(rule.word) or Occurrence(group=group, rule=rule.word)
            done = attention.change(_open(row), why, sample.at_ms, limits[rule.lasts.name])
            if _keep(row, done, why or "", sample.at_ms):
                queue.put(row, Event.RAISED if row.is_open else Event.ENDED)
                changed.append(row)
    for row in changed:
        log.info("attention group=%s rule=%s ended=%s", group.name, row.rule, not row.is_open)
    return changed


def _is_starting(group: Group, sample: Sample, limits: Limits) -> bool:
    since_ms = attention.looked_at_since(sample.at_ms, limits)
    rows = group.samples.filter(at_ms__gt=since_ms, at_ms__lte=sample.at_ms).order_by("at_ms")
    looks = [
        Look(at_ms, members, owned == group.partitions)
        for at_ms, members, owned in rows.values_list("at_ms", "members", "owned")
    ]
    return attention.is_starting(looks, since_ms, limits[attention.STARTING.name])


def _open(row: Occurrence) -> Open | None:
    if row.pk is None:
        return None
    return Open(
        began_at_ms=row.began_at_ms,
        seen_at_ms=row.seen_at_ms,
        is_raised=row.raised_at_ms is not None,
    )


def _keep(row: Occurrence, done: Change, why: str, at_ms: int) -> bool:
    """Whether it was raised or is over now."""
    match done:
        case Change.NOTHING:
            return False
        case Change.FORGET:
            row.delete()
            return False
        case Change.END:
            row.ended_at_ms = row.seen_at_ms
        case Change.BEGIN | Change.RAISE | Change.SEE:
            if row.pk is None or done is Change.BEGIN:
                row.began_at_ms = at_ms
            row.seen_at_ms, row.why = at_ms, why[:WHY_MAX]
            if done is Change.RAISE:
                row.raised_at_ms = at_ms
    row.save(force_update=row.pk is not None)
    return done in (Change.RAISE, Change.END)


def prune(group: Group, at_ms: int) -> None:
    group.occurrences.filter(ended_at_ms__lt=at_ms - KEPT_MS).delete()
