"""The agent's loop: read what happened -> decide -> act -> wait.

One thread decides and talks to Redis; dashboard, consumer and restoring have threads of their own
and only put events into the inbox. The clock is monotonic; renewing comes before everything else.
"""

import queue
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import assert_never

from agent.config import ExitCode
from agent.consumer import in_hand
from agent.consumer.consumer import Consumer
from agent.consumer.in_hand import BatchInHand
from agent.consumer.socket import Disconnected, Hello, Message
from agent.consumer.supervisor import ConsumerUnstartable, Exited
from agent.dashboard_session.requests import Answer
from agent.dashboard_session.session import DashboardSession
from agent.hints import Hinted
from agent.membership import ForTheLoop, Membership, Note
from agent.replicas.replica import ReplicaNews
from agent.store.door import StoreUnavailable
from assignment.member import messages
from assignment.member.state import ConsumerState, MemberState, next_due_ms
from assignment.troubles import Failing, Halted, read_trouble
from assignment.types import GroupSettings, Reason
from assignment.wire import ControlMessage

OF_LOCKS = {Reason.REVOKED, Reason.RELEASED, Reason.EXPIRED}  # these change no target
WAIT_MIN_MS = 5  # a loop that is always due would take a whole core
WAIT_MAX_MS = 5_000
INBOX_AT_ONCE = 1_000  # then renewing has its turn
REVOKE_POLL_MS = 50  # a consumer says revoked in Redis; the hint may be missed
START_POLL_MS = 250  # of a consumer that is not ready yet
REDIS_RETRY_MS = 250  # many tries within the fifth of a lease that is left
LEAVE_PATIENCE_MS = 2_000  # for the dashboard's answer: the locks are released already


@dataclass(frozen=True, slots=True)
class Signalled:
    """SIGTERM or SIGINT."""


Inbox = (
    Answer
    | Hello
    | Message
    | Disconnected
    | Exited
    | messages.RestoreEnded
    | ReplicaNews
    | Hinted
    | Signalled
    | BaseException
)


