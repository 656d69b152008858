"""An agent as it is, its restorer and its consumer, on one machine with a clock of its own.

Real: loop, membership, session, judgement of the consumer, the core. Fake: processes, sockets,
time and what is between them.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from agent.config import ExitCode
from agent.consumer.consumer import Consumer
from agent.coordination.founding import Founder
from agent.coordination.registry import Ask, Registry, first_of
from agent.dashboard_session.requests import DashboardAway, Request
from agent.dashboard_session.session import DashboardSession
from agent.hints import Hinted
from agent.loop import Agent, Inbox, Signalled
from agent.membership import Membership
from agent.state.errors import StateLost
from agent.state.restore import restore
from agent.store.door import StoreUnavailable
from agent.store.group import GroupStore
from assignment.member.messages import RestoreEnded
from assignment.member.replicas import Wanted
from assignment.scripts.dashboard_side import process_of
from assignment.types import Claim, GroupSettings, Partition, ReplicaReport
from assignment.wire import ControlMessage, Heartbeat, Join, Reply
from tests.fakes import FakeRedis
from tests.simulation.agenda import Alarm
from tests.simulation.consumer import SimConsumer
from tests.simulation.coordinator import SimAgentCoordinator
from tests.simulation.ledger import demand
from tests.simulation.manager import SimReplicaManager
from tests.simulation.network import SimCourier, SimDoor
from tests.simulation.replicas import DiskState

if TYPE_CHECKING:
    from tests.simulation.world import World

RESTORE_MS = (5, 200)
HINT_MS = (1, 40)
UNSERVED_FOR_MS = 1_500  # a lease, in place of minutes: so it is over before a group must be whole
PAUSED_LOOK_MS = 100
RESTART_MS = (200, 2_000)


class SimInbox(SimpleQueue[Inbox]):
    """Whoever puts something in wakes the agent."""

    def __init__(self, alarm: Alarm, world: "World") -> None:
        self._alarm, self._world = alarm, world

    def put(self, event: Inbox) -> None:  # type: ignore[override]
        super().put(event)
        self._alarm.ask(self._world.now_ms)


class SimStore(GroupStore):
    def __init__(self, door: SimDoor, world: "World") -> None:
        super().__init__(door, world.name)
        self._world = world

    def note_reader(self, settings: GroupSettings) -> None:
        self._world.trimming.is_read_by(self._world.name)

    def note_group(self) -> None:
        """No dashboard looks for it here."""


class SimAgent:
    def __init__(
        self,
        world: "World",
        name: str,
        disk: Mapping[Partition, DiskState] | None = None,
        redis: FakeRedis | None = None,
        *,
        instance: bool = False,
    ) -> None:
        """`disk`: what the process before it left on this machine. `redis`: a wrong one.
        `instance`: the name is an instance's, which more than one process may have.
        """
        self.world, self.name, self.instance = world, name, instance
        self.member_id = name if instance else f"{name}-1"
        self.secret = f"{name}-secret-of-sixteen-{len(world.agents) if instance else 0}"
        self.dead = False
        self.exit_code: int | None = None
        self.cut_from_dashboard = self.told_to_go = False
        self.beats = True
        self.lies: dict[str, Any] = {}
        self.redis, self.misfit = redis or world.server, redis is not None
        self.paused_until_ms = 0
        self.clock_behind_ms = world.now_ms - world.random.randint(0, 1_000_000)
        self._asleep_since_ms: int | None = None
        self._not_before_ms = 0
        self.disk = dict(disk or {})
        self._departs = False
        self._hinted: set[str] = set()
        self._alarm = Alarm(world.agenda, self._turn)
        self.inbox = SimInbox(self._alarm, world)
        self._doors: list[SimDoor] = []
        self.store, self._restore_store = self.new_store(self._blocked), self.new_store()
        self.process = SimConsumer(self)
        self.manager = SimReplicaManager(self) if world.settings.stateful else None
        self._assemble()
        self.ask: Ask = self._ask_dashboard
        self.coordinator: SimAgentCoordinator | None = None
        if world.agents_may_coordinate:
            self.may_coordinate()
        if self.manager:
            self.manager.find_left_over()
        self._alarm.ask(world.now_ms)

    def may_coordinate(self) -> None:
        """Every agent may; those of a group in which nobody ever does are simulated without."""
        if self.coordinator is not None:
            return
        world = self.world
        founder = Founder(self.store, asdict(world.settings))
        # A group with a dashboard is that one's to make.
        makes = (lambda: False) if world.coordinators else founder.make_group
        registry = Registry(self.store, makes)
        is_alone = not world.coordinators
        self.ask = registry.ask if is_alone else first_of(self.ask, registry, self.store)
        self.coordinator = SimAgentCoordinator(self)

    def _assemble(self) -> None:
        world, process = self.world, process_of(self.secret) if self.instance else ""
        self.membership = Membership(
            store=self.store, member_id=self.member_id, process=process,
            settings=GroupSettings(stream="unknown", partitions=1),
            replicas=self.manager or self, clock=self.clock, note=self.note,
            unserved_for_ms=UNSERVED_FOR_MS,
        )  # fmt: skip
        identity = Join(
            member=self.member_id, secret=self.secret, host=self.name,
            instance=self.name if self.instance else "",
        )  # fmt: skip
        self.agent = Agent(
            control=ControlMessage(
                group=world.name, member=self.member_id, process=process, redis_url="",
                state_dir="", snapshot_url="", settings=self.membership.state.settings,
                lease_end_ms=0,
            ),
            membership=self.membership,
            session=DashboardSession(
                identity, self.membership, SimCourier(self), self.clock, self.note
            ),
            consumer=Consumer(self.process, self.process, self.note),
            inbox=self.inbox, clock=self.clock, note=self.note,
        )  # type: ignore[arg-type]  # fmt: skip

    def new_store(self, blocked: Callable[[int], None] = lambda ms: None) -> GroupStore:
        """Over a connection of its own."""
        self._doors.append(SimDoor(self.world, blocked, self.redis))
        return SimStore(self._doors[-1], self.world)

    @property
    def lives(self) -> bool:
        return not self.dead and self.exit_code is None

    def clock(self) -> int:
        """Monotonic, of this machine: it stands still while the machine sleeps."""
        asleep_ms = self._asleep_since_ms
        return (self.world.now_ms if asleep_ms is None else asleep_ms) - self.clock_behind_ms

    def note(self, event: str, **fields: Any) -> None:
        self.world.note(self.name, event, **fields)
        if event == "lost":
            self.world.ledger.lost(fields["partition"], fields["fence"])

    def replica_of(self, partition: Partition) -> DiskState:
        return self.disk.setdefault(partition, DiskState(self.world.files))

    def left_on_disk(self) -> dict[Partition, DiskState]:
        return {p: replace(replica, near=False) for p, replica in self.disk.items()}

    # --- turns

    def _blocked(self, ms: int) -> None:
        self._not_before_ms = max(self._not_before_ms, self.world.now_ms + ms)

    def _turn(self) -> None:
        if not self.lives:
            return
        now_ms, free_ms = self.world.now_ms, max(self.paused_until_ms, self._not_before_ms)
        if now_ms < free_ms:
            self._alarm.ask(free_ms)
            return
        code = self.agent.step()
        self._judge_departure()
        if code is None:
            self._alarm.ask(max(now_ms + self.agent.wait_ms(), self._not_before_ms))
        else:
            self.exit_code = int(code)
            self.process.kill()
            if code is ExitCode.REFUSED:
                self._refused()

    def _ask_dashboard(self, message: Request) -> Reply:
        reply = None if self.cut_from_dashboard else self.world.dashboard_answers(message)
        if reply is None:
            raise DashboardAway("simulated")
        return reply

    def judge_ready(self, message: Request) -> None:
        """L11: whoever calls for a rebalance was once as near as it has to be, or is so now: the
        consumer of an owner that lost its lock brings the file forward beside its agent.
        """
        acceptable_lag = self.membership.state.settings.acceptable_lag_records
        for name in message.ready if isinstance(message, Heartbeat) else ():
            replica = self.replica_of(Partition.parse(name))
            is_near = self.world.ledger.book(name).total - replica.total <= acceptable_lag
            demand(is_near or replica.near, f"{self.member_id} calls {name} ready at {replica}")

    def _judge_departure(self) -> None:
        state = self.membership.state
        if state.leaving and not self._departs:
            self._departs = True
            if not self.told_to_go:
                self.world.scale_downs.departs(self.member_id)

    def hint(self, reason: str) -> None:
        """Told in Redis; gathered until it is delivered. Some are missed."""
        if not self._hinted:
            delay_ms = self.world.random.randint(*HINT_MS)
            self.world.agenda.after(delay_ms, self._deliver_hints)
        self._hinted.add(reason)

    def _deliver_hints(self) -> None:
        reasons, self._hinted = frozenset(self._hinted), set()
        missed = self.world.random.random() < self.world.network.missed_hints
        if self.lives and not missed and not self._doors[0].down:
            self.inbox.put(Hinted(reasons))
            if self.coordinator:
                self.coordinator.hear(reasons)

    # --- the restorer

    def order(self, claim: Claim) -> None:
        delay_ms = self.world.random.randint(*RESTORE_MS)
        self.world.agenda.after(delay_ms, lambda: self._restore(claim))

    def want(self, wanted: Wanted) -> None:
        """It keeps none: a group without learners."""

    def reports(self) -> Mapping[Partition, ReplicaReport]:
        return {}

    def _restore(self, claim: Claim) -> None:
        if not self.lives:
            return
        world = self.world
        if world.now_ms < self.paused_until_ms:
            world.agenda.after(PAUSED_LOOK_MS, lambda: self._restore(claim))
            return
        broken = world.random.random() < world.restore_failures
        self.inbox.put(RestoreEnded(claim, "broken") if broken else self.bring_up(claim))

    def bring_up(self, claim: Claim) -> RestoreEnded:
        """To the committed offset."""
        try:
            restore(self._restore_store, self.replica_of(claim.partition), claim.partition)  # type: ignore[arg-type]
        except (StoreUnavailable, StateLost) as error:
            return RestoreEnded(claim, str(error), isinstance(error, StateLost))
        return RestoreEnded(claim)

    # --- faults

    def kill(self) -> None:
        """Agent and consumer, SIGKILL."""
        self.dead = True
        self.process.running = False
        self.process.batch = None

    def restart_later(self) -> None:
        """A new process on the same machine, as a process manager starts it."""
        again = self.come_back
        if not self.instance:
            disk = self.left_on_disk() if self.manager else {}
            again = partial(self.world.add_one, disk)
        self.world.later(self.world.random.randint(*RESTART_MS), again)

    def come_back(self) -> None:
        """Another process of its instance, once this one has ended, unless there is one already."""
        if self.lives:
            self.world.later(PAUSED_LOOK_MS, self.come_back)
        elif not any(agent.name == self.name for agent in self.world.living()):
            disk = self.left_on_disk() if self.manager else {}
            self.world.add(self.name, disk, instance=True)

    def _refused(self) -> None:
        """By what was taken for a process of its instance; its process manager tries again."""
        self.world.struck["instance refused"] += 1
        self.world.agenda.after(self.world.random.randint(*RESTART_MS), self.come_back)

    def kill_agent(self) -> None:
        """Its consumer sees the closed socket."""
        self.dead = True
        self.process.agent_gone()

    def term(self) -> None:
        self.told_to_go = True
        self.inbox.put(Signalled())

    def pause(self, ms: int, *, agent: bool = True, consumer: bool = True) -> None:
        """SIGSTOP: the clock goes on."""
        until_ms = self.world.now_ms + ms
        if agent:
            self.paused_until_ms = until_ms
        if consumer:
            self.process.paused_until_ms = until_ms

    def sleep(self, ms: int) -> None:
        """The whole machine, as a virtual one that is saved: its clock stands still meanwhile."""
        self._wake_up()
        self.pause(ms)
        self._asleep_since_ms = self.world.now_ms
        self.world.agenda.after(ms, self._wake_up)

    def _wake_up(self) -> None:
        if self._asleep_since_ms is not None:
            self.clock_behind_ms += self.world.now_ms - self._asleep_since_ms
            self._asleep_since_ms = None

    def cut_from_redis(self, cut: bool) -> None:
        for door in self._doors:
            door.down = cut

    def cut_off(self, cut: bool) -> None:
        self.cut_from_redis(cut)
        self.cut_from_dashboard = cut

    def heal(self) -> None:
        self._wake_up()
        self.cut_off(False)
        self.beats = True
        self.paused_until_ms = self.process.paused_until_ms = 0
        self.process.hanging, self.process.slow = False, 1
        if self.manager:
            self.manager.slow = False
        if self.coordinator:
            self.coordinator.wake()
        self._alarm.ask(self.world.now_ms)
        self.process.wake()
