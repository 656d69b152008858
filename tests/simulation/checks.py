"""What must hold of a target, of the group after every step, and when faults have ended."""

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from assignment import invariants
from assignment.coordinator import planning, reading
from assignment.coordinator.reading import is_possible
from assignment.errors import InvariantBroken
from assignment.member.state import unable_because
from assignment.scripts.group_read import GroupRead
from assignment.types import HeldState, Partition
from tests.fakes.values import b
from tests.moments import check_step
from tests.simulation import round_checks
from tests.simulation.ledger import Broken, demand

if TYPE_CHECKING:
    from tests.simulation.agents import SimAgent
    from tests.simulation.world import World

BALANCED = ("averagely", "circle", "join_order", "range", "round_robin", "sticky")
LOOK_EVERY_MS = (20, 400)  # at a group of up to SMALL members, at a larger one; a look costs
SMALL = 16  # milliseconds, and the ledger misses nothing between two


# --- a target -------------------------------------------------------------------------------------


def target_is_right(view: GroupRead, due: planning.Target, world: "World") -> None:
    """Each partition once, to a live member; the strategy's promises on load and moves are kept."""
    settings = reading.settings_of(view)
    if settings.stateful:
        taken = round_checks.rules_are_kept(view, due.rows)
        world.reached["learner made owner"] += len(taken)
        world.scale_downs.target_is_right(view, due.rows)
        return
    may_own = {m for m, row in view.members.items() if row.able and not row.leaving}
    may_own -= reading.without_lock(view).keys()
    given = [(p, m) for m, row in due.rows.items() for p in row.active]
    owners = dict(given)
    unserved = {m: view.members[m].unserved for m in may_own}
    wanted = {p for p in settings.all_partitions() if any(p not in u for u in unserved.values())}
    demand(
        not any(p in unserved[m] for p, m in given if m in may_own),
        "the target gives a member what it cannot serve",
    )
    demand(len(owners) == len(given), "the target gives a partition twice")
    demand(set(owners.values()) <= may_own, f"owners {owners} are not among {sorted(may_own)}")
    demand(due.rows.keys() == view.members.keys(), "a member has no row in the target")
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
    least = round_checks.least_moves(before, may_own, len(owners))
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


# --- after every step -----------------------------------------------------------------------------


class Watch:
    """Asks assignment.invariants after each step that moved a lock, a member or a target."""

    def __init__(self) -> None:
        self._before: GroupRead | None = None
        self._stamp: list[bytes | None] = []
        self._next_ms = 0
        self._history = ""

    def look(self, world: "World") -> None:
        meta = world.server.hash(world.keys.meta)
        stamp = [meta.get(name) for name in (b"event_seq", b"group_epoch", b"target_epoch")]
        if stamp == self._stamp or world.now_ms < self._next_ms or world.server.away:
            return
        every_ms = LOOK_EVERY_MS[len(world.agents) > SMALL]
        self._stamp, self._next_ms = stamp, world.now_ms + every_ms
        view = world.read()
        if view.meta.settings is None:
            return  # wiped
        view = replace(
            view, reports={m: r for m, r in view.reports.items() if m not in world.liars}
        )
        try:
            invariants.check(view)
            if self._before is not None and self._history == world.server.replication_id:
                check_step(self._before, view)
        except InvariantBroken as error:
            raise Broken(str(error)) from error
        self._before, self._history = view, world.server.replication_id


# --- when faults have ended -----------------------------------------------------------------------


def all_owned(world: "World") -> bool:
    """Every partition is locked by a member that lives."""
    living = {a.member_id for a in world.agents if a.lives}
    locks = world.read().locks
    return (
        len(locks) == world.settings.partitions
        and {lock.member_id for lock in locks.values()} <= living
    )


def unsettled(world: "World") -> str:
    """Why not all that live are able, the target even, and everything held as it says; "" else."""
    view = world.read()
    if view.meta.settings != world.settings:
        return "settings are not told"
    if view.meta.group_epoch != view.meta.target_epoch:
        return f"epoch {view.meta.group_epoch} has no target"
    for agent in world.living():
        row, state = view.members.get(agent.member_id), agent.membership.state
        why = unable_because(state, agent.clock())
        if why or row is None or not row.able:
            return f"{agent.member_id} is unable: {why or row}"
    if strangers := view.members.keys() - {a.member_id for a in world.living()}:
        return f"{sorted(strangers)} are members and gone"
    return _not_held(world, view)


