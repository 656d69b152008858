"""A light member: what an agent says and does, by the project's own rules and scripts, without a
consumer and without partition state.

It decides as an agent does (assignment/member). What a consumer would say is said at once: what is
acquired runs, what is revoked has no batch in hand. Its connection to the dashboard is its own; the
one to Redis, and the ear for hints, it shares with its group's other members of the process.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import hiredis
import msgspec

from assignment import wire
from assignment.errors import EvenkeelError, Fenced
from assignment.member import messages, pacing
from assignment.member.decisions import decide
from assignment.member.reporting import Reporter
from assignment.member.state import (
    ConsumerState,
    MemberState,
    claims_of,
    holds,
    lease_is_over,
    next_due_ms,
    unable_because,
)
from assignment.member.transitions import handle
from assignment.scripts import acquired, agent_side, group_read
from assignment.scripts.agent_side import NotTarget
from assignment.scripts.values import pairs_of, parts
from assignment.types import NO_EPOCH, Claim, Epoch, Held, HeldState, Partition
from assignment.wire import GroupKeys
from dashboard.evaluation.beside.speaking import NoAnswer, pack
from dashboard.evaluation.load.lines import Answered, RedisLine, WebLine, raise_bug
from dashboard.evaluation.load.told import Told

SECRET = "0123456789abcdef"
ACQUIRE_RETRY_MS = (100, 500)  # for a partition that another still holds, as an agent's
REDIS_RETRY_S = 0.25
ROUNDS_MAX = 8  # decisions in a row without a rest
READY = wire.ConsumerHealth(state="ready")


@dataclass(slots=True, kw_only=True, eq=False)
class LightMember:
    name: str
    web: WebLine
    store: RedisLine
    told: Told
    dice: Random
    state: MemberState
    loop: asyncio.AbstractEventLoop
    reporter: Reporter = field(default_factory=Reporter)
    settings_epoch: Epoch = NO_EPOCH
    sequence: int = 0
    said: tuple[object, ...] = ()
    beat_due_s: float = 0.0
    join_pause_ms: int = pacing.JOIN_RETRY_MS
    wants_target: bool = False
    members: int = 0  # of its group, when the target was read last
    acting: Any = None
    beat_timer: Any = None
    renew_timer: Any = None
    turn_timer: Any = None
    is_killed: bool = False
    is_held_back: bool = False  # asked to come later: what changes waits for the next beat
    decided: tuple[object, ...] = ()

    @property
    def phase(self) -> float:
        return pacing.phase_of(self.name)

    @property
    def now_ms(self) -> int:
        return int(self.loop.time() * 1_000)

    @property
    def is_settled(self) -> bool:
        """It holds what its target gives it, and all of that runs."""
        state = self.state
        if not state.joined or state.target is None or state.held.keys() != state.target.active:
            return False
        return all(one.state is HeldState.RUNNING for one in state.held.values())

    def kill(self) -> None:
        """Without a word, as by SIGKILL."""
        self.is_killed = True
        self._forget_timers()
        self.web.drop(NoAnswer("killed"))

    def _forget_timers(self) -> None:
        for timer in (self.beat_timer, self.renew_timer, self.turn_timer):
            if timer is not None:
                timer.cancel()

    def _feed(self, event: messages.Event) -> None:
        self.state, _ = handle(self.state, event, self.now_ms)

    # --- the dashboard

    def join(self) -> None:
        if self.is_killed:
            return
        if self.web.is_busy:  # a beat from before it was fenced
            self.loop.call_later(REDIS_RETRY_S, self.join)
            return
        body = wire.Join(
            member=self.name, secret=SECRET, host="load", incarnation=self.state.incarnation
        )
        self.web.post("join", msgspec.json.encode(body), self._joined)

    def _joined(self, answer: Answered | NoAnswer) -> None:
        if self.is_killed:
            return
        reply = self.told.reply(answer, "join")
        if reply is None or reply.status is not wire.Status.OK:
            self._join_later(answer)
            return
        self.reporter.start_anew()
        self.said, self.beat_due_s = (), self.loop.time()
        self._feed(messages.Joined())
        self._take(reply)
        self._feed(messages.ConsumerSeen(ConsumerState.READY, stateful=False))
        self.told.count["joined"] += 1
        self._renew()

    def _join_later(self, answer: Answered | NoAnswer) -> None:
        asked_s = answer.retry_after_s if isinstance(answer, Answered) else None
        pause_ms = self.join_pause_ms * self.dice.uniform(pacing.RETRY_EARLIEST, 1)
        asked_ms = (asked_s or 0.0) * 1e3 * self.dice.uniform(*pacing.RETRY_LATER)
        heartbeat_ms = self.state.settings.heartbeat_ms
        self.join_pause_ms = pacing.next_join_pause_ms(self.join_pause_ms, heartbeat_ms)
        self.loop.call_later(max(pause_ms, asked_ms) / 1e3, self.join)

    def beat(self) -> None:
        """When it is due, or soon when something changed; never two at a time."""
        if self.is_killed or self.web.is_busy or not self.state.joined:
            return
        state, now_s = self.state, self.loop.time()
        owned = {str(p): f"{h.fence} {h.state}" for p, h in state.held.items()}
        able = unable_because(state, self.now_ms) is None
        facts = (owned, able, state.target)
        if facts != self.said and not self.is_held_back:
            wait_s = pacing.news_ms(self.members, self.phase) / 1e3
            self._beat_at(min(self.beat_due_s, now_s + wait_s))
        if now_s < self.beat_due_s:
            return
        self.said, due_s = facts, min(self.beat_due_s, now_s)
        pause_ms = state.settings.heartbeat_ms
        self._beat_at(pacing.next_beat_ms(self.now_ms, pause_ms, self.phase) / 1e3)
        beat = self._heartbeat(owned, able=able)
        told = partial(self._beaten, beat.report, beat.complete, due_s)
        self.web.post("heartbeat", msgspec.json.encode(beat), told)

    def _beat_at(self, due_s: float) -> None:
        self.beat_due_s = due_s
        if self.beat_timer is not None:
            self.beat_timer.cancel()
        self.beat_timer = self.loop.call_at(due_s, self.beat)

    def _heartbeat(self, owned: dict[str, str], *, able: bool) -> wire.Heartbeat:
        self.sequence += 1
        state, report = self.state, self.reporter.next(owned)
        target = state.target.epoch if state.target else NO_EPOCH
        is_current = self.settings_epoch.incarnation == state.incarnation
        return wire.Heartbeat(
            member=self.name,
            secret=SECRET,
            sequence=self.sequence,
            report=report.number,
            complete=report.complete,
            owned=report.owned,
            able=able,
            incarnation=state.incarnation,
            mode_epoch=state.mode_epoch,
            settings_epoch=self.settings_epoch.number if is_current else 0,
            target_incarnation=target.incarnation,
            target_epoch=target.number,
            consumer=READY,
        )

    def _beaten(
        self, report: int, complete: bool, due_s: float, answer: Answered | NoAnswer
    ) -> None:
        if self.is_killed:
            return
        self.told.latencies.add(self.loop.time() - due_s)
        self._beat_at(max(self.beat_due_s, self.loop.time()))  # it may be due since, or be gone
        reply = self.told.reply(answer, "heartbeat")
        self.is_held_back = isinstance(answer, Answered) and bool(answer.retry_after_s)
        if reply is not None:
            self.told.count["beats"] += 1
            self.told.heard_since.add(self.name)
        if reply is None or not self.state.joined or reply.status is wire.Status.LATE:
            return
        if reply.status is wire.Status.FENCED:
            self._fenced("heartbeat")
            return
        self.join_pause_ms = pacing.JOIN_RETRY_MS
        self.reporter.answered(report, complete, reply.want_complete)
        if reply.want_complete:
            self.said = ()
        self._take(reply)
        self._turn()

    def _take(self, reply: wire.Reply) -> None:
        if reply.settings is not None:
            self.settings_epoch = Epoch(reply.incarnation, reply.settings_epoch)
            if reply.settings != self.state.settings:
                self._feed(messages.SettingsSeen(reply.settings))
        if reply.mode_epoch:
            self._see(Epoch(reply.incarnation, reply.mode_epoch))
        if reply.target is not None:
            self._feed(messages.TargetSeen(wire.read_target(reply.target)))

    def _see(self, mode: Epoch) -> None:
        if mode != (self.state.incarnation, self.state.mode_epoch):
            self._feed(messages.EpochsSeen(mode.incarnation, mode.number))

    def _fenced(self, why: str) -> None:
        self.told.fail("errors", f"{self.name} was fenced: {why}")
        self._feed(messages.Fenced())
        self._forget_timers()
        wait_ms = pacing.rejoin_ms(self.phase, self.state.settings.heartbeat_ms)
        self.loop.call_later(wait_ms / 1e3, self.join)

    # --- Redis

    def _renew(self) -> None:
        if self.is_killed or not self.state.joined:
            return
        if lease_is_over(self.state, self.now_ms):
            self._feed(messages.Tick())
        settings, claims = self.state.settings, claims_of(self.state)
        self.renew_timer = self.loop.call_later(settings.renew_ms / 1e3, self._renew)
        call = agent_side.renew(self.name, settings.lease_ms, claims)
        sent = partial(self._renewed, call, self.now_ms, claims)
        self.store.send(pack(*self.store.command_of(call)), sent)

    def _renewed(self, call: Any, sent_ms: int, claims: Sequence[Claim], raw: Any) -> None:
        if self.is_killed or not self.state.joined:
            return
        if isinstance(raw, Exception):
            self.told.fail("errors", f"renew: {raw!r}")
            return
        try:
            answer = call.read(raw)
        except Fenced as error:
            self._fenced(str(error))
            return
        lost = [claim for claim, held in zip(claims, answer.held, strict=True) if not held]
        if self.acting is None and any(holds(self.state, one) for one in lost):  # not released
            self.told.fail("errors", f"{self.name} lost {lost}")
        self._feed(messages.Renewed(sent_ms, frozenset(lost)))
        self._see(Epoch(answer.incarnation, answer.mode_epoch))
        known = self.state.target.epoch if self.state.target else NO_EPOCH
        self.wants_target |= answer.target != known
        self._turn()

    def hinted(self, *, wants_target: bool) -> None:
        if self.is_killed or not self.state.joined:
            return
        self.wants_target |= wants_target
        if self.state.waiting:
            self._feed(messages.TryAgain())
        self._turn()

    def _turn(self) -> None:
        """Decides when something changed since the last time, and says so."""
        if self.acting is not None:
            return
        state = self.state
        about = (state.held, state.target, state.waiting)
        is_same = all(one is other for one, other in zip(about, self.decided, strict=False))
        if self.wants_target or not self.decided or not is_same:
            self.acting = self.loop.create_task(self._act())
            self.acting.add_done_callback(raise_bug)
        elif (able := unable_because(state, self.now_ms) is None) != (self.said[1:2] == (able,)):
            self.beat()

    async def _act(self) -> None:
        pause_s = 0.0
        try:
            for _ in range(ROUNDS_MAX):
                if not await self._round():
                    break
            else:
                pause_s = REDIS_RETRY_S
        except Fenced as error:
            self._fenced(str(error))
        except (NoAnswer, hiredis.ReplyError, EvenkeelError) as error:
            self.told.fail("errors", f"redis: {error!r}")
            self.wants_target, pause_s = True, REDIS_RETRY_S
        finally:
            self.acting = None
        self._rest(pause_s)
        self.beat()

    async def _round(self) -> bool:
        if self.is_killed or not self.state.joined:
            return False
        if self.wants_target:
            await self._read_target()
        effects = decide(self.state, self.now_ms)
        for effect in effects:
            if isinstance(effect, messages.Acquire):
                for some in parts(effect.partitions):
                    await self._acquire(some)
        await self._set_states([e for e in effects if isinstance(e, messages.SetState)])
        for given in parts([e for e in effects if isinstance(e, messages.Release)]):
            await self._release(given)
        return bool(effects) or self.wants_target

    def _rest(self, pause_s: float) -> None:
        state = self.state
        self.decided = () if pause_s else (state.held, state.target, state.waiting)
        due_ms = next_due_ms(state) if state.joined else None
        if due_ms is not None:
            pause_s = max(pause_s, due_ms / 1e3 - self.loop.time(), 0.005)
        if self.turn_timer is not None:
            self.turn_timer.cancel()
        if pause_s and not self.is_killed:
            self.turn_timer = self.loop.call_later(pause_s, self._anew)

    def _anew(self) -> None:
        self.decided = ()
        self._turn()

    async def _read_target(self) -> None:
        keys, self.wants_target = GroupKeys(self.store.group), False
        raw, row, self.members = await self.store.ask(
            ("HGETALL", keys.meta), ("HGET", keys.target, self.name), ("HLEN", keys.members)
        )
        meta = group_read.read_meta(raw)
        self._see(meta.mode)
        if meta.settings is not None and meta.settings != self.state.settings:
            self._feed(messages.SettingsSeen(meta.settings))
        if row:
            self._feed(messages.TargetSeen(wire.parse_target(row.decode())))

    async def _acquire(self, partitions: Sequence[Partition]) -> None:
        state = self.state
        call = agent_side.acquire(
            self.name, state.settings.lease_ms, state.mode_epoch, state.incarnation, partitions
        )
        answers = await self.store.run(call)
        if isinstance(answers, agent_side.Refusal):
            to_all = answers is agent_side.Refusal.NO_INCARNATION
            self._refused([(p, str(answers), "") for p in partitions], to_all=to_all)
            self.wants_target = True
            return
        granted = acquired.granted(answers)
        self.told.count["grants"] += sum(p not in self.state.held for p, _ in granted)
        self._feed(messages.Granted(granted))
        self._refused(acquired.refused(answers))
        self.wants_target |= any(isinstance(answer, NotTarget) for answer in answers)

    def _refused(
        self, refused: Iterable[tuple[Partition, str, str]], *, to_all: bool = False
    ) -> None:
        retry_ms = self.now_ms + self.dice.randint(*ACQUIRE_RETRY_MS)
        self._feed(messages.Refused([
            messages.Refusal(partition, why, retry_ms, owner, to_all)
            for partition, why, owner in refused
        ]))  # fmt: skip

    async def _set_states(self, changes: Sequence[messages.SetState]) -> None:
        if not changes:
            return
        asked = [
            agent_side.StateChange(one.claim.partition, one.claim.fence, one.expected, one.state)
            for one in changes
        ]
        for some in parts(asked):
            await self.store.run(agent_side.set_state(self.name, some))
        if any(one.state is HeldState.REVOKING for one in changes):
            await self.store.run(agent_side.next_batch(self.name))  # there is none in hand
        await self._read_owned()

    async def _read_owned(self) -> None:
        key = GroupKeys(self.store.group).owned(self.name)
        (flat,) = await self.store.ask(("HGETALL", key))
        owned = {Partition.parse(p): wire.parse_held(v.decode()) for p, v in pairs_of(flat)}
        self._feed(messages.OwnedSeen(owned))

    async def _release(self, releases: Sequence[messages.Release]) -> None:
        held = {
            one.claim.partition: Held(fence=one.claim.fence, state=one.expected) for one in releases
        }
        done = await self.store.run(agent_side.release(self.name, held))
        given = [one.claim for one, was_done in zip(releases, done, strict=True) if was_done]
        self._feed(messages.Released(given))
        if not all(done):
            await self._read_owned()
