"""What must hold of every target that a coordinator is about to store."""

from collections import Counter
from collections.abc import Mapping
from traceback import extract_tb
from typing import TYPE_CHECKING

from assignment.coordinator import reading
from assignment.coordinator.learners import view_of
from assignment.coordinator.reading import is_forced, is_leaving, is_possible, unable_members
from assignment.metrics import most_kept
from assignment.planner import plan
from assignment.scripts.group_read import GroupRead
from assignment.types import Partition, TargetRow
from tests.assignment.planner_checks import check
from tests.simulation.ledger import Broken, demand

if TYPE_CHECKING:
    from tests.simulation.world import World

BALANCED = ("averagely", "circle", "join_order", "range", "round_robin", "sticky")
Rows = Mapping[str, TargetRow]
Unable = Mapping[str, str]
Learning = Mapping[str, frozenset[Partition]]  # members -> what the stored target has them learn


def target_is_right(view: GroupRead, rows: Rows, world: "World") -> None:
    """Each partition once, to a live member; what planner or strategy promise is kept."""
    if reading.settings_of(view).stateful:
        _planned_is_right(view, rows, world)
    else:
        _assigned_is_right(view, rows)


# --- by a strategy --------------------------------------------------------------------------------


def _assigned_is_right(view: GroupRead, rows: Rows) -> None:
    settings = reading.settings_of(view)
    may_own = {m for m, row in view.members.items() if row.able and not row.leaving}
    may_own -= reading.without_lock(view).keys()
    given = [(p, m) for m, row in rows.items() for p in row.active]
    owners = dict(given)
    unserved = {m: view.members[m].unserved for m in may_own}
    wanted = {p for p in settings.all_partitions() if any(p not in u for u in unserved.values())}
    demand(
        not any(p in unserved[m] for p, m in given if m in may_own),
        "the target gives a member what it cannot serve",
    )
    demand(len(owners) == len(given), "the target gives a partition twice")
    demand(set(owners.values()) <= may_own, f"owners {owners} are not among {sorted(may_own)}")
    demand(rows.keys() == view.members.keys(), "a member has no row in the target")
    if settings.strategy in BALANCED:
        demand(owners.keys() == wanted, "the target does not cover each partition")
        loads = Counter(dict.fromkeys(may_own, 0)) + Counter(owners.values())
        spread = [0] if any(unserved.values()) else [loads[m] for m in may_own] or [0]
        demand(max(spread) - min(spread) <= 1, f"the target's loads are {spread}")
    if settings.strategy == "sticky" and not any(unserved.values()):
        _moves_are_least(view, owners, sorted(may_own))


def _moves_are_least(view: GroupRead, owners: dict[Partition, str], may_own: list[str]) -> None:
    before = {p: m for p, m in _held(view).items() if m in may_own and p in owners}
    if not may_own:
        return
    moved = sum(owners[p] != m for p, m in before.items())
    least = least_moves(before, may_own, len(owners))
    demand(moved == least, f"{moved} moved, {least} suffice")


def _held(view: GroupRead) -> dict[Partition, str]:
    """By the highest fence that a lock or a report has; by the stored target where no able member
    has it by either (learners.md, input of the planner).
    """
    able = {m for m, row in view.members.items() if row.able} - reading.without_lock(view).keys()
    found = {p: m for m, row in view.target.items() for p in row.active if m in able}
    known = [
        (p, held.fence, m)
        for m, r in view.reports.items()
        for p, held in r.owned.items()
        if is_possible(view, m, p, held.fence)
    ]
    known += [(p, lock.fence, lock.member_id) for p, lock in view.locks.items()]
    best: dict[Partition, tuple[int, str]] = {}
    for partition, fence, member in known:
        if member in able:
            best[partition] = max((fence, member), best.get(partition, (0, "")))
    return found | {p: member for p, (_, member) in best.items()}


def least_moves(before: Mapping[Partition, str], members: list[str], partitions: int) -> int:
    """From owners among these equal members: what no even assignment can keep."""
    loads = Counter(m for m in before.values() if m in members)
    return loads.total() - most_kept([loads[m] for m in members], partitions)


# --- by the planner -------------------------------------------------------------------------------


def _planned_is_right(view: GroupRead, rows: Rows, world: "World") -> None:
    """By the view; whether a replica is what its member says is judged when it is said."""
    world.reached["planned in trouble"] += is_troubled(view, world)
    world.reached["learner made owner"] += len(rules_are_kept(view, rows))
    world.scale_downs.target_is_right(view, rows)


def is_troubled(view: GroupRead, world: "World") -> bool:
    """Somebody is gone or cannot serve what it has: more has to move than evenness asks for."""
    gone = view.members.keys() ^ {agent.member_id for agent in world.living()}
    return bool(gone) or any(row.unserved or not row.able for row in view.members.values())


def whoever_learns_anew_says_so(before: Learning, world: "World") -> None:
    """That its replica was ready once does not count."""
    rows = world.read().members if world.settings.stateful else {}
    for member, learning in world.learning().items():
        early = rows[member].ready & (learning - before.get(member, frozenset()))
        demand(not early, f"{member} is to learn {sorted(early)} anew and counts as ready")


def rules_are_kept(view: GroupRead, rows: Rows) -> dict[Partition, str]:
    """By the view alone. Answers who takes what over from a live owner."""
    unable = unable_members(view)
    planned = view_of(view, unable)
    try:
        check(planned, plan(planned))  # type: ignore[arg-type]
    except AssertionError as error:
        (*_, last) = extract_tb(error.__traceback__)
        raise Broken(f"a rule of learners.md is broken: {last.line}") from error
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
