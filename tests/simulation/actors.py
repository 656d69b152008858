"""A member as the planner's rounds need it: what it holds and keeps, what it was told, what it
says. No time, no lease: what ends a session is in rounds.py.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from assignment.member.replicas import ready_learners
from assignment.scripts.group_read import Report
from assignment.types import Drain, Held, HeldState, Partition, ReplicaReport, Role, TargetRow

EMPTY_LAG = 40  # events that a new replica has to read


@dataclass(slots=True)
class Locks:
    """Who holds what, under a fence that grows. Of each partition there is one lock."""

    holder: dict[Partition, tuple[str, int]] = field(default_factory=dict)
    fences: dict[Partition, int] = field(default_factory=dict)  # the last one granted

    def take(self, partition: Partition, member: str, least: int) -> bool:
        if partition in self.holder:
            return False
        self.fences[partition] = max(self.fences.get(partition, 0), least) + 1
        self.holder[partition] = (member, self.fences[partition])
        return True

    def of(self, member: str) -> dict[Partition, int]:
        return {p: fence for p, (m, fence) in self.holder.items() if m == member}


@dataclass(slots=True)
class DiskState:
    """State of a partition on one member; `up`: it has caught up once, and follows since."""

    lag: int = EMPTY_LAG
    up: bool = False


@dataclass(slots=True, kw_only=True)
class Actor:
    member_id: str
    joined_at_ms: int
    zone: str = ""
    capacity: float = 1.0
    able: bool = True
    terminated: bool = False  # SIGTERM
    frozen: bool = False  # does and says nothing, and may go on
    told: TargetRow | None = None
    drain: Drain = Drain.NONE
    drain_since: int = 0  # group_epoch of when it was told to leave
    replicas: dict[Partition, DiskState] = field(default_factory=dict)
    called: frozenset[Partition] = frozenset()  # ready learners, as it said
    sequence: int = 0

    # --- what it does

    def obey(self, locks: Locks, stateful: bool, least_fence: int) -> None:
        """Gives up what it is not to have, takes what is free, keeps the replicas it is to keep."""
        wanted = self._wanted()
        for partition in locks.of(self.member_id).keys() - wanted:
            del locks.holder[partition]
        for partition in sorted(wanted - locks.of(self.member_id).keys()):
            locks.take(partition, self.member_id, least_fence)
        self._keep_replicas(locks, wanted, stateful)

    def _wanted(self) -> frozenset[Partition]:
        stops = self.terminated or self.drain is Drain.FORCED
        return frozenset() if stops or self.told is None or not self.able else self.told.active

    def _keep_replicas(self, locks: Locks, wanted: frozenset[Partition], stateful: bool) -> None:
        roles = self.roles(locks)
        kept = roles.keys() | wanted | locks.of(self.member_id).keys()
        self.replicas = (
            {p: self.replicas.get(p, DiskState()) for p in sorted(kept)} if stateful else {}
        )

    def learn(self, rng: random.Random, locks: Locks, *, all_of_it: bool = False) -> None:
        """Its replicas come forward by some events; whoever holds a partition is at its end."""
        held = locks.of(self.member_id)
        for partition, replica in self.replicas.items():
            done = partition in held or all_of_it
            replica.lag = 0 if done else max(0, replica.lag - rng.randint(0, EMPTY_LAG // 2))

    def roles(self, locks: Locks) -> dict[Partition, Role]:
        """Of its replicas. A learner that was made owner learns on until it has the lock."""
        if self.told is None or self.terminated:
            return {}
        held = locks.of(self.member_id)
        roles = dict.fromkeys(self.told.standby, Role.STANDBY)
        roles |= dict.fromkeys(self.told.learning, Role.LEARNER)
        roles |= {p: Role.LEARNER for p in self.told.active if p in self.called}
        return {p: role for p, role in roles.items() if p not in held}

    def departs(self, locks: Locks) -> bool:
        """As assignment.member.state.departs_because, and a SIGTERM."""
        if locks.of(self.member_id):
            return False
        if self.terminated or self.drain is Drain.FORCED:
            return True
        told_since = self.told is not None and self.told.target_epoch >= self.drain_since
        return self.drain is Drain.LEAVING and told_since and not self._wanted()

    # --- what it says

    def report(self, locks: Locks, acceptable_lag: int, *, eager: bool) -> Report:
        roles = self.roles(locks)
        for replica in self.replicas.values():
            replica.up = replica.up or replica.lag <= acceptable_lag
        caught_up = {
            p: self.replicas[p].up
            for p, role in roles.items()
            if role is Role.LEARNER and p in self.replicas
        }
        self.called = ready_learners(caught_up, self.called, eager=eager)
        self.sequence += 1
        return Report(
            number=self.sequence,
            sequence=self.sequence,
            at_ms=0,
            owned={
                p: Held(fence=fence, state=HeldState.RUNNING)
                for p, fence in locks.of(self.member_id).items()
            },
            target_epoch=self.told.target_epoch if self.told else 0,
            replicas=self._replica_reports(roles),
        )

    def _replica_reports(self, roles: Mapping[Partition, Role]) -> dict[Partition, ReplicaReport]:
        return {
            p: ReplicaReport(role=role, lag=self.replicas[p].lag, ready=p in self.called)
            for p, role in roles.items()
            if p in self.replicas
        }
