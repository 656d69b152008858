"""What must hold of every decision of the planner, and of a group whose faults have ended."""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from assignment.coordinator.learners import view_of
from assignment.coordinator.reading import is_forced, is_leaving, unable_members
from assignment.planner import plan
from assignment.scripts.group_read import GroupRead
from assignment.types import Drain, Partition, TargetRow
from tests.assignment.planner_checks import check
from tests.simulation.ledger import Broken, demand

if TYPE_CHECKING:
    from tests.simulation.rounds import Rounds

Rows = Mapping[str, TargetRow]
Unable = Mapping[str, str]


def decision_is_right(view: GroupRead, rows: Rows, world: "Rounds") -> None:
    """By the view alone, and by what really is."""
    for partition, taker in rules_are_kept(view, rows).items():
        actor = world.actors.get(taker)
        replica = actor.replicas.get(partition) if actor else None
        really = actor is None or (replica is not None and replica.up)
        demand(really, f"{partition} goes to {taker}, whose replica is not there: {replica}")


def rules_are_kept(view: GroupRead, rows: Rows) -> dict[Partition, str]:
    """By the view alone. Answers who takes what over from a live owner."""
    unable = unable_members(view)
    planned = view_of(view, unable)
    try:
        check(planned, plan(planned))  # type: ignore[arg-type]
    except AssertionError as error:
        raise Broken(f"a rule of learners.md is broken: {error}") from error
    owners = {p: m for m, row in rows.items() for p in row.active}
    takers = {}
    for partition in planned.partitions:
        _nobody_waits_who_could_own(view, owners, partition, unable)
        if taker := _taker(view, owners, partition, unable):
            takers[partition] = taker
    for member, row in view.members.items():
        _nothing_new(view, rows, member, leaves=is_leaving(row))
    return takers


def _nobody_waits_who_could_own(
    view: GroupRead, owners: Mapping[Partition, str], partition: Partition, unable: Unable
) -> None:
    """L5: without a live owner it is given at once, to one that can serve it."""
    there = [
        m
        for m, row in view.members.items()
        if m not in unable and not is_leaving(row) and partition not in row.unserved
    ]
    demand(not there or partition in owners, f"{partition} is given to nobody")


def _taker(
    view: GroupRead, owners: Mapping[Partition, str], partition: Partition, unable: Unable
) -> str:
    """L1, L2: from a live owner only to a ready learner; "" when it does not go from one."""
    lock = view.locks.get(partition)
    if lock is None or not view.meta.settings or not view.meta.settings.stateful:
        return ""
    owner, row, taker = lock.member_id, view.members[lock.member_id], owners.get(partition)
    claimed = any(partition in r.active for m, r in view.target.items() if m != owner)
    free = owner in unable or is_forced(row) or partition in row.unserved
    if free or taker in (owner, None) or claimed:
        return ""  # `claimed`: it was decided by a target before this one
    assert taker is not None
    demand(partition in view.members[taker].ready, f"{partition} goes to {taker}, who is not ready")
    return taker


def _nothing_new(view: GroupRead, rows: Rows, member: str, *, leaves: bool) -> None:
    """S4."""
    if leaves:
        row, locked = rows[member], {p for p, k in view.locks.items() if k.member_id == member}
        reported = view.reports[member].owned.keys() if member in view.reports else set()
        before = view.target[member].active if member in view.target else frozenset()
        demand(not row.standby and not row.learning, f"{member} leaves and is given replicas")
        demand(row.active <= locked | reported | before, f"{member} leaves and is given {row}")


# --- when faults have ended -----------------------------------------------------------------------


def flags_follow_the_record(world: "Rounds") -> None:
    """S7: whoever need not leave any more is told so."""
    told = {m for m, row in world.rows.items() if row.drain is not Drain.NONE}
    stray = sorted(told - world.record.leavers.keys())
    demand(not stray, f"{stray} still leave, by no scale-down")


def unfinished(world: "Rounds") -> str:
    """Why not everything is owned and even, with its standbys and without learners; "" else."""
    staying = {a.member_id for a in world.staying}
    learning = {m for m, row in world.target.items() if row.learning}
    if learning:
        return f"{sorted(learning)} still learn"
    owners = {p: m for m, row in world.target.items() for p in row.active}
    held = {p: m for p, (m, _) in world.locks.holder.items()}
    if held != owners:
        return f"held {held} is not the target {owners}"
    if not staying:
        return ""  # who leaves keeps what it has; nobody else may own
    if drained := sorted(m for m, row in world.rows.items() if row.drain is not Drain.NONE):
        return f"{drained} have not left"
    if held.keys() != set(world.partitions):
        return f"not owned: {sorted(set(world.partitions) - held.keys())}"
    return _uneven(world, held) or _standbys(world, held, len(staying))


def _uneven(world: "Rounds", held: Mapping[Partition, str]) -> str:
    """L8: no move from one to another would lower the larger load over capacity."""
    loads = Counter(held.values())
    weights = {a.member_id: Fraction(str(a.capacity)) for a in world.staying}
    fullest = max(loads[m] / w for m, w in weights.items())
    roomiest = min((loads[m] + 1) / w for m, w in weights.items())
    return f"uneven: {dict(loads)} over {weights}" if fullest > roomiest else ""


def _standbys(world: "Rounds", held: Mapping[Partition, str], members: int) -> str:
    """L13."""
    wanted = world.settings.standby_replicas if world.settings.stateful else 0
    replicas = Counter(p for row in world.target.values() for p in row.standby)
    short = [p for p in held if replicas[p] != min(wanted, members - 1)]
    return f"standbys of {short}: {replicas}" if short else ""


def least_moves(before: Mapping[Partition, str], members: list[str], partitions: int) -> int:
    """From owners among these equal members: what no even assignment can keep."""
    loads = Counter(m for m in before.values() if m in members)
    smaller, larger = divmod(partitions, len(members))
    kept = sum(min(loads[m], smaller) for m in members)
    return loads.total() - kept - min(larger, sum(loads[m] > smaller for m in members))
