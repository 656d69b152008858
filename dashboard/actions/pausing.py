"""Pausing and resuming a group, or some of its partitions. For page, API and command alike.

Redis holds what stands; the database has the same, for a Redis that forgets (coordinator/tick).
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from assignment.errors import InvalidInput
from assignment.pauses import Pause, Pauses, PauseState, progress_of
from assignment.scripts.group_read import GroupRead, Purpose
from assignment.scripts.pausing import PausesSet, pauses_of, rows_of, set_pauses
from assignment.types import Partition
from dashboard.actions.access import require
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Action
from dashboard.live import groups as live_groups
from dashboard.live import push
from dashboard.live.scripts import run
from dashboard.models import Group
from dashboard.records import audit
from dashboard.records.audit import By

Change = Callable[[Pauses, Pause], Pauses]


@dataclass(frozen=True, slots=True)
class Standing:
    """What is paused now, and how far. `asked`: what was done to it; "" when it was so already."""

    pauses: Pauses
    states: dict[Partition, PauseState]
    asked: str = ""

    @property
    def changed(self) -> bool:
        return bool(self.asked)

    @property
    def progress(self) -> str:
        return progress_of(self.states) or "running"


def standing(group: Group) -> Standing:
    """Raises StoreUnavailable."""
    return _standing(live_groups.read(group.name, Purpose.LOOK), group)


def _standing(view: GroupRead, group: Group, asked: str = "") -> Standing:
    return Standing(view.pauses, view.paused(group.values.all_partitions()), asked)


@audit.attempted("pause")
def pause(group: Group, by: By, numbers: Sequence[int] | None = None) -> Standing:
    """`numbers`: of the partitions; None: the whole group, also partitions that come later. Raises
    Denied, InvalidInput, Refused and StoreUnavailable: then nothing was changed.
    """
    require(by, Action.PAUSE, group)
    partitions = _partitions(group, numbers)

    def change(before: Pauses, one: Pause) -> Pauses:
        if partitions is None:
            return before.with_group(one)
        return before.with_partitions(partitions, one)

    return _change(group, by, "pause", partitions, change)


@audit.attempted("resume")
def resume(group: Group, by: By, numbers: Sequence[int] | None = None) -> Standing:
    """As `pause`. A partition that was paused by itself stays so when its group is resumed; one
    that is paused with its group is not resumed alone.
    """
    require(by, Action.PAUSE, group)
    partitions = _partitions(group, numbers)

    def change(before: Pauses, one: Pause) -> Pauses:
        if partitions is None:
            return before.without_group()
        return before.without_partitions(partitions)

    return _change(group, by, "resume", partitions, change)


def _partitions(group: Group, numbers: Sequence[int] | None) -> Collection[Partition] | None:
    if numbers is None:
        return None
    if not numbers:
        raise InvalidInput("no partition is named")
    if wrong := sorted(n for n in numbers if not 0 <= n < group.partitions):
        most = group.partitions - 1
        raise InvalidInput(f"there is no partition {wrong[0]}: group {group.name} has 0 to {most}")
    return [Partition(group.stream, number) for number in sorted(set(numbers))]


def _change(
    group: Group, by: By, action: str, partitions: Collection[Partition] | None, change: Change
) -> Standing:
    """Over what stands in Redis, which holds it then; undone in the database when Redis refuses. If
    this is killed between the two, Redis is the newer, and the next change begins there.
    """
    with audit.atomic():
        row = Group.locked(group.pk)
        view = _put_back(row, live_groups.read(group.name, Purpose.LOOK))
        before = view.pauses
        reason = by.reason[: audit.REASON_MAX]
        after = change(before, Pause(actor=by.actor, reason=reason, at_ms=view.now_ms))
        if after is before:
            return _standing(view, group)
        row.pauses, row.pause_version = rows_of(after), after.version
        row.save(update_fields=["pauses", "pause_version"])
        objects = "" if partitions is None else " ".join(map(str, partitions))
        audit.record(by, action, group, object=objects, before=_told(before), after=_told(after))
        if run(set_pauses(after, before.version), group.name) is PausesSet.LATE:
            raise Refused(f"group {group.name!r}: another one paused or resumed meanwhile")
    found = _standing(live_groups.read(group.name, Purpose.LOOK), group, action)
    push.push(group.name, "pauses")
    return found


def _put_back(row: Group, view: GroupRead) -> GroupRead:
    """What Redis forgot stands before it is changed."""
    if view.meta.settings is None:
        raise Refused(f"group {row.name!r} is not set up in Redis yet: try again")
    if view.meta.pause_version >= row.pause_version:
        return view
    run(set_pauses(pauses_of(row.pause_version, row.pauses), None), row.name)
    return live_groups.read(row.name, Purpose.LOOK)


def _told(pauses: Pauses) -> dict[str, object]:
    """For the audit, which has who and why itself."""
    whole = pauses.group is not None
    return {"group": whole, "partitions": [p.number for p in sorted(pauses.partitions)]}
