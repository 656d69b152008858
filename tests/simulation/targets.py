"""What must hold of every target that a coordinator is about to store."""

from collections import Counter
from collections.abc import Mapping, Sequence
from traceback import extract_tb
from typing import TYPE_CHECKING

from assignment.coordinator import reading
from assignment.coordinator.learners import view_of
from assignment.coordinator.reading import claims, unable_members
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
    settings, unable = reading.settings_of(view), unable_members(view)
    unserved = {m.member_id: m.unserved for m in reading.able_members(view, unable)}
    given = [(p, m) for m, row in rows.items() for p in row.active]
    owners, may_own = dict(given), sorted(unserved)
    wanted = {p for p in settings.all_partitions() if any(p not in u for u in unserved.values())}
    demand(
        not any(p in unserved[m] for p, m in given if m in unserved),
        "the target gives a member what it cannot serve",
    )
    demand(len(owners) == len(given), "the target gives a partition twice")
    demand({*owners.values()} <= unserved.keys(), f"owners {owners} are not among {may_own}")
    demand(rows.keys() == view.members.keys(), "a member has no row in the target")
    if settings.strategy in BALANCED:
        demand(owners.keys() == wanted, "the target does not cover each partition")
        loads = Counter(dict.fromkeys(may_own, 0)) + Counter(owners.values())
        spread = [0] if any(unserved.values()) else [loads[m] for m in may_own] or [0]
        demand(max(spread) - min(spread) <= 1, f"the target's loads are {spread}")
    if settings.strategy == "sticky" and not any(unserved.values()):
        # What a leaving member took over counts for whom a late report still names as its owner.
        claimed = {m: own for m, own in claims(view, unable).items() if m in unserved}
        moves_are_least(highest(claimed), owners, may_own)


def highest(claimed: Mapping[str, Mapping[Partition, int]]) -> dict[Partition, str]:
    """Partition -> the member that claims it with the highest fence."""
    best: dict[Partition, tuple[int, str]] = {}
    for member, own in claimed.items():
        for partition, fence in own.items():
            best[partition] = max(best.get(partition, (0, "")), (fence, member))
    return {partition: member for partition, (_, member) in best.items()}


def moves_are_least(
    before: Mapping[Partition, str], owners: Mapping[Partition, str], equal: Sequence[str]
) -> None:
    """From owners among these equal members: what no even assignment can keep."""
    stay = {p: m for p, m in before.items() if m in equal and p in owners}
    loads, moved = Counter(stay.values()), sum(owners[p] != m for p, m in stay.items())
    least = len(stay) - most_kept([loads[m] for m in equal], len(owners)) if equal else 0
    demand(moved == least, f"{moved} moved from members that stay, {least} suffice")


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
    """By the view alone. Answers who takes what over from a live owner. That nobody waits who could
    own (L5) is asked by assignment.invariants.
    """
    unable = unable_members(view)
    planned = view_of(view, unable)
    try:
        check(planned, plan(planned))  # type: ignore[arg-type]
    except AssertionError as error:
        (*_, last) = extract_tb(error.__traceback__)
        raise Broken(f"a rule of learners.md is broken: {last.line}") from error
    owners = {p: m for m, row in rows.items() for p in row.active}
    takers = {p: _taker(view, owners, p, unable) for p in planned.partitions}
    for member in (m for m, row in view.members.items() if reading.is_leaving(row)):
        _nothing_new(view, rows[member], member)
    return {p: taker for p, taker in takers.items() if taker}


def _taker(
    view: GroupRead, owners: Mapping[Partition, str], partition: Partition, unable: Unable
) -> str:
    """L1, L2: from a live owner only to a ready learner; "" when it does not go from one."""
    lock = view.locks.get(partition)
    if lock is None:
        return ""
    owner, row, taker = lock.member_id, view.members[lock.member_id], owners.get(partition)
    claimed = any(partition in r.active for m, r in view.target.items() if m != owner)
    free = owner in unable or reading.is_forced(row) or partition in row.unserved
    if free or taker in (owner, None) or claimed:
        return ""  # `claimed`: it was decided by a target before this one
    assert taker is not None
    said = view.reports[taker].owned.get(partition) if taker in view.reports else None
    if said is not None and said.fence > lock.fence:
        return ""  # it has it already: Redis lost that it was handed over
    demand(partition in view.members[taker].ready, f"{partition} goes to {taker}, who is not ready")
    return taker


def _nothing_new(view: GroupRead, row: TargetRow, member: str) -> None:
    """S4."""
    locked = {p for p, lock in view.locks.items() if lock.member_id == member}
    reported = view.reports[member].owned.keys() if member in view.reports else set()
    before = view.target[member].active if member in view.target else frozenset()
    demand(not row.standby and not row.learning, f"{member} leaves and is given replicas")
    demand(row.active <= locked | reported | before, f"{member} leaves and is given {row}")
