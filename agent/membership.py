"""One member in Redis: its state, and the carrying out of what the core decides about it.

Used by the loop's thread only. Every method may raise StoreUnavailable: what was not done is
decided again from the state that is then. Knows no HTTP and no process.
"""

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import assert_never

from agent.consumer.in_hand import BatchInHand
from agent.replicas.manager import ReplicaManager
from agent.replicas.replica import ReplicaNews
from agent.store.events import EventStore
from agent.store.group import GroupStore, MemberTarget
from assignment.errors import Fenced
from assignment.member import messages
from assignment.member.decisions import decide
from assignment.member.replicas import Wanted, wanted_replicas
from assignment.member.state import (
    MemberState,
    claims_of,
    is_foreign,
    processing_end_ms,
    unable_because,
)
from assignment.member.transitions import handle, restore_ordered
from assignment.member.troubles import UNSERVED_FOR_MS, unserved_of
from assignment.scripts import acquired, agent_side, crashes, dashboard_side
from assignment.scripts.values import parts
from assignment.types import (
    NO_EPOCH,
    Claim,
    Drain,
    Epoch,
    GroupSettings,
    Held,
    HeldState,
    Offset,
    Partition,
    TargetRow,
    speaker_of,
)
from assignment.wire import ConsumerHealth

ACQUIRE_RETRY_MS = (100, 500)  # between two tries for a partition that another still holds
ROUNDS_MAX = 8  # restoring -> running, or a refused change read again, take two rounds

Note = Callable[..., None]
ForTheLoop = messages.Join | messages.RestartConsumer | messages.Depart | messages.Leave


