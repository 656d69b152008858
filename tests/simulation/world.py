"""Many agents as they are, on a fake Redis, a fake clock and fake consumers, with faults by seed.

Real: the agent's loop, membership, conversation, judgement of the consumer; the core's coordinator.
Fake: time, Redis (held to the real one by the contract suite), the network, the consumer's process.
"""

import itertools
import queue
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from agent.backend import Answer, DashboardAway, Message
from agent.channel import Hello, Hung
from agent.consumer import Consumer
from agent.conversation import Conversation
from agent.hints import Hinted, concerns
from agent.loop import Agent, Inbox, Places, Signalled
from agent.membership import Membership
from agent.restoring import RestoreResult
from agent.store import GroupStore, ScriptCall, StoreUnavailable
from agent.store.stream import StreamStore
from agent.supervisor import Exited
from assignment import group, invariants, scripts
from assignment.errors import Fenced
from assignment.scripts import CommitRequest, CommitResult, GroupRead, Planned, Purpose
from assignment.types import Claim, GroupSettings, HeldState, Offset, Partition
from assignment.wire import ConsumerHealth, Join, Reply, Steering, StreamKeys
from tests.agent.coordinator import answer_to
from tests.fakes import FakeDoor, FakeRedis
from tests.fakes.server import b

NAME = "sim"
TICK_MS = 200
STEP_MS = (10, 60)
LOG_KEPT = 400
PRODUCE_EVERY = 4  # steps
CHECK_EVERY = 10


@dataclass
class Network:
    """Chances, per message, of what a network does."""

    lost_request: float = 0.0
    lost_reply: float = 0.0
    doubled: float = 0.0
    delay_ms: tuple[int, int] = (1, 30)


class LossyDoor(FakeDoor):
    """Redis over a network: a script may run although its answer never comes."""

    def __init__(self, server: FakeRedis, world: "World") -> None:
        super().__init__(server)
        self._world = world

    def run(self, call: ScriptCall) -> Any:
        network, draw = self._world.network, self._world.random.random()
        if draw < network.lost_request:
            raise StoreUnavailable("lost on the way there")
        answer = super().run(call)
        if draw < network.lost_request + network.doubled:
            super().run(call)
        if draw > 1 - network.lost_reply:
            raise StoreUnavailable("lost on the way back")
        return answer


@dataclass(slots=True)
class Later:
    """Things that happen at a time, in order."""

    due: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    count: int = 0

    def at(self, ms: int, what: Callable[[], None]) -> None:
        self.count += 1
        self.due.append((ms, self.count, what))

    def run(self, now_ms: int) -> None:
        ready = sorted(e for e in self.due if e[0] <= now_ms)
        self.due = [e for e in self.due if e[0] > now_ms]
        for _, _, what in ready:
            what()


class SimCourier:
    """One message at a time; the newest of those that wait (as agent.backend.Courier)."""

    def __init__(self, agent: "SimAgent") -> None:
        self._agent = agent
        self._waiting: Message | None = None
        self._busy = False

    @property
    def busy(self) -> bool:
        return self._busy or self._waiting is not None

    def send(self, message: Message) -> None:
        self._waiting = message
        self._go()

    def _go(self) -> None:
        if self._busy or self._waiting is None:
            return
        message, self._waiting, self._busy = self._waiting, None, True
        world, network = self._agent.world, self._agent.world.network
        there = world.now_ms + world.random.randint(*network.delay_ms)
        lost = world.random.random() < network.lost_request
        world.later.at(there, lambda: self._asked(message, lost))

    def _asked(self, message: Message, lost: bool) -> None:
        world = self._agent.world
        reply = None if lost else world.dashboard_answers(self._agent, message)
        if reply is not None and world.random.random() < world.network.doubled:
            world.dashboard_answers(self._agent, message)
        if world.random.random() < world.network.lost_reply:
            reply = None
        back = world.now_ms + world.random.randint(*world.network.delay_ms)
        world.later.at(back, lambda: self._answered(message, reply))

    def _answered(self, message: Message, reply: Reply | None) -> None:
        self._busy = False
        error = None if reply else DashboardAway("simulated")
        self._agent.inbox.put(Answer(message, reply, error))
        self._go()


