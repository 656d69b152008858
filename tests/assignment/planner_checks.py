"""What must hold after every round, whatever the view; asked by the properties of the planner."""

from collections.abc import Iterator

from assignment.planner.values import Assignment, GroupView, MemberView

Members = dict[str, MemberView[str]]


def check(view: GroupView[str], assignment: Assignment[str]) -> None:
    members = {member.member_id: member for member in view.members}
    assert list(assignment.members) == sorted(members)
    owner = owners(assignment)
    _check_owners(view, members, owner)
    _check_parts(members, assignment)
    _check_learners(view, members, assignment, owner)
    _check_standbys(view, members, assignment, owner)
    moved = [p for p in view.partitions if (who := claims(members, p)) and owner.get(p) not in who]
    assert assignment.moves == len(moved)
    assert set(assignment.unowned) == set(view.partitions) - owner.keys()


def owners(assignment: Assignment[str]) -> dict[str, str]:
    owner = {p: m for m, part in assignment.members.items() for p in part.assigned}
    assert len(owner) == sum(len(part.assigned) for part in assignment.members.values())
    return owner


def claims(members: Members, partition: str) -> set[str]:
    return {
        m
        for m, row in members.items()
        if row.able and partition in row.owned and partition not in row.unserved
    }


def _check_owners(view: GroupView[str], members: Members, owner: dict[str, str]) -> None:
    """L1, L2, L5, L6: who may be the owner of each partition, by what is reported of it."""
    assert owner.keys() <= set(view.partitions)
    for partition in view.partitions:
        stay = {m for m, row in members.items() if row.stays and partition not in row.unserved}
        live = {m for m in claims(members, partition) if not members[m].forced}
        learners = {
            m: members[m].learning[partition]
            for m in stay
            if partition in members[m].learning and partition not in members[m].owned
        }
        ready = {m for m, learner in learners.items() if learner.ready}
        assert (partition in owner) == bool(live or stay)
        if view.stateful and (expected := ready or live or learners.keys()):
            assert owner[partition] in expected
        elif view.stateful and (lags := _standby_lags(members, stay, partition)):
            assert lags[owner[partition]] == min(lags.values())


def _standby_lags(members: Members, stay: set[str], partition: str) -> dict[str, float]:
    return {
        m: float("inf") if (lag := members[m].standby[partition]) is None else lag
        for m in stay
        if partition in members[m].standby
    }


def _check_parts(members: Members, assignment: Assignment[str]) -> None:
    """L13's one role, S4, and that whoever is unable has nothing."""
    for m, part in assignment.members.items():
        row = members[m]
        kinds = (part.assigned, part.standby, part.learning)
        assert len(set().union(*kinds)) == sum(map(len, kinds))
        assert not set().union(*kinds).intersection(row.unserved)
        assert all(list(names) == sorted(names) for names in (*kinds, part.revoked))
        assert set(part.revoked) == (row.owned - set(part.assigned) if row.able else set())
        if not row.stays:
            assert set(part.assigned) <= (row.owned if row.able and not row.forced else set())
            assert not part.standby
            assert not part.learning


def _check_learners(
    view: GroupView[str], members: Members, assignment: Assignment[str], owner: dict[str, str]
) -> None:
    """L3, L9, L10: one learner for each partition in handover, and none besides.

    What a member that leaves has is in handover as soon as one that stays can serve it.
    """
    learning = {p: m for m, part in assignment.members.items() for p in part.learning}
    assert len(learning) == sum(len(part.learning) for part in assignment.members.values())
    assert all(owner[p] != m for p, m in learning.items())
    can_stay = {p for p in owner for row in members.values() if row.stays and p not in row.unserved}
    left = {p for p in can_stay - learning.keys() if not members[owner[p]].stays}
    assert len(left) <= assignment.waiting
    assert view.stateful or not learning
    if limit := view.settings.learners_max:
        assert len(learning) <= limit
        assert not assignment.waiting or len(learning) == limit
    else:
        assert not assignment.waiting
    if not learning and not any(
        row.unserved or (row.able and row.is_leaving and row.owned) for row in members.values()
    ):
        assert assignment.balanced


def _check_standbys(
    view: GroupView[str], members: Members, assignment: Assignment[str], owner: dict[str, str]
) -> None:
    """L13: as many as asked for or as there are, in other zones than the owner's if possible; more
    only while some of them have not caught up.
    """
    learning = {p: m for m, part in assignment.members.items() for p in part.learning}
    wanted = view.settings.standby_replicas if view.stateful else 0
    missing = {}
    for partition, active in owner.items():
        busy = {active, learning.get(partition)}
        free = {
            m
            for m, row in members.items()
            if row.stays and m not in busy and partition not in row.unserved
        }
        away = {m for m in free if members[m].zone != members[active].zone}
        chosen = {m for m, part in assignment.members.items() if partition in part.standby}
        assert chosen <= free
        behind = {m for m in chosen if partition not in members[m].caught_up}
        behind -= claims(members, partition)
        assert min(wanted, len(free)) <= len(chosen) <= wanted + len(behind)
        assert len(chosen & away) >= min(wanted, len(away))
        if len(chosen) < wanted:
            missing[partition] = wanted - len(chosen)
    assert assignment.missing_standbys == missing


def splits(total: int, members: int) -> Iterator[tuple[int, ...]]:
    """All ways to give `total` partitions to so many members."""
    if members == 1:
        yield (total,)
        return
    for first in range(total + 1):
        yield from ((first, *rest) for rest in splits(total - first, members - 1))