@dataclass(kw_only=True)
class Membership:
    """`settings`: until others are heard."""

    store: GroupStore
    member_id: str
    settings: InitVar[GroupSettings]
    replicas: ReplicaManager
    clock: Callable[[], int]
    note: Note
    process: str = ""  # of an instance
    unserved_for_ms: InitVar[int] = UNSERVED_FOR_MS
    state: MemberState = field(init=False)
    settings_epoch: Epoch = NO_EPOCH
    _wanted: Wanted = field(default_factory=Wanted)
    _kept_for: MemberState | None = None  # what the keeper was told last for
    _owned_doubtful: bool = False
    _idle: tuple[int, int] | None = None
    _idle_said: tuple[int, int] | None = None
    members: int = 0  # of the group, when its target was read last

    def __post_init__(self, settings: GroupSettings, unserved_for_ms: int) -> None:
        self.state = MemberState(settings=settings, unserved_for_ms=unserved_for_ms)

    # --- what happened

    def feed(self, event: messages.Event) -> None:
        incarnation = self.state.incarnation
        self.state, drops = handle(self.state, event, self.clock())
        # A Redis that lost its last writes may know another state of what is held here.
        self._owned_doubtful |= self.state.incarnation != incarnation
        for drop in drops:
            self.note("lost", why=drop.reason, **_fields(drop.claim))

    def restored(self, ended: messages.RestoreEnded) -> None:
        if ended.failure:
            self.note("restore failed", why=ended.failure, **_fields(ended.claim))
        self.feed_trouble(ended)

    def feed_trouble(self, event: messages.Event) -> None:
        """Notes which partitions it makes this member give up."""
        before = unserved_of(self.state.troubles, self.clock())
        self.feed(event)
        for partition, one in unserved_of(self.state.troubles, self.clock()).items():
            if partition not in before:
                why = f"{one.reason}: {one.why}"
                self.note("cannot be served here", partition=str(partition), why=why)

    def replica_news(self, news: ReplicaNews) -> None:
        event = "replica failed" if news.why else "replica caught up"
        self.note(event, partition=str(news.partition), role=news.role, why=news.why or None)

    def tell_keeper(self) -> None:
        """After every turn: which replicas are wanted follows from the state as it is."""
        if self.state is self._kept_for:
            return
        self._kept_for = self.state
        wanted = wanted_replicas(self.state)
        if wanted == self._wanted:
            return
        for partition, role in wanted.replicas.items():
            if self._wanted.replicas.get(partition) is not role:
                self.note("replica wanted", partition=str(partition), role=str(role))
        self._wanted = wanted
        self.replicas.want(wanted)

    def drain_seen(self, drain: Drain, heard: Epoch) -> None:
        before = self.state.drain
        self.feed(messages.DrainSeen(drain, heard))
        if self.state.drain is not before:
            self.note("told to stay" if drain is Drain.NONE else "told to leave", drain=str(drain))

    def settings_seen(self, settings: GroupSettings, settings_epoch: Epoch) -> bool:
        """Whether they are new."""
        if settings_epoch < self.settings_epoch or settings == self.state.settings:
            self.settings_epoch = max(settings_epoch, self.settings_epoch)
            return False
        self.settings_epoch = settings_epoch
        self.feed(messages.SettingsSeen(settings))
        return True

    def target_seen(self, row: TargetRow) -> None:
        before = self.state.target
        self.feed(messages.TargetSeen(row))
        if self.state.target is not before:
            incarnation, epoch = row.epoch
            self.note("target", epoch=epoch, active=len(row.active), incarnation=incarnation)

    # --- Redis

    def renew(self) -> int | None:
        """When processing must have stopped, or None when this member was fenced."""
        claims = claims_of(self.state)
        sent_ms, settings = self.clock(), self.state.settings
        try:
            answer = self.store.run(agent_side.renew(self.speaker, settings.lease_ms, claims))
        except Fenced as error:
            if not self._reads_foreign_redis():
                self.fenced(str(error))
            return None
        lost = (claim for claim, held in zip(claims, answer.held, strict=True) if not held)
        self.feed(messages.Renewed(sent_ms, frozenset(lost)))
        self.feed(messages.EpochsSeen(answer.incarnation, answer.mode_epoch))
        if answer.target != self.target:
            self.read_target()
        return processing_end_ms(settings, sent_ms)  # new ones hold from the next renew on

    def read_target(self) -> None:
        """Straight from Redis, so that a member cut off from the dashboard follows it too."""
        seen: MemberTarget = self.store.target(self.member_id)
        self.members = seen.members
        self.feed(messages.IdentityRead(seen.meta.identity))
        if is_foreign(self.state, self.clock()):
            return  # another group's settings, epochs and targets
        self.feed(messages.EpochsSeen(seen.meta.incarnation, seen.meta.mode_epoch))
        if seen.meta.settings is not None:
            epoch = Epoch(seen.meta.incarnation, seen.meta.settings_epoch)
            self.settings_seen(seen.meta.settings, epoch)
        if seen.row is not None:
            self.target_seen(seen.row)
        if seen.drain is not None:
            self.drain_seen(seen.drain, Epoch(seen.meta.incarnation, seen.meta.group_epoch))

    def _reads_foreign_redis(self) -> bool:
        """Asked when that Redis knows no such member. Joining anew would not help, and would keep
        the group waiting: it stays a member that is unable, and tries again.
        """
        self.feed(messages.IdentityRead(self.store.target(self.member_id).meta.identity))
        return is_foreign(self.state, self.clock())

    def read_owned(self) -> None:
        owned = self.store.owned(self.member_id)
        self._owned_doubtful = False
        self.feed(messages.OwnedSeen(owned))

    def fenced(self, why: str) -> None:
        if self.state.joined:
            self.note("fenced", why=why, epoch=self.target.number)
        self.feed(messages.Fenced())

    def leave(self, secret: str) -> None:
        """When no dashboard hears of it: else its session would have to end, and it be lost."""
        stops = self.state.stops
        if self.store.run(dashboard_side.leave(self.member_id, secret, stops=stops)):
            self.note("left in Redis, no dashboard answered")

    def lagging(self, halted: Collection[Partition]) -> dict[Partition, Offset]:
        """Partitions that run here and have an entry above their committed offset, which it gives.
        What is halted or paused is waiting for a person, and is not behind.
        """
        running = [
            partition
            for partition, holding in self.state.held.items()
            if holding.state is HeldState.RUNNING and partition not in halted
        ]
        events = EventStore(self.store.door)
        return {
            partition: committed
            for partition, committed in self.store.committed_of_unpaused(running).items()
            if events.last_offset(partition) > committed
        }

    def note_crash(self, why: str, batch: BatchInHand) -> None:
        """With the batch that the consumer had in hand (agent/consumer/in_hand.py)."""
        counted = self.store.run(crashes.crash(why, batch.alone, batch.parts, batch.letters))
        self.note("crash with a batch in hand", why=why, partitions=counted, alone=batch.alone)

    def progress(self) -> ConsumerHealth | None:
        return self.store.progress(self.member_id)

    def forget_progress(self) -> bool:
        """What the consumer before said must not be taken for this one's. False: no member."""
        return self.store.write_progress(self.speaker, ConsumerHealth())

    def say_when_idle(self) -> None:
        """Asked after each renew; said when two in a row found the same."""
        target, able = self.state.target, not unable_because(self.state, self.clock())
        before, self._idle = self._idle, None
        if target is None or target.active or not able:
            self._idle_said = None
            return
        partitions = self.state.settings.partitions
        members = int(self.store.door.ask("HLEN", self.store.keys.members))
        self._idle = partitions, members
        if members > partitions and self._idle == before and self._idle != self._idle_said:
            self._idle_said = self._idle
            self.note(f"idle: {partitions} partitions, {members} members")

    # --- decisions

    def reconcile(self) -> list[ForTheLoop]:
        """Does what is to be done in Redis; what is left concerns the dashboard or the consumer."""
        if self._owned_doubtful:
            self.read_owned()
        rest: list[ForTheLoop] = []
        for _ in range(ROUNDS_MAX):
            before = self.state
            rest = self._act(decide(self.state, self.clock()))
            if self.state is before or self.state == before:
                break
        return rest

    def _act(self, effects: Sequence[messages.Effect]) -> list[ForTheLoop]:
        rest: list[ForTheLoop] = []
        changes: list[messages.SetState] = []
        releases: list[messages.Release] = []
        for effect in effects:
            match effect:
                case messages.SetState():
                    changes.append(effect)
                case messages.Release():
                    releases.append(effect)
                case messages.Acquire(partitions=partitions, reason=reason):
                    self._acquire(partitions, reason)
                case messages.Restore(claim=claim):
                    self.state = restore_ordered(self.state, claim)
                    self.replicas.order(claim)
                case (
                    messages.Join()
                    | messages.RestartConsumer()
                    | messages.Depart()
                    | messages.Leave()
                ):
                    rest.append(effect)
                case _:
                    assert_never(effect)
        self._set_states(changes)
        for some in parts(releases):
            self._release(some)
        return rest

    def _set_states(self, changes: Sequence[messages.SetState]) -> None:
        if not changes:
            return
        asked = [
            agent_side.StateChange(
                change.claim.partition, change.claim.fence, change.expected, change.state
            )
            for change in changes
        ]
        done = list[bool]()
        for some in parts(asked):
            answer = self.store.run(agent_side.set_state(self.member_id, some))
            done += answer
        for change, was_done in zip(changes, done, strict=True):
            if was_done:
                self.note(str(change.state), why=change.reason, **_fields(change.claim))
        self.read_owned()

    def _release(self, releases: Sequence[messages.Release]) -> None:
        held = {
            release.claim.partition: Held(fence=release.claim.fence, state=release.expected)
            for release in releases
        }
        done = self.store.run(agent_side.release(self.member_id, held))
        released = [release for release, was_done in zip(releases, done, strict=True) if was_done]
        self.feed(messages.Released([release.claim for release in released]))
        for release in released:
            self.note("released", why=release.reason, **_fields(release.claim))
        if not all(done):
            self.read_owned()

    def _acquire(self, partitions: Sequence[Partition], reason: str) -> None:
        state = self.state
        try:
            answers = self.store.acquire(
                self.speaker,
                state.settings.lease_ms,
                state.mode_epoch,
                state.incarnation,
                partitions,
            )
        except Fenced as error:
            self.fenced(str(error))
            return
        if isinstance(answers, agent_side.Refusal):
            to_all = answers is agent_side.Refusal.NO_INCARNATION
            self._refused([(p, str(answers), "") for p in partitions], to_all=to_all)
            self.read_target()
            return
        self._acquired(answers, reason)
        answered = {answer.partition for answer in answers}
        self._refused([(p, "not answered", "") for p in partitions if p not in answered])

    def _acquired(self, answers: Sequence[agent_side.PartitionAnswer], reason: str) -> None:
        granted = acquired.granted(answers)
        self.feed(messages.Granted(granted))
        for claim in granted:
            self.note("acquired", why=reason, **_fields(claim))
        self._refused(acquired.refused(answers))
        if any(isinstance(answer, agent_side.NotTarget) for answer in answers):
            self.read_target()

    def _refused(
        self, refused: Iterable[tuple[Partition, str, str]], *, to_all: bool = False
    ) -> None:
        """Each with why, and with its owner or "". All are asked for again in one call."""
        refusals, retry_ms = [], self.clock() + random.randint(*ACQUIRE_RETRY_MS)
        for partition, why, owner in refused:
            wait = self.state.waiting.get(partition)
            if wait and wait.why != why:
                self.note("waiting", why=why, partition=str(partition), epoch=self.target.number)
            refusals.append(messages.Refusal(partition, why, retry_ms, owner, to_all))
        self.feed(messages.Refused(refusals))

    @property
    def speaker(self) -> str:
        return speaker_of(self.member_id, self.process)

    @property
    def target(self) -> Epoch:
        """Of the target that this member has."""
        return self.state.target.epoch if self.state.target else NO_EPOCH

    @property
    def is_revoking(self) -> bool:
        return any(h.state is HeldState.REVOKING for h in self.state.held.values())


def _fields(claim: Claim) -> dict[str, str | int]:
    return {"partition": str(claim.partition), "fence": claim.fence}