class SimConsumer:
    """Process and socket of a consumer: plans, takes its time, commits through the fence."""

    def __init__(self, agent: "SimAgent") -> None:
        self._agent = agent
        self.run = 0
        self.running = False
        self.hanging = False
        self.ending = False
        self._steering: Steering | None = None
        self._lease_end_ms = 0
        self._health = ConsumerHealth()
        self._batch: tuple[Planned, ...] | None = None
        self._due_ms = 0
        self.store = agent.world.store()

    @property
    def pid(self) -> int:
        return 1_000 + self.run

    # --- what the agent does to it

    def start(self) -> None:
        world = self._agent.world
        self.run, self.running, self.ending, self.hanging = self.run + 1, True, False, False
        self._steering, self._batch = None, None
        self._health = ConsumerHealth(spark_application_id=f"{self._agent.name}-{self.run}")
        run = self.run
        starts = world.now_ms + world.random.randint(100, 600)
        world.later.at(starts, lambda: self._connect(run))

    def _connect(self, run: int) -> None:
        if self.running and run == self.run and not self._agent.dead:
            self._agent.inbox.put(Hello(run, self.pid, self._health.spark_application_id, True))

    def steer(self, number: int, steering: Steering) -> None:
        self._steering, self._lease_end_ms = steering, steering.lease_end_ms
        self._due_ms = self._agent.world.now_ms + self._agent.world.random.randint(20, 200)

    def send_lease_end(self, lease_end_ms: int) -> None:
        self._lease_end_ms = lease_end_ms

    def send_settings(self, settings: Any) -> None: ...

    def hang_up(self) -> None:
        if self.running:
            self.ending = True
            self._agent.inbox.put(Hung(self.run))

    def ask_to_end(self) -> None:
        self.ending = True

    def kill(self) -> None:
        if self.running:
            self._end(-9)

    def _end(self, code: int) -> None:
        self.running = False
        self._batch = None
        self._agent.inbox.put(Exited(self.run, code))

    # --- what it does

    def turn(self) -> None:
        world = self._agent.world
        if not self.running or self.hanging or world.now_ms < self._due_ms:
            return
        try:
            self._work()
        except (StoreUnavailable, Fenced):
            self._due_ms = world.now_ms + 50
        if self.ending and self._batch is None and self.running:
            self._end(0)

    def _work(self) -> None:
        world, member = self._agent.world, self._agent.member_id
        if self._steering is None:
            return
        if self._health.state != "ready":
            ready = replace(self._health, state="ready", batch=0)
            if self.store.write_progress(member, ready):
                self._health = ready
        elif self._batch is None:
            if not self.ending and world.mono_ms < self._lease_end_ms:
                self._batch = self.store.plan(member)
                self._due_ms = world.now_ms + world.random.randint(20, 300)
        else:
            self._commit(member, self._batch)

    def _commit(self, member: str, batch: tuple[Planned, ...]) -> None:
        world, done = self._agent.world, 0
        for plan in batch:
            end = StreamStore(self.store.door, plan.partition.stream).last_offset(
                plan.partition.number
            )
            if end <= plan.committed:
                continue
            request = CommitRequest(
                partition=plan.partition, member_id=member, fence=plan.fence,
                from_offset=plan.committed, to_offset=end, events=1,
            )  # fmt: skip
            answer = self.store.commit(request)
            done += answer.applied
            world.refused += answer.result is CommitResult.FENCED
        self._batch = None
        if done:
            self._health = replace(self._health, batch=self._health.batch + 1)
            self.store.write_progress(member, self._health)


class SimAgent:
    """One agent with its consumer, on one machine."""

    def __init__(self, world: "World", name: str) -> None:
        self.world, self.name = world, name
        self.member_id = f"{name}-1"
        self.inbox: queue.SimpleQueue[Inbox] = queue.SimpleQueue()
        self.door = LossyDoor(world.server, world)
        self.cut_from_dashboard = False
        self.dead = False
        self.paused = False
        self.exit_code: int | None = None
        self.log: deque[str] = deque(maxlen=LOG_KEPT)
        self.heard_id = "0-0"
        self.process = SimConsumer(self)
        clock = lambda: world.mono_ms  # noqa: E731
        self.membership = Membership(
            store=GroupStore(self.door, NAME), member_id=self.member_id,
            settings=GroupSettings(stream="unknown", partitions=1), restorer=self, clock=clock,
            note=self.note,
        )  # fmt: skip
        consumer = Consumer(self.process, self.process, self.note)
        identity = Join(member=self.member_id, secret=f"{name}-secret-of-sixteen", host=name)
        self.agent = Agent(
            places=Places(group=NAME, redis_url="", state_dir="", snapshot_url=""),
            membership=self.membership,
            conversation=Conversation(
                identity, self.membership, SimCourier(self), clock, self.note
            ),
            consumer=consumer, line=self.process, inbox=self.inbox, clock=clock, note=self.note,
        )  # fmt: skip

    def note(self, event: str, **fields: Any) -> None:
        self.log.append(f"{self.world.mono_ms} {event} {fields}")

    def order(self, claim: Claim) -> None:
        """The restorer: takes its time, sometimes fails."""
        failure = "broken" if self.world.random.random() < 0.05 else ""
        at_ms = self.world.now_ms + self.world.random.randint(5, 200)
        self.world.later.at(at_ms, lambda: self.inbox.put(RestoreResult(claim, failure)))

    def turn(self) -> None:
        if self.paused:
            return
        if not self.dead and self.exit_code is None:
            self._hear_hints()
            code = self.agent.step()
            self.exit_code = None if code is None else int(code)
            if self.exit_code is not None:
                self.process.kill()
        self.process.turn()

    def _hear_hints(self) -> None:
        try:
            heard = self.membership.store.wait_hints(self.heard_id, 0)
        except StoreUnavailable:
            return
        self.heard_id = heard.last_id
        mine = {h.reason for h in heard.hints if concerns(h.reason, h.member_id, self.member_id)}
        if mine and self.world.random.random() < 0.5:  # the others are missed
            self.inbox.put(Hinted(frozenset(mine)))

    # --- faults

    def kill(self) -> None:
        """Agent and consumer, SIGKILL."""
        self.dead = True
        self.process.running = False

    def kill_agent(self) -> None:
        """Its consumer sees the closed socket."""
        self.dead = True
        self.process.ending = True

    def term(self) -> None:
        self.inbox.put(Signalled())

    def cut(self, cut: bool) -> None:
        self.door.down = cut
        self.process.store.door.down = cut  # type: ignore[attr-defined]


