"""A large group in Redis as its agents and its coordinator leave it there, whose partitions then go
from member to member through the locks' scripts.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from assignment.coordinator.reading import HERD_MS
from assignment.scripts import agent_side, dashboard_side, group_read
from assignment.scripts.agent_side import Granted
from assignment.scripts.group_read import Purpose
from assignment.types import Partition, Reason, TargetRow
from dashboard import coordinator
from dashboard.live.scripts import run
from dashboard.models import Group
from tests.bench import apart
from tests.dashboard.agents import FakeAgent, make_group

NAME = "bench"
MEMBERS = 200
AT_ONCE = 20  # partitions that one member gives to the next
# So long that nobody needs to renew: the screen's path is measured, and no agents' load.
TIMINGS = {"lease_ms": 3_600_000, "session_timeout_ms": 3_600_000}


class Agent(FakeAgent):
    """One that remembers what it needs to acquire."""

    mode_epoch = incarnation = 0

    def acquire(self, partitions: Iterable[Partition]) -> agent_side.AcquireAnswer:
        ttl_ms = self.group.values.lease_ms
        known = self.mode_epoch, self.incarnation
        answer = run(agent_side.acquire(self.member, ttl_ms, *known, partitions), NAME)
        assert isinstance(answer, tuple), answer
        granted = {a.partition: a.fence for a in answer if isinstance(a, Granted)}
        assert len(granted) == len(answer), answer
        self.held |= granted
        return answer


class LiveGroup:
    """All partitions are owned, by its first target; `hand_over` gives all of them to the second's
    owners, a few at a time.
    """

    def __init__(self, size: int, members: int = MEMBERS) -> None:
        apart.progress(f"a group of {size} partitions and {members} members")
        self.group = make_group(NAME, partitions=size, stream=NAME, **TIMINGS)
        self.agents: list[Agent] = []
        meta = run(group_read.read_group(Purpose.LOOK), NAME).meta
        self.epochs = meta.mode_epoch, meta.incarnation
        for _ in range(members):
            self.join()
        time.sleep(HERD_MS / 1_000)  # members that joined by the dozen just now are waited for
        coordinator.rebalance(NAME, "task", "worker@bench")
        self.settle()
        self.steps = self._steps()

    def join(self) -> None:
        """One more member, able to own."""
        agent = Agent(self.group, f"member-{len(self.agents):03}")
        agent.mode_epoch, agent.incarnation = self.epochs
        agent.start()
        self.agents.append(agent)

    def settle(self) -> None:
        """All release what the target takes, then acquire what it gives, and report."""
        for agent in [*self.agents, *self.agents]:
            agent.follow()

    def keep_history(self) -> None:
        """All that has happened so far."""
        coordinator.tick()
        group = Group.objects.get(name=NAME)
        while coordinator.store_events(group):
            pass

    def retarget(self) -> None:
        """Each partition is to go to the member after its owner."""
        view = run(group_read.read_group(Purpose.REBALANCE), NAME)
        meta = replace(view.meta, group_epoch=view.meta.group_epoch + 1)
        rows = {
            receiver.member: TargetRow(
                target_epoch=meta.group_epoch, active=frozenset(giver.held)
            )
            for giver, receiver in self._pairs()
        }  # fmt: skip
        call = dashboard_side.set_target(replace(view, meta=meta), rows, raises=Reason.MANUAL)
        why = run(call, NAME)
        assert why is None, why

    def _pairs(self) -> list[tuple[Agent, Agent]]:
        return list(zip(self.agents, [*self.agents[1:], self.agents[0]], strict=True))

    def _steps(self) -> Iterator[int]:
        while True:
            self.retarget()
            given = [(*pair, sorted(pair[0].held)) for pair in self._pairs()]
            for first in range(0, max(len(parts) for *_, parts in given), AT_ONCE):
                for giver, receiver, parts in given:
                    yield self._give(giver, receiver, parts[first : first + AT_ONCE])

    def _give(self, giver: Agent, receiver: Agent, some: list[Partition]) -> int:
        giver.release(some)
        receiver.acquire(some)
        return len(some)

    def hand_over(self) -> int:
        """How many partitions went from one member to the next, AT_ONCE at most."""
        return next(self.steps)

    def hand_over_for(self, seconds: float, per_second: float) -> float:
        """Evenly spread. Returns how many partitions a second it was."""
        began_s, given = time.monotonic(), 0
        while (now_s := time.monotonic()) < began_s + seconds:
            if (early_s := began_s + given / per_second - now_s) > 0:
                time.sleep(min(early_s, began_s + seconds - now_s))
                continue
            given += self.hand_over()
        return given / (time.monotonic() - began_s)
