"""Process and socket of a consumer: asks what it may process, takes its time, commits by fence.

Follows agent.spark: the same calls of the store in the same order, a lost reply asked for again as
long as the lease lasts, replicas brought forward when they are not at the committed offset.
"""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from agent.consumer.socket import Disconnected, Hello
from agent.consumer.supervisor import Exited
from agent.state.errors import StateLost
from agent.state.restore import restore
from agent.store.door import StoreUnavailable
from assignment.errors import Fenced
from assignment.scripts import agent_side
from assignment.scripts.agent_side import BatchStart, CommitAnswer, CommitRequest, CommitResult
from assignment.types import Offset, Partition
from assignment.wire import ConsumerHealth, ControlMessage, StreamKeys
from tests.fakes.values import Entry
from tests.simulation.agenda import Alarm
from tests.simulation.replicas import effects, packed, write_snapshot

if TYPE_CHECKING:
    from tests.simulation.agents import SimAgent

START_MS = (50, 500)
BATCH_MS = (30, 400)
IDLE_MS = (100, 300)  # between two looks for events
AGAIN_MS = 50  # after a call that was not answered
SAY_AGAIN_MS = 1_000  # its progress, without a change (agent.spark.progress)
SNAPSHOT_EVERY = (6, 2)  # commits; with state so few that replicas find gaps when they stand still
EVENTS_MAX = 20  # of a partition in a batch
EXIT_ENDED, EXIT_LEASE, EXIT_KILLED = 0, 4, -9


@dataclass(slots=True)
class Batch:
    ranges: list[tuple[BatchStart, list[Entry]]]
    requests: list[CommitRequest] | None = None  # None: not prepared yet


