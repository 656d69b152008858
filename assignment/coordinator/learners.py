"""A stateful group's view for the planner, from what was read of it (learners.md, input).

Owners: by report, lock or stored target, the highest fence alone. Replicas: what members report, in
the role that the stored target gives them; what it gives and nobody reports yet is there with an
unknown lag. So a learner that was dropped since is a replica like any other, ready or not.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from assignment.coordinator.reading import claims, is_forced, is_leaving, settings_of
from assignment.planner.values import GroupView, Learner, LearnerSettings, MemberView
from assignment.scripts.group_read import GroupRead, MemberRow
from assignment.types import Partition, ReplicaReport, Role, TargetRow

CAPACITY = 1.0  # of a member that says one that cannot be


def view_of(view: GroupRead, unable: Mapping[str, str]) -> GroupView[Partition]:
    """`unable`: the members that are not able, as of `unable_members`."""
    settings, owned = settings_of(view), owners(view, unable)
    return GroupView(
        partitions=settings.all_partitions(),
        members=[
            _member(view, row, able=member not in unable, owned=owned[member])
            for member, row in sorted(view.members.items())
        ],
        stateful=settings.stateful,
        settings=LearnerSettings(
            standby_replicas=settings.standby_replicas, learners_max=settings.learners_max
        ),
    )


def are_standbys_due(view: GroupRead) -> bool:
    """Whether the standbys that came in the place of others have caught up: those may go (L13).

    All at once; what a trouble holds up goes at a later cause.
    """
    if any(row.learning for row in view.target.values()):
        return False
    waiting = [found for found in _spare_standbys(view) if not _stuck(found)]
    return bool(waiting) and all(one and one.ready for found in waiting for one in found)


def has_spare_standbys(view: GroupRead) -> bool:
    """Whether a partition has more standbys than are wanted: some may go when they have caught up,
    which only reports say.
    """
    return bool(_spare_standbys(view))


def _spare_standbys(view: GroupRead) -> list[list[ReplicaReport | None]]:
    """Of each such partition, what is said of them."""
    settings, wanted = settings_of(view), settings_of(view).standby_replicas
    if not (settings.stateful and wanted):
        return []
    replicas: dict[Partition, list[ReplicaReport | None]] = {}
    for member, row in view.target.items():
        report = view.reports.get(member)
        for partition in row.standby:
            said = report.replicas.get(partition) if report else None
            replicas.setdefault(partition, []).append(said)
    return [found for found in replicas.values() if len(found) > wanted]


def _stuck(replicas: Sequence[ReplicaReport | None]) -> bool:
    return any(one and one.why and not one.ready for one in replicas)


def owners(view: GroupRead, unable: Mapping[str, str]) -> dict[str, frozenset[Partition]]:
    """Able member -> what it has, each partition with the highest fence that is claimed for it.

    What a forced member still has belongs to whom the stored target gave it, too: that one waits
    for the lock, and no later round shall give it to somebody else.
    """
    claimed = claims(view, unable)
    index, best = view.index, claimed.highest()
    forced = np.array([is_forced(view.members[member]) for member in claimed] + [False])
    found = {}
    for number, member in enumerate(claimed):
        given = view.given.get(member, best[:0])
        is_own = best == number
        is_own[given] |= forced[best[given]]
        found[member] = frozenset(index.places(np.flatnonzero(is_own)))
    return dict.fromkeys(view.members, frozenset[Partition]()) | found


def _member(
    view: GroupRead, row: MemberRow, *, able: bool, owned: frozenset[Partition]
) -> MemberView[Partition]:
    report, given = view.reports.get(row.member_id), view.target.get(row.member_id)
    replicas = dict(report.replicas) if report else {}
    roles = _roles(replicas, given)
    lags = {p: replicas[p].lag if p in replicas else -1 for p in roles}
    known = {p: None if lag < 0 else lag for p, lag in lags.items()}
    return MemberView(
        member_id=row.member_id,
        able=able,
        joined_at_ms=max(row.joined_at_ms, row.able_at_ms),
        leaving=is_leaving(row),
        forced=is_forced(row),
        zone=row.zone,
        capacity=row.capacity if 0 < row.capacity < float("inf") else CAPACITY,
        owned=owned,
        unserved=row.unserved,
        standby={p: known[p] for p, role in roles.items() if role is Role.STANDBY},
        caught_up=frozenset(p for p, replica in replicas.items() if replica.ready),
        learning={
            p: Learner(known[p], p in row.ready)
            for p, role in roles.items()
            if role is Role.LEARNER
        },
    )


def _roles(
    replicas: Mapping[Partition, ReplicaReport], given: TargetRow | None
) -> dict[Partition, Role]:
    """A ready learner that was made owner and has not acquired yet is a learner until it has."""
    if given is None:
        return {p: replica.role for p, replica in replicas.items()}
    roles = {
        p: replica.role if p in given.active else Role.STANDBY for p, replica in replicas.items()
    }
    roles |= dict.fromkeys(given.standby, Role.STANDBY)
    return roles | dict.fromkeys(given.learning, Role.LEARNER)
