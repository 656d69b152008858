"""Completes the record of a round once what is held equals the target: phases, ownership gap, the
first commit after it; ends rebalances, and sees when a change that was cut short is to go on.
"""

from collections.abc import Sequence

from assignment.coordinator import effects
from assignment.coordinator.facts import (
    Ended,
    Finished,
    GroupRecord,
    Moments,
    Open,
    Round,
    Tenures,
)
from assignment.coordinator.incarnation import without_bad_claims
from assignment.coordinator.planning import target_of
from assignment.coordinator.reading import is_held, settings_of
from assignment.errors import InvalidInput
from assignment.plausible import is_reached
from assignment.scripts.group_read import GroupRead, Purpose
from assignment.strategies.weighted_sticky import MEASURED

FIRST_EFFECT_WITHIN_MS = 600_000  # after so long no commit counts as this rebalance's effect
GAP_WITHIN_MS = 3_600_000  # of a rebalance that lasted longer the gap in all is not summed up
LOOKED_FOR_MS = 60_000  # after the last round; computing a target every second would cost too much


def finish(view: GroupRead, last: Round | None) -> effects.Steps[bool]:
    """Whether a record was completed, that of `last`: not before the history has all that the locks
    did until `view`. Whoever keeps it completes the record as soon as it has (`finish_awaited`).

    A target that is held and of which nobody learns serves every cause so far: all rebalances end.
    """
    row = _of_target(last, view)
    is_over = row is not None and row.finished_at_ms is None and is_held(view)
    is_whole = yield from effects.WantHistory(view.meta.event_seq, awaited=is_over)
    if row is None or not is_over or not is_whole:
        return False
    opened = () if row.learning else (yield from effects.ReadOpen())
    lease_ms = settings_of(view).lease_ms
    changed_ms = row.at_ms - row.detect_ms
    recent = [o for o in opened if view.now_ms - o.since_ms <= GAP_WITHIN_MS]
    earliest_ms = min([changed_ms, *(o.since_ms for o in recent)])
    tenures = yield from effects.ReadTenures(earliest_ms - lease_ms)
    moments = moments_of(row, view, tenures)
    yield from effects.Complete(
        row.pk,
        moments,
        total_ms=row.detect_ms + moments.acquired - row.at_ms,
        ownership_gap_ms=_gap(tenures, changed_ms, lease_ms),
        ended=_ended(opened, recent, tenures, lease_ms),
    )
    return True


def finish_awaited(record: GroupRecord) -> effects.Steps[bool]:
    """After the history has become whole: as the tick that waited for it would do. Whether it told
    browsers of the history.
    """
    found = yield from effects.Read(Purpose.LOOK)
    view = without_bad_claims(found, record.incarnation)
    if view.meta.settings is None:
        return False
    if not (yield from finish(view, (yield from effects.ReadRound()))):
        return False
    yield from effects.AdvancePlans()
    yield from effects.Push("history")
    return True


def _ended(
    opened: Sequence[Open], recent: Sequence[Open], tenures: Tenures, lease_ms: int
) -> tuple[Ended, ...]:
    return tuple(
        Ended(one.pk, _gap(tenures, one.since_ms, lease_ms) if one in recent else None)
        for one in opened
    )


def _of_target(last: Round | None, view: GroupRead) -> Round | None:
    """None: the record of the target that Redis has is another one, or still to come."""
    is_same = last and (last.incarnation, last.target_epoch) == view.meta.target
    return last if is_same else None


def delivered_ms(view: GroupRead) -> int | None:
    """When the last agent said that it has the stored target; None while one has not."""
    said = [view.reports.get(member) for member in view.members]
    if any(r is None or r.target < view.meta.target for r in said):
        return None
    return max((r.at_ms for r in said if r is not None), default=None)


def moments_of(row: Round, view: GroupRead, tenures: Tenures) -> Moments:
    stored = min(view.meta.target_at_ms or row.at_ms, view.now_ms)
    acquired = max(stored, tenures.last_start_ms)
    revoked = min(max(stored, tenures.last_end_ms), acquired)
    delivered = min(max(stored, delivered_ms(view) or stored), revoked)
    return Moments(stored, delivered, revoked, acquired)


def _gap(tenures: Tenures, changed_ms: int, lease_ms: int) -> int:
    """Partition-milliseconds between an owner's end and the next one's start, of those who began
    since the change: whoever began before did so by an earlier rebalance.

    A lock that ran out did so up to a lease before anybody saw it; what nobody owned before that is
    not this rebalance's. A partition that never had an owner had nothing to lose.
    """
    begun = ((start, end) for start, end in tenures.begun if start >= changed_ms)
    gaps = (start - max(end, changed_ms - lease_ms) for start, end in begun if end is not None)
    return sum(max(0, gap) for gap in gaps)


def note_first_effects(view: GroupRead) -> effects.Steps[None]:
    """The first commit after the last acquire; exact while commits are a tick (1 s) apart."""
    waiting = yield from effects.ReadFinished(view.now_ms - FIRST_EFFECT_WITHIN_MS)
    for row in waiting:
        after_ms = _first_effect_ms(row, view)
        if after_ms is not None:
            yield from effects.KeepFirstEffect(row.pk, after_ms)


def _first_effect_ms(row: Finished, view: GroupRead) -> int | None:
    commits = [
        a.at_ms - row.finished_at_ms
        for p, a in view.applied.items()
        if p.number in row.moved and is_reached(a.at_ms, view.now_ms)
    ]
    return min((after_ms for after_ms in commits if after_ms >= 0), default=None)


def _most_moves(view: GroupRead) -> int | None:
    """Of one round; None: there is no such bound, or nothing goes on by it."""
    settings = settings_of(view)
    measured = settings.strategy_parameters.get("weights") == MEASURED
    most: int | None = settings.strategy_parameters.get("moves_max")
    return None if settings.stateful or measured else most


def may_be_cut_short(last: Round, view: GroupRead) -> bool:
    """Whether that round, the last one, ended lately and had all the moves that it may have."""
    most, ended_ms = _most_moves(view), last.finished_at_ms
    if most is None or ended_ms is None or last.moved < most:
        return False
    return view.now_ms - ended_ms <= LOOKED_FOR_MS


def is_cut_short(view: GroupRead) -> effects.Steps[bool]:
    """Whether the group's own strategy would move more now that its last round is over.

    Measured weights change all the time, so of them every next cause makes just one round.
    """
    if _most_moves(view) is None:
        return False
    last = _of_target((yield from effects.ReadRound()), view)
    if last is None or not may_be_cut_short(last, view):
        return False
    try:
        return bool(target_of(view).change.moves)
    except InvalidInput:
        return False