class SimConsumer:
    def __init__(self, agent: "SimAgent") -> None:
        self._agent, self._world = agent, agent.world
        self.run = 0
        self.running = False
        self.hanging = False
        self.paused_until_ms = 0
        self.slow = 1  # how many times as long a batch takes
        self.batch: Batch | None = None
        self.store = agent.new_store(self._blocked)
        self._ending = False
        self._agent_gone = False
        self._control: ControlMessage | None = None
        self._lease_end_ms = 0
        self._health = ConsumerHealth()
        self._held_back: set[tuple[Partition, int]] = set()
        self._say_again_ms = 0
        self._commits: Counter[Partition] = Counter()
        self._snapshot_every = SNAPSHOT_EVERY[self._world.settings.stateful]
        self._not_before_ms = 0
        self._alarm = Alarm(self._world.agenda, self._turn)

    @property
    def pid(self) -> int:
        return 1_000 + self.run

    # --- what the agent does to it

    def start(self) -> None:
        self.run, self.running, self.hanging = self.run + 1, True, False
        self._ending = self._agent_gone = False
        self._control, self.batch = None, None
        self._say_again_ms = 0
        self._held_back.clear()
        self._health = ConsumerHealth(spark_application_id=f"{self._agent.name}-{self.run}")
        run = self.run
        self._world.agenda.after(self._world.random.randint(*START_MS), lambda: self._connect(run))

    def _connect(self, run: int) -> None:
        if self.running and run == self.run and not self._agent.dead:
            self._agent.inbox.put(Hello(run, self.pid, self._health.spark_application_id, True))

    def send_control(self, number: int, control: ControlMessage) -> None:
        self._control, self._lease_end_ms = control, control.lease_end_ms
        self.wake()

    def send_lease_end(self, lease_end_ms: int) -> None:
        self._lease_end_ms = lease_end_ms

    def send_settings(self, settings: Any) -> None: ...

    def hang_up(self) -> None:
        if self.running:
            self._ending = True
            self._agent.inbox.put(Disconnected(self.run))
            self.wake()

    def ask_to_end(self) -> None:
        self._ending = True
        self.wake()

    def agent_gone(self) -> None:
        """Its socket closed."""
        self._ending = self._agent_gone = True
        self.wake()

    def kill(self) -> None:
        if self.running:
            self._end(EXIT_KILLED)

    def _end(self, code: int) -> None:
        self.running = False
        self.batch = None
        if not self._agent.dead:
            self._agent.inbox.put(Exited(self.run, code))

    # --- what it does

    def wake(self) -> None:
        self._alarm.ask(self._world.now_ms)

    def in_hand(self, partition: Partition, fence: int) -> bool:
        """Whether a batch that may still commit has it under that fence."""
        ranges = self.batch.ranges if self.running and self.batch else ()
        return any((one.partition, one.fence) == (partition, fence) for one, _ in ranges)

    def _blocked(self, ms: int) -> None:
        self._not_before_ms = max(self._not_before_ms, self._world.now_ms + ms)

    def _may_process(self) -> bool:
        return self._agent.clock() < self._lease_end_ms

    def _turn(self) -> None:
        now_ms, free_ms = self._world.now_ms, max(self.paused_until_ms, self._not_before_ms)
        if not self.running or self.hanging:
            return
        if now_ms < free_ms:
            self._alarm.ask(free_ms)
            return
        if self._agent_gone and not self._may_process():
            self._end(EXIT_LEASE)
            return
        try:
            pause_ms = self._work()
        except (StoreUnavailable, Fenced):
            pause_ms = AGAIN_MS
        if self._ending and self.batch is None:
            self._end(EXIT_ENDED)
        self._alarm.ask(max(now_ms + pause_ms, self._not_before_ms))

    def _work(self) -> int:
        """How long until it goes on."""
        if self._control is None:
            return 10_000  # `steer` wakes it
        if self.batch is not None:
            return self._commit_batch(self.batch)
        if self._ending:
            return AGAIN_MS
        if self._world.now_ms >= self._say_again_ms:
            return self._say()
        return self._plan_batch() if self._may_process() else AGAIN_MS

    def _say(self) -> int:
        if self._health.state != "ready":
            self._health = replace(self._health, state="ready", batch=0)
        self.store.write_progress(self._agent.membership.speaker, self._health)
        self._say_again_ms = self._world.now_ms + SAY_AGAIN_MS
        return 1

    def _plan_batch(self) -> int:
        planned = self.store.run(agent_side.next_batch(self._agent.membership.speaker))
        free = [p for p in planned if (p.partition, p.fence) not in self._held_back]
        ranges = [(p, entries) for p in free if (entries := self._entries_after(p))]
        if not ranges:
            return self._world.random.randint(*IDLE_MS)
        self.batch = Batch(ranges)
        return self._world.random.randint(*BATCH_MS) * self.slow

    def _entries_after(self, planned: BatchStart) -> list[Entry]:
        key = StreamKeys(planned.partition.stream).entries(planned.partition.number)
        return self._world.server.entries_after(key, planned.committed)[:EVENTS_MAX]

    # --- commit

    def _commit_batch(self, batch: Batch) -> int:
        try:
            if batch.requests is None:
                batch.requests = self._prepared(batch)
            answers = self.store.commit_many(batch.requests)
        except StoreUnavailable:
            if not self._may_process():
                self._world.note(self._agent.name, "batch given up")
                self.batch = None
            return AGAIN_MS
        for request, answer in zip(batch.requests, answers, strict=True):
            self._take(request, answer)
        self.batch = None
        self._health = replace(self._health, batch=self._health.batch + 1)
        return self._say()

    def _prepared(self, batch: Batch) -> list[CommitRequest]:
        committed = self.store.committed([plan.partition for plan, _ in batch.ranges])
        requests = (self._prepare(*one, committed[one[0].partition]) for one in batch.ranges)
        return [r for r in requests if r is not None]

    def _prepare(
        self, plan: BatchStart, entries: list[Entry], committed: Offset
    ) -> CommitRequest | None:
        replica = self._agent.replica_of(plan.partition)
        if plan.committed != committed or not self._stands_at(plan.partition, committed):
            return None
        events = [int(fields[1]) for _, fields in entries]
        return CommitRequest(
            partition=plan.partition, member_id=self._agent.member_id, fence=plan.fence,
            from_offset=plan.committed, to_offset=Offset(*entries[-1][0]), events=len(entries),
            base_total=replica.total, replication_id=plan.replication_id,
            changes=packed(*effects(replica.total, replica.values, events)),
        )  # fmt: skip

    def _stands_at(self, partition: Partition, committed: Offset) -> bool:
        """Whether the replica is there, brought forward when it was not."""
        replica = self._agent.replica_of(partition)
        if replica.offset != committed:
            try:
                restore(self.store, replica, partition)  # type: ignore[arg-type]
            except StateLost:
                return False
        return replica.offset == committed

    def _take(self, request: CommitRequest, answer: CommitAnswer) -> None:
        partition = request.partition
        if answer.result is CommitResult.FENCED:
            self._world.struck["commit refused"] += 1
            self._held_back.add((partition, request.fence))
        if not answer.applied:
            return
        replica = self._agent.replica_of(partition)
        if replica.offset == request.from_offset:
            replica.take(request.to_offset, request.changes, answer.changelog_id, request.fence)
        self._commits[partition] += 1
        if self._commits[partition] % self._snapshot_every == 0:
            record = write_snapshot(self.store, replica, partition, request.fence)
            if record is not None:
                self._world.memory.written(partition, record)