class World:
    def __init__(self, seed: int, **changes: Any) -> None:
        random.seed(seed)  # the jitter of the agents
        self.random = random.Random(seed)
        self.server = FakeRedis()
        self.start_ms = self.server.now_ms
        self.later = Later()
        self.network = Network()
        self.agents: list[SimAgent] = []
        self.refused = 0
        self.produced = 0
        self.producing = True
        self.dashboard_down = False
        self.settings = GroupSettings(
            **({
                "stream": "s", "partitions": 8, "lease_ms": 1_500, "renew_ms": 500,
                "session_timeout_ms": 1_200, "heartbeat_ms": 300, "grace_ms": 1_000,
                "consumer_stall_ms": 2_000,
            } | changes)
        )  # fmt: skip
        self.door = FakeDoor(self.server)
        self._run("configure", scripts.configure_args(self.settings, "sim", replan=True))
        self._tick_ms = 0
        self._before: GroupRead | None = None
        self._stamp: list[bytes | None] = []
        self.steps = 0

    @property
    def now_ms(self) -> int:
        return self.server.now_ms

    @property
    def mono_ms(self) -> int:
        """The agents' clock: its own origin."""
        return self.server.now_ms - self.start_ms + 5_000

    def store(self) -> GroupStore:
        return GroupStore(LossyDoor(self.server, self), NAME)

    def add(self, name: str) -> SimAgent:
        self.agents.append(SimAgent(self, name))
        return self.agents[-1]

    # --- time

    def run_for(self, ms: int) -> None:
        end = self.now_ms + ms
        while self.now_ms < end:
            self.step()

    def run_until(self, fact: Callable[[], bool], within_ms: int, what: str) -> int:
        """How long it took; fails when it did not come true in that (simulated) time."""
        began = self.now_ms
        while not fact():
            assert self.now_ms - began < within_ms, f"{what}\n{self.story()}"
            self.step()
        return self.now_ms - began

    def step(self) -> None:
        self.server.advance(self.random.randint(*STEP_MS))
        self.steps += 1
        if self.producing and not self.server.down and self.steps % PRODUCE_EVERY == 0:
            number = self.random.randrange(self.settings.partitions)
            self.server.xadd(StreamKeys("s").entries(number), {"event": "1"})
        self.later.run(self.now_ms)
        for agent in self.random.sample(self.agents, len(self.agents)):
            agent.turn()
        if not self.dashboard_down and not self.server.down and self.now_ms >= self._tick_ms:
            self._tick_ms = self.now_ms + TICK_MS
            self._tick()
        self._check()

    def _check(self) -> None:
        """After every step that moved a lock or a target, and now and then for what is reported."""
        meta = self.server.hash(f"ek:{{{NAME}}}:meta")
        stamp = [meta.get(name) for name in ("event_seq", "group_epoch", "target_epoch")]
        if self.server.down or (stamp == self._stamp and self.steps % CHECK_EVERY):
            return
        self._stamp = stamp
        view = self.read(Purpose.LOOK)
        try:
            invariants.check(view)
            if self._before is not None:
                invariants.check_step(self._before, view)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story()}") from error
        self._before = view

    # --- the dashboard

    def _run(self, name: str, args: scripts.Arguments) -> Any:
        return self.door.run(ScriptCall(name, (f"ek:{{{NAME}}}:meta",), args))

    def read(self, purpose: Purpose) -> GroupRead:
        args = scripts.read_group_args(purpose, self.settings.session_timeout_ms)
        return scripts.read_group_answer(self._run("read_group", args))

    def _tick(self) -> None:
        view = self.read(Purpose.TICK)
        incarnation = group.needs_incarnation(view, 0)
        if incarnation is not None:
            self._run("set_incarnation", scripts.incarnation_args(incarnation))
        self._run("sweep", scripts.sweep_args())
        for gone in group.expired_members(view):
            self._run("evict", scripts.evict_args(gone.member, gone.beat, gone.reason))
        if group.without_lock(view):
            self._run("touch", scripts.touch_args("not able"))
        view = self.read(Purpose.PLAN)
        due = group.next_target(view)
        if isinstance(due, group.Target):
            meta = view.meta
            args = scripts.set_target_args(
                meta.coordinator_epoch, meta.mode_epoch, meta.group_epoch, due.rows
            )
            self._run("set_target", args)

    def dashboard_answers(self, agent: SimAgent, message: Message) -> Reply | None:
        if self.dashboard_down or agent.cut_from_dashboard or self.server.down:
            return None
        return answer_to(self._run, self.settings, message)

    # --- what is looked at

    def check_commits(self) -> None:
        """As the changelog has them: in order, without a gap, under fences that only grow."""
        store = GroupStore(self.door, NAME)
        for partition in self.settings.all_partitions():
            entries = store.read_changelog(partition, "0-0", 1_000_000).entries
            assert entries, f"{partition} was never committed"
            for before, after in itertools.pairwise(entries):
                assert after.from_offset == before.to_offset, partition
                assert after.fence >= before.fence, partition
            for entry in entries:
                at_ms = Offset.parse(entry.entry_id).ms
                granted = max(f for f, since_ms in self._grants(partition) if since_ms < at_ms)
                assert entry.fence >= granted, f"{partition} committed under an outdated fence"

    def check_grants(self) -> None:
        """As the lock's own events have them: none begins before the one before it ended."""
        open_: dict[bytes, bytes] = {}
        for _, event in self.server.streams[f"ek:{{{NAME}}}:events"]:
            partition, fence = event["partition"], event["fence"]
            if event["type"] == b"acquired":
                assert partition not in open_, f"{partition!r} granted twice: {open_}"
                open_[partition] = fence
            elif event["type"] in (b"released", b"expired"):
                assert open_.pop(partition) == fence, f"{partition!r} ended under another fence"

    def _grants(self, partition: Partition) -> list[tuple[int, int]]:
        """(fence, since ms) of everything that was ever granted."""
        events = self.server.streams[f"ek:{{{NAME}}}:events"]
        return [
            (int(event["fence"]), int(event["at_ms"]))
            for _, event in events
            if event["type"] == b"acquired" and event["partition"] == b(str(partition))
        ]

    def lag(self) -> int:
        committed = self.read(Purpose.LOOK).offsets
        behind = 0
        for number in range(self.settings.partitions):
            end = StreamStore(self.door, "s").last_offset(number)
            behind += end > committed.get(Partition("s", number), (0, 0))
        return behind

    def fences(self) -> dict[str, dict[int, int]]:
        """Member -> partition number -> fence of what runs there under its live lock."""
        view = self.read(Purpose.LOOK)
        running: dict[str, dict[int, int]] = {member: {} for member in view.members}
        for member, owned in running.items():
            for partition, held in GroupStore(self.door, NAME).owned(member).items():
                lock = view.locks.get(partition)
                live = lock and (lock.member_id, lock.fence) == (member, held.fence)
                if live and held.state is HeldState.RUNNING:
                    owned[partition.number] = held.fence
        return running

    def settled(self) -> bool:
        """All that live are able, and every partition runs where the target says, evenly."""
        view = self.read(Purpose.LOOK)
        living = {a.member_id for a in self.agents if not a.dead and a.exit_code is None}
        if {m for m, row in view.members.items() if row.able} != living:
            return False
        running = self.fences()
        counts = [len(owned) for owned in running.values()]
        target = {m: {p.number for p in row.active} for m, row in view.target.items()}
        return (
            sum(counts) == self.settings.partitions
            and max(counts) - min(counts) <= 1
            and {m: set(owned) for m, owned in running.items()} == target
        )

    def story(self) -> str:
        return "\n".join(f"{a.name}: {line}" for a in self.agents for line in list(a.log)[-25:])
