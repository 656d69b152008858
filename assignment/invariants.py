"""What must hold in every group at every moment; asked by tests, simulation and the coordinator.

Everything found is named at once, in one InvariantBroken.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from assignment.bounds import printable
from assignment.columns import NOBODY, Places, renumbered
from assignment.coordinator.reading import is_leaving, possible, reported, settings_of
from assignment.errors import InvariantBroken
from assignment.scripts.group_read import GroupRead
from assignment.types import INCARNATION_STEP, Partition


def check(view: GroupRead) -> None:
    """One moment: one owner each, locks as granted, the target complete."""
    if texts := [fault.text for fault in faults(view)]:
        raise InvariantBroken("; ".join(texts))


class FaultKind(StrEnum):
    """Of what it is that does not hold."""

    LOCK = "lock"
    FENCE = "fence"
    REPORT = "report"
    TARGET = "target"
    MEMBER = "member"
    UNREADABLE = "unreadable"  # quarantined: left out of everything until there is another one


class Fault(NamedTuple):
    kind: FaultKind
    text: str


def faults(view: GroupRead) -> tuple[Fault, ...]:
    found = {
        FaultKind.LOCK: _lock_faults(view),
        FaultKind.FENCE: _fence_faults(view),
        FaultKind.REPORT: _report_faults(view),
        FaultKind.TARGET: _target_faults(view),
        FaultKind.MEMBER: _member_faults(view),
        FaultKind.UNREADABLE: _unreadable(view),
    }
    return tuple(Fault(kind, printable(text)) for kind, texts in found.items() for text in texts)


def _lock_faults(view: GroupRead) -> Iterator[str]:
    for partition in _other_than_granted(view):
        lock = view.locks[partition]
        grant = view.grants.get(partition)
        if grant is None:
            yield f"{partition} is locked by {lock.member_id} and was never granted"
        elif (grant.member_id, grant.fence) != (lock.member_id, lock.fence):
            yield (
                f"{partition} is locked by {lock.member_id}/{lock.fence},"
                f" last granted to {grant.member_id}/{grant.fence}"
            )
        elif grant.ended is not None:
            yield f"{partition} is locked by {lock.member_id} after its grant was {grant.ended}"
        if lock.member_id not in view.members:
            yield f"{partition} is locked by {lock.member_id}, who is no member"


def _other_than_granted(view: GroupRead) -> Places:
    """Locked by another than who it was granted to last, or by no member."""
    index, locks, grants = view.index, view.locks, view.grants
    at, granted = index.at(locks.places), index.at(grants.places)
    last = index.spread(granted, np.arange(len(grants)), NOBODY)[at]
    holder = renumbered(locks.names, grants.names)[locks.member]
    is_same = (last != NOBODY) & (holder != NOBODY)
    row = last[is_same]
    is_same[is_same] = (
        (grants.member[row] == holder[is_same])
        & (grants.fence[row] == locks.fence[is_same])
        & grants.lasts[row]
    )
    is_member = renumbered(locks.names, view.members)[locks.member] != NOBODY
    return index.places(at[~(is_same & is_member)])


def _fence_faults(view: GroupRead) -> Iterator[str]:
    grants, incarnation = view.grants, view.meta.incarnation
    wrong = np.flatnonzero(grants.fence // INCARNATION_STEP > incarnation)
    at = view.index.at(grants.places)[wrong]
    for partition, fence in zip(view.index.places(at), grants.fence[wrong], strict=True):
        yield f"{partition} was granted under fence {fence}, above incarnation {incarnation}"


def _report_faults(view: GroupRead) -> Iterator[str]:
    members = tuple(view.reports)
    said = reported(view, members)
    wrong = said.where(~possible(view, members, said))
    partitions = view.index.places(wrong.at)
    for partition, who, fence in zip(partitions, *map(np.ndarray.tolist, wrong[1:]), strict=True):
        grant = view.grants.get(partition)
        last = grant.fence if grant else 0
        whose = f"{grant.member_id}'s fence" if grant and last == fence else ""
        whose = whose or f"last granted is {last}"
        yield f"{members[who]} reports {partition} under {fence}, {whose}"


def _target_faults(view: GroupRead) -> Iterator[str]:
    meta = view.meta
    if meta.target_epoch > meta.group_epoch:
        yield f"target_epoch {meta.target_epoch} is above group_epoch {meta.group_epoch}"
    owners: dict[Partition, str] = {}
    for member, row in sorted(view.target.items()):
        if row.target_epoch != meta.target_epoch:
            yield f"the row of {member} is of epoch {row.target_epoch}, not {meta.target_epoch}"
        for partition in sorted(row.active):
            if partition in owners:
                yield f"the target gives {partition} to {owners[partition]} and {member}"
            owners[partition] = member
        yield from (f"{p} has two roles at {member}" for p in sorted(row.twice))
    yield from _learner_faults(view)
    if owners and meta.target_epoch == meta.group_epoch:
        existing = set(settings_of(view).all_partitions())
        stay = [row for row in view.members.values() if row.able and not is_leaving(row)]
        if stay:  # members that leave keep what they have and get nothing new (learners.md S4)
            served = existing.difference(frozenset.intersection(*(row.unserved for row in stay)))
            yield from (f"the target leaves {p} out" for p in sorted(served - owners.keys()))
        yield from (f"the target gives {p}, which is not" for p in sorted(owners.keys() - existing))


def _learner_faults(view: GroupRead) -> Iterator[str]:
    """A partition has at most one learner (learners.md L3)."""
    learners: dict[Partition, str] = {}
    for member, row in sorted(view.target.items()):
        for partition in sorted(row.learning):
            if partition in learners:
                yield f"{partition} is learned by {learners[partition]} and {member}"
            learners[partition] = member


def _member_faults(view: GroupRead) -> Iterator[str]:
    members = view.members.keys() | view.bad_members.keys()
    for member in sorted(members ^ view.beats.keys()):
        where = "no beat" if member in members else "a beat and is no member"
        yield f"{member} has {where}"
    rows: Mapping[str, object]
    # A target of before Redis forgot names members that may come back.
    target = view.target if view.meta.target_incarnation == view.meta.incarnation else {}
    for name, rows in (("target", target), ("reports", view.reports), ("asked", view.asked)):
        for member in sorted(rows.keys() - members):
            yield f"{member} has a row in {name} and is no member"


def _unreadable(view: GroupRead) -> Iterator[str]:
    for what, bad in (("row", view.bad_members), ("report", view.bad_reports)):
        for member, why in sorted(bad.items()):
            yield f"the {what} of {member} cannot be read and is left out: {why}"
    for member, why in sorted(view.bad_claims.items()):
        yield f"what {member} says cannot be and is left out: {why}"
