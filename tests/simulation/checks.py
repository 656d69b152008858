"""What must hold of the group after every step, and when faults have ended."""

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.state.restore import restore
from assignment import invariants
from assignment.coordinator import reading
from assignment.errors import InvariantBroken
from assignment.member.state import unable_because
from assignment.scripts.group_read import GroupRead
from assignment.types import HeldState, Partition
from tests.fakes.values import b
from tests.moments import check_step
from tests.simulation import targets
from tests.simulation.ledger import Broken, demand

if TYPE_CHECKING:
    from tests.simulation.agents import SimAgent
    from tests.simulation.world import World

LOOK_EVERY_MS = (20, 400)  # at a group of up to SMALL members, at a larger one; a look costs
SMALL = 16  # milliseconds, and the ledger misses nothing between two


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
        honest = {m: report for m, report in view.reports.items() if m not in world.liars}
        view = replace(view, reports=honest)
        try:
            invariants.check(view)
            if self._before is not None and self._history == world.server.replication_id:
                check_step(self._before, view)
        except InvariantBroken as error:
            raise Broken(str(error)) from error
        self._before, self._history = view, world.server.replication_id


# --- when faults have ended -----------------------------------------------------------------------


def calm_owners(world: "World") -> dict[Partition, str] | None:
    """Of a stateful group, when nothing is under way that would move more; else None."""
    view = world.read()
    owners = {p: m for m, row in view.target.items() for p in row.active}
    learns = any(row.learning for row in view.target.values())
    goes = any(row.ready or reading.is_leaving(row) for row in view.members.values())
    held = {p: lock.member_id for p, lock in view.locks.items()}
    whole = held == owners and len(held) == world.settings.partitions
    told = world.scale_downs.running is not None  # or will be
    moves = learns or goes or told or targets.is_troubled(view, world)
    return owners if world.settings.stateful and whole and not moves else None


def all_owned(world: "World") -> bool:
    """Every partition is locked by a member that lives."""
    living, locks = {a.member_id for a in world.living()}, world.read().locks
    owners = {lock.member_id for lock in locks.values()}
    return len(locks) == world.settings.partitions and owners <= living


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
    shall_be_even = stateful or world.settings.strategy in targets.BALANCED
    if shall_be_even and max(counts) - min(counts) > 1:
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
    counts = {m: len(row.standby) for m, row in view.target.items()}
    if max(counts.values()) - min(counts.values()) > 1:
        return f"uneven standbys: {counts}"
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


def is_planned(world: "World") -> bool:
    return world.read().meta.group_epoch == world.read().meta.target_epoch


def target_is_recorded(world: "World") -> bool:
    return world.read().meta.target in world.database.targets


def lag(world: "World") -> int:
    """Events without an effect, by the ledger."""
    books = [(p.number, world.ledger.book(str(p))) for p in world.settings.all_partitions()]
    entries = (world.server.entries_after(world.entries(n), book.committed) for n, book in books)
    return sum(map(len, entries))


def replica_is_right(world: "World", agent: "SimAgent", partition: Partition) -> None:
    """Whoever stands at the committed offset has what all commits before made of the state."""
    replica, book = agent.replica_of(partition), world.ledger.book(str(partition))
    if tuple(replica.offset) == book.committed:
        has, should = (replica.total, replica.values), (book.total, book.values)
        demand(has == should, f"{agent.member_id} has {has} of {book}")


def replicas_are_right(world: "World", agent: "SimAgent") -> None:
    """What it runs, as that is; what it only has on its disk, as whoever is given it makes it: its
    offset may be of a history that Redis lost, and reached since by other commits.
    """
    for partition, replica in agent.disk.items():
        if partition not in agent.membership.state.held:
            restore(world.store, replica, partition)  # type: ignore[arg-type]
            committed = world.ledger.book(str(partition)).committed
            demand(tuple(replica.offset) == committed, f"{replica} was restored to {committed}")
        replica_is_right(world, agent, partition)


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