@dataclass(slots=True, kw_only=True)
class Agent:
    control: ControlMessage  # but for its settings and lease end
    membership: Membership
    session: DashboardSession
    consumer: Consumer
    inbox: "queue.SimpleQueue[Inbox]"
    clock: Callable[[], int]
    note: Note
    _settings_told: GroupSettings | None = None
    _lease_told: bool = False
    _lease_end_ms: int = 0
    _next_renew_ms: int = 0
    _next_look_ms: int = 0  # at the consumer's progress
    _next_revoked_look_ms: int = 0
    _target_wanted: bool = False
    _owned_wanted: bool = False
    _redis_retry_ms: int = 0
    _redis_trouble: str = ""
    _leaving_since_ms: int | None = None
    _signals: int = 0
    _hurried: bool = False
    _started_once: bool = False
    _crash: tuple[str, BatchInHand] | None = None  # not told to Redis yet

    # --- the loop

    def run(self) -> ExitCode:
        while (code := self.step()) is None:
            try:
                self._take(self.inbox.get(timeout=self.wait_ms() / 1_000))
            except queue.Empty:
                continue
        return code

    def step(self) -> ExitCode | None:
        """One turn; how to end, when it is over."""
        for _ in range(INBOX_AT_ONCE):
            try:
                self._take(self.inbox.get_nowait())
            except queue.Empty:
                break
        self._tend_consumer()
        self._turn_to_redis()
        self.membership.feed(messages.Tick())
        self.membership.tell_keeper()
        if self._lease_told and not self._state.joined:
            self.consumer.line.send_lease_end(0)
            self._lease_told = False
        self._speak()
        return self._finished()

    def wait_ms(self) -> int:
        """Until something is due although nothing happens."""
        now_ms, talk = self.clock(), self.session
        dues = [self.consumer.next_due_ms()]
        if self._state.joined:
            dues += [self._next_renew_ms, self._next_look_ms, next_due_ms(self._state)]
            dues.append(None if talk.courier.busy else talk.next_beat_ms)
        elif not talk.joining:
            dues.append(talk.next_join_ms)
        if self.membership.is_revoking or self._leaving_since_ms is not None:
            dues.append(now_ms + REVOKE_POLL_MS)
        soonest = min((ms for ms in dues if ms is not None), default=now_ms + WAIT_MAX_MS)
        if now_ms < self._redis_retry_ms:  # what waits for Redis waits until then
            soonest = min(max(soonest, now_ms + REVOKE_POLL_MS), self._redis_retry_ms)
        return max(WAIT_MIN_MS, min(soonest - now_ms, WAIT_MAX_MS))

    @property
    def _state(self) -> MemberState:
        return self.membership.state

    # --- what happened

    def _take(self, event: Inbox) -> None:
        match event:
            case Answer():
                self.session.hear(event)
            case Hello() | Message() | Disconnected() | Exited():
                self.consumer.take(event, self.clock())
                self._take_crash()
                self._next_look_ms = 0
            case messages.RestoreEnded():
                self.membership.restored(event)
            case ReplicaNews():
                self.membership.replica_news(event)
            case Hinted(reasons):
                self._hinted(reasons)
            case Signalled():
                self._signalled()
            case BaseException():
                raise event
            case _:
                assert_never(event)

    def _take_crash(self) -> None:
        """Read at once, before another consumer is started; told to Redis when it answers."""
        code = self.consumer.take_crash()
        if code is None:
            return
        folder = Path(self.control.state_dir)
        batch = in_hand.read(folder, self.consumer.connected_pid)
        in_hand.remove(folder)
        if batch is not None:
            self._crash = f"the consumer ended with code {code}", batch

    def _hinted(self, reasons: frozenset[str]) -> None:
        self._target_wanted |= bool(reasons - OF_LOCKS)
        self._owned_wanted |= Reason.REVOKED in reasons
        if self._state.waiting:
            self.membership.feed(messages.TryAgain())

    def _signalled(self) -> None:
        """The first signal waits for the batch in hand, the second for nothing."""
        self._signals += 1
        if self._signals == 1:
            self._depart("signal", signalled=True, stops=bool(self.session.identity.instance))
        else:
            self.note("leaving at once")
            self._hurried = True
            self.consumer.end_now()

    def _depart(self, why: str, *, signalled: bool, stops: bool = False) -> None:
        self.membership.feed(messages.LeaveAsked(signalled, stops))
        if self._leaving_since_ms is not None:
            return
        self.note("leaving", partitions=len(self._state.held), why=why)
        self._leaving_since_ms = self.clock()
        self.consumer.ask_to_end(self._state.settings.grace_ms, self.clock())

    # --- the consumer

    def _tend_consumer(self) -> None:
        try:
            self.consumer.tend(self.clock())
            self._started_once = True
        except ConsumerUnstartable as error:
            if not self._started_once:
                raise
            self.note("consumer cannot be started", why=str(error))
        state = ConsumerState.DEAD if self._hurried else self.consumer.state()
        if (state, self.consumer.stateful) != (self._state.consumer, self._state.stateful):
            self.membership.feed(messages.ConsumerSeen(state, self.consumer.stateful))

    def _look_at_consumer(self) -> None:
        """Its progress, and whether it stalls; one that just connected gets its control first."""
        now_ms, consumer, settings = self.clock(), self.consumer, self._state.settings
        if consumer.wants_control() and self.membership.forget_progress():
            consumer.send_control(self._control_now())
        ready = consumer.state() is ConsumerState.READY
        self._next_look_ms = now_ms + (settings.heartbeat_ms if ready else START_POLL_MS)
        consumer.says(self.membership.progress())
        if ready:
            self._judge_batches(now_ms)
        self._tend_consumer()

    def _judge_batches(self, now_ms: int) -> None:
        health, settings = self.consumer.health, self._state.settings
        failing = tuple(read_trouble(Failing, one) for one in health.failing)
        self.membership.feed_trouble(messages.BatchesEnded(failing))
        halted = {read_trouble(Halted, one).partition for one in health.halted}
        stall = self.consumer.watch.look(
            health, settings, now_ms, lambda: self.membership.lagging(halted)
        )
        for partition in sorted(stall.partitions):
            self.membership.feed_trouble(messages.StoodStill(partition))
        if stall.is_whole:
            self.consumer.has_stalled(f"no batch finished for {settings.consumer_stall_ms} ms")

    def _control_now(self) -> ControlMessage:
        self._settings_told = settings = self._state.settings
        return replace(self.control, settings=settings, lease_end_ms=self._lease_end_ms)

    # --- Redis

    def _turn_to_redis(self) -> None:
        if not self._state.joined or self.clock() < self._redis_retry_ms:
            return
        try:
            self._do_in_redis()
        except StoreUnavailable as error:
            if not self._redis_trouble:
                self.note("Redis away", why=str(error))
            self._redis_trouble = str(error)
            self._redis_retry_ms = self.clock() + REDIS_RETRY_MS
        else:
            if self._redis_trouble:
                self.note("Redis back")
            self._redis_trouble = ""

    def _do_in_redis(self) -> None:
        now_ms = self.clock()
        if now_ms >= self._next_renew_ms or self._state.renewed_ms is None:
            self._renew()
        if self._target_wanted and self._state.joined:
            self.membership.read_target()
            self._target_wanted = False
        if self._owned_wanted or (
            self.membership.is_revoking and now_ms >= self._next_revoked_look_ms
        ):
            self.membership.read_owned()
            self._owned_wanted = False
            self._next_revoked_look_ms = now_ms + REVOKE_POLL_MS
        if self._crash is not None:
            self.membership.note_crash(*self._crash)
            self._crash = None
        if now_ms >= self._next_look_ms:
            self._look_at_consumer()
        for effect in self.membership.reconcile():
            self._do(effect)

    def _renew(self) -> None:
        """Sent on time by the monotonic clock, whatever else is slow."""
        started_ms, renew_ms = self.clock(), self._state.settings.renew_ms
        lease_end_ms = self.membership.renew()
        # A longer pause holds from the next renew on: these locks have the length from before.
        self._next_renew_ms = started_ms + min(renew_ms, self._state.settings.renew_ms)
        self._lease_end_ms = lease_end_ms or 0
        if lease_end_ms is None:
            return
        self.consumer.line.send_lease_end(lease_end_ms)
        self._lease_told = True
        self.membership.say_when_idle()
        if self._settings_told not in (None, self._state.settings):
            self._settings_told = self._state.settings
            self.consumer.line.send_settings(self._state.settings)

    def _do(self, effect: ForTheLoop) -> None:
        match effect:
            case messages.Join():
                pass  # spoken below: it needs no Redis
            case messages.RestartConsumer(reason=reason):
                if self.consumer.restart(reason, self.clock()):
                    self.note("consumer restarted", why=reason)
            case messages.Depart(reason=reason):
                self._depart(reason, signalled=False)
            case messages.Leave(reason=reason):
                self._leave(reason)
            case _:
                assert_never(effect)

    def _leave(self, why: str) -> None:
        talk = self.session
        if talk.leave_sent_ms is None:
            self.note("leaves", why=why)
        talk.leave()
        if talk.leave_is_unheard:
            self.membership.leave(talk.identity.secret)
            talk.left = True

    # --- the dashboard

    def _speak(self) -> None:
        if self._state.joined:
            self.session.beat_when_due(self.consumer.report())
        elif not self._state.leaving:
            self.session.join_when_due()

    def _finished(self) -> ExitCode | None:
        if self.session.refusal:
            self.note("refused", why=self.session.refusal)
            self.consumer.end_now()
            return ExitCode.REFUSED
        if self._leaving_since_ms is None:
            return None
        now_ms = self.clock()
        patience_over = now_ms >= self._given_up_ms(self._leaving_since_ms)
        gone = self.session.left or not (self._state.joined or self.session.joining)
        if gone and self.consumer.ended and not self._state.held:
            return ExitCode.HURRIED if self._hurried else ExitCode.LEFT
        if patience_over:
            self.note("left without an answer", partitions=len(self._state.held))
            self.consumer.end_now()
            return ExitCode.HURRIED if self._state.held or self._hurried else ExitCode.LEFT
        return None

    def _given_up_ms(self, leaving_since_ms: int) -> int:
        """When to go whatever has not answered: what is still locked ends with its lease."""
        if self.session.leave_sent_ms is not None and self.consumer.ended:
            return self.session.leave_sent_ms + LEAVE_PATIENCE_MS
        return leaving_since_ms + self._state.settings.grace_ms + LEAVE_PATIENCE_MS
