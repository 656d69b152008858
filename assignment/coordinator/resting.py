"""When a tick need not look at a group: only a few numbers of it are read then.

A group rests after a whole look that had nothing to do and found nothing that waits. It is looked
at again
- when what a tick decides by may have changed: one of COUNTED in `meta` (membership, ability,
  settings, target, mode, incarnation, events of the locks, pauses; `looks_due` for all else that
  scripts change), the run of Redis, a commit that is awaited;
- when a moment has come that only time brings: the oldest beat is a session old, a lock ran out, an
  instance was awaited for long enough. Such a moment is too early rather than too late;
- when nobody ticked for a while, or the clock was set back: then a look is what notes it.
Where a number of Redis goes back, it changes, too. A group that waits for anything does not rest:
a target that is due or not yet held, a record or history that is not whole, members that leave,
whatever should never be, or agents that coordinate, which want to hear of a dashboard each second.
Where all that it waits for is somebody else's work, whose end changes one of these numbers or has
the rest done, it may be left alone a while as if it rested: so those do that wait for a rebalance,
its members or its history, where there are many of them.

What the caller has beside Redis (a group's row, requests, plans, scale-downs) is the caller's to
compare. What nobody marks is found by looks that are made nevertheless, now and then.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from assignment.coordinator import effects
from assignment.coordinator.effects import Effect, RecordsAway
from assignment.coordinator.facts import Finished, GroupRecord, Round
from assignment.coordinator.finishing import may_be_cut_short
from assignment.coordinator.learners import has_spare_standbys
from assignment.coordinator.planning import why_not_yet
from assignment.coordinator.reading import is_held, settings_of
from assignment.scripts.glance import applied_of
from assignment.scripts.group_read import Gap, GroupRead
from assignment.types import Coordination, GroupSettings, Partition

T = TypeVar("T")
NEVER_MS = 2**53 - 1
AWAITED_MAX = 1_000  # partitions whose first commit is awaited; of more these are watched

DEEDS = (  # after which there may be more to do; not those that only keep what was read
    *(effects.Run, effects.Configure, effects.Hold, effects.LiftStreams, effects.RaiseIncarnation),
    *(effects.SetTarget, effects.KeepLoss, effects.KeepForced, effects.KeepScaleDowns),
    *(effects.RefuseRequest, effects.TakeRequest, effects.KeepRefusal, effects.KeepFirstEffect),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What a look saw of a group after which it rests. Times are by the clock of Redis."""

    looked_ms: int
    run_id: str
    counted: str  # see glance.counted_of
    due_ms: int = NEVER_MS
    patience_ms: int = 0  # from the oldest beat on; 0: there are no members
    awaited: tuple[str, ...] = ()  # partitions of which a commit is awaited
    applied: str = ""  # of these, as `applied_of` makes it


class Glance(NamedTuple):
    """What is read of a group that rests; None where there is none, or nobody asked."""

    now_ms: int
    run_id: str
    counted: str
    oldest_beat_ms: int | None = None
    next_end_ms: int | None = None
    applied: str = ""


def may_rest_on(rest: Rest, glance: Glance, away: Gap) -> bool:
    """`away`: when nobody ticked the last time."""
    now_ms, beat_ms = glance.now_ms, glance.oldest_beat_ms
    return (
        rest.counted == glance.counted
        and rest.run_id == glance.run_id
        and away.until_ms <= rest.looked_ms <= now_ms < rest.due_ms
        and (not rest.patience_ms or (beat_ms or 0) + rest.patience_ms >= now_ms >= (beat_ms or 0))
        and (glance.next_end_ms is None or now_ms < glance.next_end_ms)
        and rest.applied == glance.applied
    )


@dataclass(frozen=True, slots=True)
class Looked:
    """What came of a look. `view` None: Redis does not have the group. `rest` None: it has to be
    looked at soon. `waits`: for others; then it does not rest, but there is nothing to do until
    something changes that `rest` names.
    """

    view: GroupRead | None = None
    rest: Rest | None = None
    waits: bool = False
    was_blind: bool = False  # records were away

    def is_missed(self, before: Rest, away: Gap) -> bool:
        """Whether it had something to do that nothing marked: a bug, or somebody wrote to the
        group's keys beside the scripts. `before`: by which the group would have rested on.
        """
        rests = self.rest is not None and not self.waits
        if self.view is None or rests or self.was_blind:
            return False
        view = self.view
        now = Glance(
            now_ms=view.now_ms,
            run_id=view.run_id,
            counted=view.counted,
            oldest_beat_ms=min(view.beats.values(), default=None),
            next_end_ms=min(view.ends.values(), default=None),
            applied=_applied(view, before.awaited),
        )
        return may_rest_on(before, now, away)


