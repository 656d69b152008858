"""What an agent tells the dashboard, when, and what it makes of the answers.

Used by the loop's thread only. Joins, beats and leaves through the courier; hands what it hears to
the membership. Never waits.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent.dashboard_session.requests import Answer, Courier, DashboardAway, Refusal
from agent.membership import Membership, Note
from assignment import wire
from assignment.errors import InvalidInput
from assignment.member import messages, pacing
from assignment.member.reporting import Reporter
from assignment.member.state import Unable, unable_because
from assignment.member.troubles import unserved_of
from assignment.types import Drain, Epoch, Role

LEAVE_HEARD_WITHIN_MS = 1_000  # then the member leaves by itself, well before it gives up
PROGRESS_MS = 1_000  # people watch a learner: told so often until it is ready


@dataclass(slots=True)
class DashboardSession:
    """`identity` carries the member id and the secret, kept for the life of the process."""

    identity: wire.Join
    membership: Membership
    courier: Courier
    clock: Callable[[], int]
    note: Note
    reporter: Reporter = field(default_factory=Reporter)
    sequence: int = 0
    next_join_ms: int = 0
    seen: str = ""  # of another process under this instance name
    next_beat_ms: int = 0
    join_pause_ms: int = pacing.JOIN_RETRY_MS
    joining: bool = False
    phase: float = field(init=False)  # 0 to 1: when it beats, and joins anew, beside others
    refusal: str = ""  # why the dashboard will not have this member
    left: bool = False
    leave_sent_ms: int | None = None
    _leave_failed: bool = False
    _joins_anew: bool = False
    _held_back: bool = False  # the dashboard asked to come later: what changes waits for the beat
    _said: tuple[object, ...] = ()  # what the last heartbeat told, without its numbers
    _trouble: str = ""  # what keeps the dashboard away, noted once
    _unable_because: Unable | None = None

    def __post_init__(self) -> None:
        self.phase = pacing.phase_of(self.identity.member)

    # --- speaking

    def join_when_due(self) -> None:
        now_ms = self.clock()
        if self._joins_anew:
            self._joins_anew = False
            heartbeat_ms = self.membership.state.settings.heartbeat_ms
            wait_ms = pacing.rejoin_ms(self.phase, heartbeat_ms)
            self.next_join_ms = max(self.next_join_ms, now_ms + wait_ms)
        if not self.joining and now_ms >= self.next_join_ms:
            self.joining = True
            seen = self.membership.state.incarnation
            self.courier.send(replace(self.identity, incarnation=seen, seen=self.seen))

    def leave(self) -> None:
        if self.leave_sent_ms is None:
            self.leave_sent_ms = self.clock()
            member, secret = self.identity.member, self.identity.secret
            stops = self.membership.state.stops
            self.courier.send(wire.Leave(member=member, secret=secret, stops=stops))

    @property
    def leave_is_unheard(self) -> bool:
        """It was sent, and no dashboard has answered or will."""
        if self.left or self.leave_sent_ms is None:
            return False
        return self._leave_failed or self.clock() - self.leave_sent_ms >= LEAVE_HEARD_WITHIN_MS

    def beat_when_due(self, health: wire.ConsumerHealth) -> None:
        """Soon when something changed (pacing.news_ms), else every heartbeat_ms; never two at once.
        A process that stops says no more: its member shall count as it was.
        """
        if self.courier.busy or self.leave_sent_ms is not None:
            return
        state, now_ms = self.membership.state, self.clock()
        if state.stops:
            self.next_beat_ms = pacing.next_beat_ms(now_ms, state.settings.heartbeat_ms, self.phase)
            return
        able = self._able(now_ms)
        owned = {str(p): f"{h.fence} {h.state}" for p, h in state.held.items()}
        replicas = self.membership.replicas.reports()
        roles = [(partition, c.role, c.ready, c.why) for partition, c in replicas.items()]
        leaving = state.signalled
        unserved = unserved_of(state.troubles, now_ms)
        reasons = {partition: one.reason for partition, one in unserved.items()}
        facts = (owned, able, leaving, health.state, health.why, state.target, roles, reasons)
        if facts != self._said and not self._held_back:
            wait_ms = 0 if leaving else pacing.news_ms(self.membership.members, self.phase)
            self.next_beat_ms = min(self.next_beat_ms, now_ms + wait_ms)
        if now_ms < self.next_beat_ms:
            return
        self._said = facts
        learns = any(c.role is Role.LEARNER and not c.ready for c in replicas.values())
        pause_ms = state.settings.heartbeat_ms
        pause_ms = min(pause_ms, PROGRESS_MS) if learns else pause_ms
        self.next_beat_ms = pacing.next_beat_ms(now_ms, pause_ms, self.phase)
        self.sequence += 1
        report = self.reporter.next(owned)
        settings_epoch = self.membership.settings_epoch
        is_current = settings_epoch.incarnation == state.incarnation
        beat = wire.Heartbeat(
            member=self.identity.member,
            secret=self.identity.secret,
            sequence=self.sequence,
            report=report.number,
            complete=report.complete,
            owned=report.owned,
            able=able,
            unable=self._unable_because.reason if self._unable_because else "",
            leaving=leaving,
            incarnation=state.incarnation,
            mode_epoch=state.mode_epoch,
            settings_epoch=settings_epoch.number if is_current else 0,
            target_incarnation=self.membership.target.incarnation,
            target_epoch=self.membership.target.number,
            consumer=health,
            replicas={str(p): replica for p, replica in replicas.items()},
            ready=tuple(
                wire.sorted_texts(
                    p for p, c in replicas.items() if c.role is Role.LEARNER and c.ready
                )
            ),
            unserved={str(p): one for p, one in unserved.items()},
        )
        self.courier.send(beat)

    def _able(self, now_ms: int) -> bool:
        because = unable_because(self.membership.state, now_ms)
        if because != self._unable_because:
            self.note("unable" if because else "able", why=because.why if because else "")
            self._unable_because = because
        return because is None

    # --- hearing

    def hear(self, answer: Answer) -> None:
        self._note_trouble(answer)
        match answer.request:
            case wire.Join():
                self.joining = False
                self._joined(answer)
            case wire.Heartbeat() as beat:
                self._held_back = _retry_after_ms(answer) > 0
                if self.membership.state.joined and answer.reply is not None:
                    self._beat_answered(beat, answer.reply)
            case wire.Leave():
                self._leave_failed = answer.reply is None
                self.left |= not self._leave_failed

    def _note_trouble(self, answer: Answer) -> None:
        trouble = str(answer.error or "")
        refused = isinstance(answer.error, Refusal)
        if trouble and (not self._trouble or (refused and trouble != self._trouble)):
            self.note("dashboard refuses" if refused else "dashboard away", why=trouble)
        elif self._trouble and not trouble:
            self.note("dashboard back")
        self._trouble = trouble

    def _joined(self, answer: Answer) -> None:
        if isinstance(answer.error, Refusal):
            self.refusal = str(answer.error)
            return
        pause_ms = self.join_pause_ms * random.uniform(pacing.RETRY_EARLIEST, 1)
        asked_ms = _retry_after_ms(answer) * random.uniform(*pacing.RETRY_LATER)
        self.next_join_ms = self.clock() + int(max(pause_ms, asked_ms))
        heartbeat_ms = self.membership.state.settings.heartbeat_ms
        self.join_pause_ms = pacing.next_join_pause_ms(self.join_pause_ms, heartbeat_ms)
        if answer.reply is None:  # who was cut off as long could give no sign of life: wait anew
            self.seen = ""
        elif answer.reply.status is wire.Status.WAIT:
            self._another_process(answer.reply)
        elif self._take(answer.reply, joined=True):
            self.seen = ""
            self.reporter.start_anew()
            self._said, self._joins_anew = (), True
            self.note("joined", epoch=answer.reply.group_epoch)

    def _another_process(self, reply: wire.Reply) -> None:
        """One that lives gives a sign of life meanwhile; then the next join is refused."""
        if reply.seen != self.seen:
            self.note("another process may live", host=reply.host, wait_ms=reply.wait_ms)
        self.seen, self.next_join_ms = reply.seen, self.clock() + reply.wait_ms

    def _beat_answered(self, beat: wire.Heartbeat, reply: wire.Reply) -> None:
        match reply.status:
            case wire.Status.OK:
                self.join_pause_ms, self.next_join_ms = pacing.JOIN_RETRY_MS, 0
                self.reporter.answered(beat.report, beat.complete, reply.want_complete)
                if reply.want_complete:
                    self._said = ()
                self._take(reply, joined=False)
            case wire.Status.FENCED:
                self.membership.fenced("heartbeat: the dashboard knows no such member")
            case wire.Status.LATE:
                pass  # a newer heartbeat was answered before

    def _take(self, reply: wire.Reply, *, joined: bool) -> bool:
        """False when the reply cannot be read: then nothing of it was taken."""
        try:
            row = None if reply.target is None else wire.read_target(reply.target)
            drain = Drain(reply.drain)
        except (InvalidInput, KeyError, TypeError, ValueError) as error:
            self.note("reply not understood", why=repr(error))
            return False
        self.membership.feed(messages.IdentityHeard(reply.identity))
        if joined:
            self.membership.feed(messages.Joined())
        if reply.settings is not None:
            settings_epoch = Epoch(reply.incarnation, reply.settings_epoch)
            self.membership.settings_seen(reply.settings, settings_epoch)
        if reply.mode_epoch:
            self.membership.feed(messages.EpochsSeen(reply.incarnation, reply.mode_epoch))
        if row is not None:
            self.membership.target_seen(row)
        if not joined:  # the answer to a join says nothing of it
            self.membership.drain_seen(drain, Epoch(reply.incarnation, reply.group_epoch))
        return True


def _retry_after_ms(answer: Answer) -> int:
    error = answer.error
    return error.retry_after_ms if isinstance(error, DashboardAway) else 0