def _not_held(world: "World", view: GroupRead) -> str:
    running = {m: set(owned) for m, owned in world.fences().items()}
    target = {m: {p.number for p in row.active} for m, row in view.target.items()}
    counts = [len(owned) for owned in running.values()]
    differ = [m for m in sorted(running.keys() | target.keys()) if running.get(m) != target.get(m)]
    if differ or sum(counts) != world.settings.partitions:
        return "; ".join(f"{m} runs {running.get(m)} of {target.get(m)}" for m in differ)
    stateful = world.settings.stateful
    even = max(counts) - min(counts) <= 1 or (
        not stateful and world.settings.strategy not in BALANCED
    )
    if not even:
        return f"uneven: {running}"
    return _replicas_differ(world, view) if stateful else ""


def _replicas_differ(world: "World", view: GroupRead) -> str:
    """Why a scale-down is not over, or not all standbys are kept (L13), or somebody learns."""
    if learning := {m for m, row in view.target.items() if row.learning}:
        return f"{sorted(learning)} still learn"
    if told := [m for m, row in sorted(view.members.items()) if reading.is_leaving(row)]:
        return f"{told} have not left"
    if running := world.scale_downs.running:
        return f"a scale-down is not over: {running}"
    wanted = min(world.settings.standby_replicas, len(view.members) - 1)
    replicas = Counter(p for row in view.target.values() for p in row.standby)
    if short := [p for p in world.settings.all_partitions() if replicas[p] != wanted]:
        return f"standbys of {short}: {replicas}"
    behind = [
        (m, p)
        for m, row in sorted(view.target.items())
        for p in sorted(row.standby)
        if not (m in view.reports and p in (said := view.reports[m].replicas) and said[p].ready)
    ]
    return f"standbys not ready: {behind}" if behind else ""


def settled(world: "World") -> bool:
    return not _plainly_unsettled(world) and not unsettled(world)


def _plainly_unsettled(world: "World") -> bool:
    """What can be seen without reading the group, which takes long."""
    meta = world.server.hash(world.keys.meta)
    epoch = meta.get(b"target_epoch", b"")
    if meta.get(b"group_epoch") != epoch:
        return True
    states = [agent.membership.state for agent in world.living()]
    return any(s.waiting or s.target is None or b(s.target.target_epoch) != epoch for s in states)


def fences(world: "World") -> dict[str, dict[int, int]]:
    """Member -> partition number -> fence of what runs there under its live lock."""
    view = world.read()
    running: dict[str, dict[int, int]] = {member: {} for member in view.members}
    for member, owned in running.items():
        for partition, held in world.store.owned(member).items():
            lock = view.locks.get(partition)
            live = lock and (lock.member_id, lock.fence) == (member, held.fence)
            if live and held.state is HeldState.RUNNING:
                owned[partition.number] = held.fence
    return running


def target_is_recorded(world: "World") -> bool:
    return world.read().meta.target in world.database.targets


def lag(world: "World") -> int:
    """Events without an effect, by the ledger."""
    behind = 0
    for number in range(world.settings.partitions):
        book = world.ledger.book(f"{world.settings.stream}:{number}")
        behind += len(world.server.entries_after(world.entries(number), book.committed))
    return behind


def replicas_are_right(world: "World") -> None:
    for agent in world.living():
        for partition in agent.on_disk():
            replica_is_right(world, agent, partition)


def replica_is_right(world: "World", agent: "SimAgent", partition: Partition) -> None:
    """Whoever stands at the committed offset has what all commits before made of the state."""
    replica, book = agent.replica_of(partition), world.ledger.book(str(partition))
    if tuple(replica.offset) == book.committed:
        has, should = (replica.total, replica.values), (book.total, book.values)
        demand(has == should, f"{agent.member_id} has {has} of {book}")


def destroyed(world: "World") -> int:
    """Events without an effect although nothing is behind; none where Redis lost nothing."""
    found = world.ledger.destroyed
    demand(not found or world.ledger.losses > 0, f"{found} events have no effect")
    return found


def history_is_whole(world: "World") -> None:
    """The lock's own events: no grant begins before the one before it ended."""
    open_: dict[bytes, bytes] = {}
    for event in world.server.rows(world.keys.events):
        partition, fence = event[b"partition"], event[b"fence"]
        if event[b"type"] == b"acquired":
            demand(partition not in open_, f"{partition!r} granted twice: {open_}")
            open_[partition] = fence
        elif event[b"type"] in (b"released", b"expired"):
            demand(open_.pop(partition, b"") == fence, f"{partition!r} ended under another fence")