class Watch:
    """Of one look: whether it did anything, or found that something waits."""

    def __init__(self) -> None:
        self.is_busy = self.is_blind = self.is_waiting = False
        self._round: Round | None = None
        self._finished: tuple[Finished, ...] = ()

    def over(self, steps: effects.Steps[T]) -> effects.Steps[T]:
        return effects.over(steps, self._note)

    def _note(self, effect: Effect[Any], answer: Any) -> None:
        if isinstance(answer, RecordsAway):
            self.is_blind = True
            return
        match effect:
            case effects.KeepOutbox() | effects.KeepIncarnation() | effects.ReadHeld():
                self.is_busy |= answer
            case effects.ReadRequests():
                self.is_busy |= bool(answer)
            case effects.WantHistory() | effects.WantRebalance():
                self.is_waiting |= isinstance(effect, effects.WantRebalance) or not answer
            case effects.KeepMode():
                self.is_busy |= answer is not effects.ModeKept.KNOWN
            case effects.KeepFaults(faults):
                self.is_busy |= bool(faults)
            case effects.ReadScaleDowns():
                self.is_busy |= answer.running is not None
            case effects.ReadRound():
                self._round = answer
            case effects.ReadFinished():
                self._finished = answer
            case _:
                self.is_busy |= isinstance(effect, DEEDS)

    def looked(self, record: GroupRecord, view: GroupRead | None) -> Looked:
        """`view`: of that look."""
        if view is None or self.is_busy or self.is_blind or self._needs_looks(record, view):
            return Looked(view, was_blind=self.is_blind)
        is_due = view.meta.group_epoch > view.meta.target_epoch
        waits = self.is_waiting or is_due or not is_held(view) or self._is_under_way(view)
        return Looked(view, self._rest(view), waits)

    def _rest(self, view: GroupRead) -> Rest:
        awaited = self._awaited(settings_of(view))
        return Rest(
            looked_ms=view.now_ms,
            run_id=view.run_id,
            counted=view.counted,
            due_ms=min(_due(view), default=NEVER_MS),
            patience_ms=_patience_ms(view),
            awaited=awaited,
            applied=_applied(view, awaited),
        )

    def _is_under_way(self, view: GroupRead) -> bool:
        """The last round is not complete."""
        last = self._last(view)
        return last is not None and last.finished_at_ms is None

    def _last(self, view: GroupRead) -> Round | None:
        """The round of the target that is stored."""
        last = self._round
        is_of_target = last and (last.incarnation, last.target_epoch) == view.meta.target
        return last if is_of_target else None

    def _needs_looks(self, record: GroupRecord, view: GroupRead) -> bool:
        """For what only time brings, or nobody marks."""
        if Coordination.CLIENT in (record.coordination, view.meta.coordination):
            return True
        if not view.grants_are_possible or has_spare_standbys(view):
            return True
        if view.meta.group_epoch > view.meta.target_epoch and why_not_yet(view):
            return True
        last = self._last(view)
        return last is not None and last.finished_at_ms is not None and may_be_cut_short(last, view)

    def _awaited(self, settings: GroupSettings) -> tuple[str, ...]:
        numbers = {number for one in self._finished for number in one.moved}
        return tuple(f"{settings.stream}:{n}" for n in sorted(numbers)[:AWAITED_MAX])


def _applied(view: GroupRead, partitions: Iterable[str]) -> str:
    found = (view.applied.get(Partition.parse(partition)) for partition in partitions)
    return applied_of(f"{one.total} {one.at_ms}".encode() if one else None for one in found)


def _due(view: GroupRead) -> Iterator[int]:
    """Ends of locks that `ends` does not have: of holders whose scripts are older than it; and of
    the time for which an instance is awaited.
    """
    for lock in view.locks.values():
        until_ms = view.now_ms + lock.left_ms
        if view.ends.get(lock.member_id, NEVER_MS) > until_ms:
            yield until_ms
    instance_timeout_ms = settings_of(view).instance_timeout_ms
    for row in view.members.values():
        if row.away_since_ms:
            yield row.away_since_ms + instance_timeout_ms


def _patience_ms(view: GroupRead) -> int:
    """Whose process stops is awaited for the time of an instance, from its last beat on."""
    if not view.members and not view.beats:
        return 0
    settings = settings_of(view)
    has_instance = any(row.instance for row in view.members.values())
    others = settings.instance_timeout_ms if has_instance else settings.session_timeout_ms
    return max(1, min(settings.session_timeout_ms, others))
