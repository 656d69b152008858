"""One group on one kind of store, with the short forms that the contract's sentences need."""

import time
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, TypeVar

from msgspec.structs import asdict

from agent.store.door import Door, pairs
from agent.store.group import GroupStore
from assignment import types
from assignment.scripts import (
    agent_side,
    dashboard_side,
    group_read,
    heartbeat,
    lock_events,
    recovery,
)
from assignment.scripts.agent_side import CommitRequest, SnapshotRecord
from assignment.scripts.group_read import NO_TICK, GroupRead, Purpose, Ticker
from assignment.scripts.lock_events import LockEvent
from assignment.scripts.values import Call
from assignment.types import Claim, GroupSettings, Held, HeldState, Offset, Partition, TargetRow
from assignment.wire import Heartbeat, parse_target
from tests.fakes import FakeDoor

T = TypeVar("T")
LONG_MS = 60_000  # no lock ends by chance while a test runs
DEADLINE_S = 10.0
ANOTHER_RUN = "f" * 40
P0, P1, P2 = (Partition("flights", n) for n in range(3))


class World:
    def __init__(self, door: Door, group: str) -> None:
        self.door = door
        self.store = GroupStore(door, group)
        self.keys = self.store.keys

    def run(self, call: Call[T]) -> T:
        return self.store.run(call)

    # --- a group that stands ----------------------------------------------------------------------

    def configure(self, *, rebalance_due: bool = True, **settings: Any) -> int:
        chosen = GroupSettings(**{"stream": "flights", "partitions": 3, **settings})
        return self.run(dashboard_side.configure(chosen, "settings", rebalance_due=rebalance_due))

    def join(self, member_id: str, secret: str = "secret", **row: Any) -> dashboard_side.JoinResult:
        return self.run(dashboard_side.join(member_id, secret, row)).result

    def restart(self, member_id: str, secret: str, seen: str = "") -> dashboard_side.Joined:
        """Another process joins under that instance name."""
        row: dict[str, Any] = {"instance": member_id, "host": f"host of {secret}"}
        return self.run(dashboard_side.join(member_id, secret, row, seen))

    def set_incarnation(self, incarnation: int, run_id: str = "", **known: int) -> tuple[bool, int]:
        return self.run(dashboard_side.set_incarnation(incarnation, run_id, known))

    def assign(self, **rows: set[Partition]) -> int:
        """Gives these members these partitions, as a rebalance does; the target_epoch."""
        due = self.due()
        refused = self.set_target(due, **rows)
        assert refused is None, refused
        return due.meta.group_epoch

    def request_rebalance(self, reason: str = "test", member_id: str = "") -> int:
        return self.run(dashboard_side.request_rebalance(reason, member_id))

    def due(self) -> GroupRead:
        """The group as a coordinator reads it that has to make a target."""
        self.request_rebalance()
        return self.read(Purpose.REBALANCE)

    def last_change(self) -> str:
        """Id of the last one in `control`."""
        return self.store.last_hints(self.keys.control)[self.keys.control]

    def changes(self, after: str = "0-0") -> list[tuple[str, str]]:
        """Reason and member of each that `control` has after that id."""
        entries = self.door.ask("XRANGE", self.keys.control, f"({after}", "+")
        rows = (dict(pairs(flat)) for _, flat in entries)
        return [(row[b"reason"].decode(), row[b"member"].decode()) for row in rows]

    def set_target(self, group: GroupRead, **rows: set[Partition]) -> str | None:
        epoch = group.meta.group_epoch
        return self.set_rows(group, {m: row(epoch, active) for m, active in rows.items()})

    def set_rows(self, group: GroupRead, rows: Mapping[str, TargetRow]) -> str | None:
        return self.run(dashboard_side.set_target(group, rows))

    def set_mode(
        self, mode: types.Coordination, expected: types.Epoch | None = None
    ) -> dashboard_side.ModeSet:
        """Expected as it is, unless told otherwise."""
        expected = expected or self.read().meta.mode
        return self.run(dashboard_side.set_mode(expected, mode, "ann", "a test"))

    def restore(self, incarnation: int, records: Mapping[Partition, SnapshotRecord]) -> int | None:
        return self.run(recovery.restore(incarnation, records))

    def resume(self, epoch: int, event_seq: int, target: Mapping[str, TargetRow]) -> int:
        return self.run(recovery.resume(epoch, event_seq, target))

    def stand(self, incarnation: int = 1, /, **rows: set[Partition]) -> None:
        """A configured group whose members may acquire what is given."""
        self.configure()
        for member_id in rows:
            self.join(member_id)
        self.set_incarnation(incarnation)
        self.assign(**rows)

    def runs(self, **rows: set[Partition]) -> list[int]:
        """It stands, and each runs what is given; the fences, in the order of the partitions."""
        self.stand(**rows)
        found = {p: self.running(m, p) for m, given in rows.items() for p in sorted(given)}
        return [found[partition] for partition in sorted(found)]

    # --- asking -----------------------------------------------------------------------------------

    def acquire(
        self,
        member_id: str,
        *partitions: Partition,
        ttl_ms: int = LONG_MS,
        mode_epoch: int = 1,
        incarnation: int = 1,
    ) -> agent_side.AcquireAnswer:
        return self.store.acquire(member_id, ttl_ms, mode_epoch, incarnation, partitions)

    def fence(self, member_id: str, partition: Partition, incarnation: int = 1) -> int:
        """Acquires it and answers its fence."""
        answer = self.acquire(member_id, partition, incarnation=incarnation)
        assert isinstance(answer, tuple) and isinstance(answer[0], agent_side.Granted), answer
        return answer[0].fence

    def running(self, member_id: str, partition: Partition) -> int:
        fence = self.fence(member_id, partition)
        assert self.move(member_id, partition, fence, HeldState.RESTORING, HeldState.RUNNING)
        return fence

    def renew(self, member_id: str, *claims: Claim, ttl_ms: int = LONG_MS) -> agent_side.Renewed:
        return self.run(agent_side.renew(member_id, ttl_ms, claims))

    def next_batch(self, member_id: str = "a") -> tuple[agent_side.BatchStart, ...]:
        return self.run(agent_side.next_batch(member_id))

    def release(
        self, member_id: str, fences: Mapping[Partition, int], state: HeldState | None = None
    ) -> tuple[bool, ...]:
        """In the state in which they are stored, or in this one."""
        owned, runs = self.store.owned(member_id), Held(fence=0, state=HeldState.RUNNING)
        held = {
            p: Held(fence=fence, state=state or owned.get(p, runs).state)
            for p, fence in fences.items()
        }
        return self.run(agent_side.release(member_id, held))

    def move(self, member_id: str, partition: Partition, fence: int, *states: HeldState) -> bool:
        change = agent_side.StateChange(partition, fence, *states)
        return self.run(agent_side.set_state(member_id, (change,)))[0]

    def commit(self, *claim_and_range: Any, **more: Any) -> agent_side.CommitAnswer:
        """Of a `commit_of`."""
        return self.run(agent_side.commit(commit_of(*claim_and_range, **more)))

    def snapshot(
        self, partition: Partition, fence: int, at: Offset, changelog_id: str, *, trim: bool = True
    ) -> agent_side.SnapshotResult:
        record = SnapshotRecord(
            url=f"file:///{at}", offset=at, changelog_id=changelog_id, total=1, fence=fence
        )
        return self.run(agent_side.snapshot(partition, record, trim=trim))

    def report(self, member_id: str, sequence: int, **changes: Any) -> Any:
        """What the agent is answered, with its target read, and whether a rebalance is due."""
        seen = {"incarnation": 1, "target_incarnation": 1, "report": 1, "complete": True}
        said = {"member": member_id, "secret": "secret", "sequence": sequence}
        reply, rebalance_due, _ = self.run(
            heartbeat.report(types.read_as(Heartbeat, seen | said | changes))
        )
        facts = asdict(reply)
        if reply.target is not None:
            facts["target"] = parse_target(bytes(reply.target).decode())
        return SimpleNamespace(**facts, rebalance_due=rebalance_due)

    def leave(self, member_id: str, secret: str = "secret") -> bool:
        return self.run(dashboard_side.leave(member_id, secret))

    def set_drain(self, drain: types.Drain, *member_ids: str) -> list[str]:
        return self.run(dashboard_side.set_drain(drain, member_ids))

    def evict(self, member_id: str, judged_ms: int | None = None) -> dashboard_side.EvictResult:
        """Judged by its last beat unless told otherwise."""
        judged_ms = self.read().beats.get(member_id, 0) if judged_ms is None else judged_ms
        return self.run(dashboard_side.evict(member_id, judged_ms, "session ended"))

    def sweep(self, *partitions: types.Partition) -> int:
        """Without any, of all that were ever granted."""
        return self.run(dashboard_side.sweep(partitions or [*self.read().grants]))

    # --- seeing -----------------------------------------------------------------------------------

    def read(self, purpose: Purpose = Purpose.LOOK, ticker: Ticker = NO_TICK) -> GroupRead:
        return self.run(group_read.read_group(purpose, ticker))

    def group_epoch(self) -> int:
        return self.read().meta.group_epoch

    def events(self) -> list[LockEvent]:
        raw = self.door.ask("XRANGE", self.keys.events, "-", "+")
        return [lock_events.read_event(entry_id, fields) for entry_id, fields in raw]

    def kinds(self) -> list[str]:
        return [event.kind for event in self.events()]

    # --- time and runs ----------------------------------------------------------------------------

    def let_expire(self, member_id: str, *claims: Claim) -> None:
        """Their locks run out: the last renew was for one millisecond."""
        assert all(self.renew(member_id, *claims, ttl_ms=1).held)
        partitions = {claim.partition for claim in claims}
        self.until(lambda: not partitions & self.read().locks.keys())

    def pass_ms(self, ms: int) -> None:
        end_ms = self.read().now_ms + ms
        self.until(lambda: self.read().now_ms >= end_ms)

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, "it did not happen in time"
            if isinstance(self.door, FakeDoor):
                self.door.server.advance(1)

    def another_run(self) -> None:
        """As after a restart of Redis: the incarnation was set under another run."""
        if isinstance(self.door, FakeDoor):
            self.door.server.restart()
        else:
            run_ids = ("run_id", ANOTHER_RUN, "tick_run", ANOTHER_RUN)
            self.door.ask("HSET", self.keys.meta, *run_ids)


def commit_of(
    partition: Partition, fence: int, low: Offset, high: Offset, member_id: str = "a", **more: Any
) -> CommitRequest:
    return CommitRequest(
        partition=partition,
        member_id=member_id,
        fence=fence,
        from_offset=low,
        to_offset=high,
        **{"events": 1, **more},
    )


def row(
    epoch: int,
    active: Iterable[Partition] = (),
    learning: Iterable[Partition] = (),
    standby: Iterable[Partition] = (),
) -> TargetRow:
    """As it is stored under incarnation 1."""
    given = {"active": active, "learning": learning, "standby": standby}
    roles = {role: frozenset(partitions) for role, partitions in given.items()}
    return TargetRow(target_epoch=epoch, incarnation=1, **roles)


def offset(number: int) -> Offset:
    return Offset(number, 0)
