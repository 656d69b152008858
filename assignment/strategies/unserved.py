"""Takes partitions off members that cannot serve them, whatever strategy dealt them out.

An exchange, so that every member keeps the number that the strategy gave it.
"""

from collections.abc import Mapping, Sequence

from assignment.strategies.given import Assigned
from assignment.types import Member, Partition


def exchanged(assigned: Assigned, members: Sequence[Member], *, zones_bind: bool) -> Assigned:
    """For each pair (member, partition) that cannot be: another member takes the partition and
    gives one of its own, rather one that is new to it. A member of the same zone comes first, with
    `zones_bind` only such a one; then who has the partition already. Where there is nothing to
    give in exchange, the least loaded one takes it; where nobody can serve it, nobody gets it.
    """
    by_id = {member.member_id: member for member in members}
    rows = {member_id: set(parts) for member_id, parts in assigned.items()}
    for member in sorted(members, key=lambda m: m.member_id):
        for partition in sorted(member.unserved & rows[member.member_id]):
            rows[member.member_id].remove(partition)
            takers = _takers(member, partition, by_id, rows)
            if zones_bind:
                takers = [taker for taker in takers if taker.zone == member.zone]
            _give(member, partition, takers, rows)
    return {member_id: tuple(sorted(parts)) for member_id, parts in rows.items()}


def _takers(
    giver: Member,
    partition: Partition,
    members: Mapping[str, Member],
    rows: Mapping[str, set[Partition]],
) -> list[Member]:
    able = [
        member
        for member_id, member in members.items()
        if member_id != giver.member_id
        and member_id in rows
        and partition not in member.unserved
        and (member.subscription is None or partition.stream in member.subscription)
    ]
    return sorted(
        able,
        key=lambda m: (
            m.zone != giver.zone,
            partition not in m.owned,
            len(rows[m.member_id]) / m.capacity,
            m.member_id,
        ),
    )


def _give(
    giver: Member,
    partition: Partition,
    takers: Sequence[Member],
    rows: Mapping[str, set[Partition]],
) -> None:
    for taker in takers:
        own = rows[taker.member_id]
        if offered := sorted(own - giver.unserved, key=lambda p: (p in taker.owned, -p.number)):
            own.remove(offered[0])
            rows[giver.member_id].add(offered[0])
            own.add(partition)
            return
    if takers:
        rows[takers[0].member_id].add(partition)
