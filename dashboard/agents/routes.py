"""Agents' routes, a plain ASGI app: join, heartbeat, leave (coordination.md section 3).

A heartbeat touches Redis only. Nothing is published to Celery in here: what changed the group rings
the doorbell, which asks for a rebalance outside of any request. Errors are problem+json (RFC 9457)
and name what is wrong.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar, assert_never

from django.db import DatabaseError

from assignment import sizes, wire
from assignment.errors import Damaged
from assignment.scripts import dashboard_side, heartbeat
from assignment.scripts.dashboard_side import JoinResult
from assignment.scripts.rows import UNREADABLE
from assignment.scripts.values import Call
from assignment.types import NAME_PATTERN, valid_name
from dashboard.agents import messages, tokens
from dashboard.agents.answers import GROUP, NOT_IN_TIME, refusal, replied
from dashboard.agents.doorbell import Doorbell
from dashboard.agents.known_tokens import KnownTokens, TooMany, in_thread
from dashboard.agents.rate import Rate
from dashboard.agents.repeated import LastBeat, Repeated, seen_by
from dashboard.agents.requests import (
    Problem,
    Receive,
    Scope,
    Send,
    address_of,
    body_of,
    demand_encrypted,
    demand_known_host,
    demand_size,
    header_of,
    keep,
    send_answer,
)
from dashboard.agents.turns import ALL, Turns
from dashboard.live import deadline
from dashboard.live.batch import GATHER_S, Counted, Overloaded, Wanted
from dashboard.live.batches import Batches
from dashboard.live.connection import StoreUnavailable
from dashboard.live.scripts import script
from dashboard.web.counts import NO_GROUP
from dashboard.web.heads import Answer, Told
from dashboard.web.kept import Body, kept
from dashboard.web.visitors import REMEMBER, said_who

T = TypeVar("T")

PATH = re.compile(rf"{wire.API_PREFIX}/({NAME_PATTERN.pattern})/(join|heartbeat|leave)")
SECRET_MIN = 16
ASKED = "evenkeel.asked"  # there too: what its head says
LAST_BEAT = "evenkeel.last_beat"  # and the last heartbeat under it


ROW = tuple(wire.Introduction.__dataclass_fields__)


class Asked(NamedTuple):
    """What a head says, whatever the database says of it."""

    group: str
    verb: str
    digest: str  # of the token
    address: str


class AgentApi:
    """One per process. `doorbell` is rung with the group's name when a rebalance may be due.
    `note_answer`: called after each answer. `is_alone`: see Batch.
    """

    def __init__(
        self,
        note_answer: Callable[[], None] = lambda: None,
        is_alone: Callable[[], bool] = lambda: False,
    ) -> None:
        self.batch = Batches(is_alone)
        self.doorbell = Doorbell()
        self.tokens = KnownTokens()
        self.rate = Rate()
        self.turns = Turns(time.monotonic)
        self.reader = messages.Reader()
        self._later: set[asyncio.Task[None]] = set()
        self._note_answer = note_answer
        self._answers: dict[str, Callable[..., Awaitable[wire.Reply]]]
        self._answers = {"join": self._join, "heartbeat": self._heartbeat, "leave": self._leave}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._answer(scope, receive)
        if isinstance(answer, Exception):
            raise answer
        await send_answer(scope, send, answer)
        self._note_answer()
        if answer.status == 200 and scope[ASKED].verb == "heartbeat":
            state = scope.get("state") or {}
            if REMEMBER in state:
                known = scope | {"headers": ()}  # what they say was read, but for the length
                state[REMEMBER](state, partial(self._answer_repeated, known))

    def _answer_repeated(self, scope: Scope, body: bytes, tell: Told) -> None:
        """Another body under a head that was read, which is small. In a task of its own only if it
        has to wait for more than a script: such a task is a fifth of what a heartbeat costs.
        """
        asked, batch = scope[ASKED], self.batch.only
        token = self.tokens.at_once(asked.digest, asked.address)
        if batch is None or token is None or not _speaks_for(token, asked):
            task = asyncio.create_task(self._answer_later(scope, body, tell))
            self._later.add(task)
            task.add_done_callback(self._later.discard)
            return
        scope[GROUP] = token.group
        one = Repeated(scope, _space(token), partial(self._tell, tell))
        try:
            counted = self._admitted(scope, token)
            most = messages.most_bytes(asked.verb, token.partitions)
            keep(one.space, len(body), most, is_last=True)
            batch.put(partial(self._read_repeated, one, token, body, counted), counted, one)
        except Exception as error:
            one.set_exception(error)

    def _read_repeated(
        self, one: Repeated, token: tokens.Known, body: bytes, counted: Counted
    ) -> Wanted:
        last: LastBeat | None = one.scope.get(LAST_BEAT)
        wanted = None if last is None else last.repeated(token, body)
        if last is None or wanted is None:
            beat, call = read_beat(token, body)
            seen, wanted = seen_by(beat), Wanted.of(script(call.script), token.group, call.args)
            one.scope[LAST_BEAT] = LastBeat.of(token, body, beat, call)
        else:
            seen, call = last.seen, last.call
        one.reply = partial(self._beat_reply, token, seen, call, counted)
        return wanted

    async def _answer_later(self, scope: Scope, body: bytes, tell: Told) -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        self._tell(tell, await self._answer(scope, receive))

    def _tell(self, tell: Told, answer: Answer | Exception) -> None:
        tell(answer)
        self._note_answer()

    async def _answer(self, scope: Scope, receive: Receive) -> Answer | Exception:
        try:
            return replied(scope, await self._reply(scope, receive))
        except Exception as error:
            return refusal(scope, error)

    async def _reply(self, scope: Scope, receive: Receive) -> wire.Reply:
        scope[GROUP] = NO_GROUP
        asked: Asked | None = scope.get(ASKED)
        if asked is None:
            asked = scope[ASKED] = _asked(scope)
        token = await self._token(asked)
        scope[GROUP] = asked.group
        counted = self._admitted(scope, token)
        most = messages.most_bytes(asked.verb, token.partitions)
        demand_size(scope, most)
        with _space(token) as space:
            body = await body_of(receive, most, space)
            return await self._answers[asked.verb](token, body, counted)

    def _admitted(self, scope: Scope, token: tokens.Known) -> Counted:
        said_who(scope, token.sender, messages.most_connections(token.partitions))
        return self.rate.admitted(token.group, token.token_id)

    async def _token(self, asked: Asked) -> tokens.Known:
        digest, address = asked.digest, asked.address
        await self.tokens.look_at_revoked()
        known = self.tokens.get(digest, address)
        if known is None:
            known = await self._read_token(digest, address)
        if not known.is_valid(digest):
            raise Problem(401, "Token refused", "this token is wrong, expired or revoked")
        if known.group != asked.group:
            raise await _in_time(self._of_other_group(known, asked.group, address))
        return known

    async def _read_token(self, digest: str, address: str) -> tokens.Known:
        try:
            return await _in_time(self.tokens.read(digest, address))
        except TooMany:
            why = "too many unknown tokens wait to be checked; try again"
            raise Problem(503, "Busy", why) from None

    async def _of_other_group(self, known: tokens.Known, group: str, address: str) -> Problem:
        if not await in_thread(tokens.group_exists)(group):
            return Problem(404, "Unknown group", f"there is no group {group!r}")
        with suppress(DatabaseError):
            await in_thread(tokens.note_other_group)(known.token_id, group, address)
        why = f"this token speaks for {known.group!r}, not for {group!r}"
        return Problem(403, "Token of another group", why)

    async def _call(self, call: Call[T], group: str, counted: Counted) -> T:
        joins = call.script == "join"
        found = await self.batch.call(script(call.script), group, call.args, counted, joins=joins)
        return self._found(call, group, counted, found)

    def _found(self, call: Call[T], group: str, counted: Counted, found: tuple[Any, int]) -> T:
        answer, count = found
        self.rate.counted(counted.name, count)
        return _read(group, lambda: call.read(answer))

    async def _join(self, token: tokens.Known, body: bytes, counted: Counted) -> wire.Reply:
        group, join = token.group, messages.read("join", body)
        _checked_member(join.member, join.secret)
        row = {name: getattr(join, name) for name in ROW}
        most = sizes.members_max(token.partitions)
        call = dashboard_side.join(join.member, join.secret, row, join.seen, members=most)
        await self._wait_turn(group)
        try:
            joined = await self._call(call, group, counted)
        except Overloaded as error:
            raise self._sent_away(str(error)) from error
        match joined.result:
            case JoinResult.OK:
                self.doorbell.ring(group)
                assert joined.reply is not None
                return joined.reply
            case JoinResult.WAIT:
                return dashboard_side.wait_reply(joined)
            case JoinResult.IN_USE:
                what = "Instance" if join.instance else "Member id"
                raise Problem(409, f"{what} in use", dashboard_side.in_use(join.member, joined))
            case JoinResult.FULL:
                why = dashboard_side.not_now(group, joined.result)
                raise Problem(429, "Too many members", why)
            case JoinResult.BUSY:
                raise self._sent_away(dashboard_side.not_now(group, joined.result), group)
            case JoinResult.NO_GROUP:
                raise StoreUnavailable(dashboard_side.not_now(group, joined.result))
            case _:
                assert_never(joined.result)

    async def _wait_turn(self, group: str) -> None:
        self.turns.lag_s = self.batch.lag_s
        wait_s = self.turns.take(group)
        if wait_s is None:
            raise self._sent_away(f"too many wait to join {group!r}; try again", group)
        if wait_s > GATHER_S:
            await asyncio.sleep(wait_s)

    def _sent_away(self, why: str, group: str = ALL) -> Problem:
        return Problem(503, "Busy", why, self.turns.later_s(group))

    async def _leave(self, token: tokens.Known, body: bytes, counted: Counted) -> wire.Reply:
        group, leave = token.group, messages.read("leave", body)
        _checked_member(leave.member, leave.secret)
        call = dashboard_side.leave(leave.member, leave.secret, stops=leave.stops)
        left = await self._call(call, group, counted)
        if left:
            self.doorbell.ring(group)
        return wire.Reply(status=wire.Status.OK if left else wire.Status.FENCED)

    async def _heartbeat(self, token: tokens.Known, body: bytes, counted: Counted) -> wire.Reply:
        beat, call = await self._read_beat(token, body)
        found = await self.batch.call(script(call.script), token.group, call.args, counted)
        return self._beat_reply(token, seen_by(beat), call, counted, found)

    def _beat_reply(
        self,
        token: tokens.Known,
        seen: tuple[int, int],
        call: Call[heartbeat.Reported],
        counted: Counted,
        found: tuple[Any, int],
    ) -> wire.Reply:
        group, answer = token.group, self._found(call, token.group, counted, found)
        reply = answer.reply
        if answer.too_large:
            most = sizes.reports_max(token.partitions)
            why = f"the reports of group {group!r} would have more than {most} bytes together"
            raise Problem(429, "Too much reported", why)
        if reply.status is not wire.Status.OK:
            return reply
        if answer.rebalance_due:
            self.doorbell.ring(group)
        if (reply.incarnation, reply.settings_epoch) != seen and reply.settings is None:
            raise StoreUnavailable(dashboard_side.not_now(group, JoinResult.NO_GROUP))
        return reply

    async def _read_beat(
        self, token: tokens.Known, body: bytes
    ) -> tuple[wire.Heartbeat, Call[heartbeat.Reported]]:
        if len(body) <= messages.LARGE:
            return read_beat(token, body)
        try:
            read = self.reader.do(token.token_id, partial(read_beat, token, body))
            return await _in_time(read)
        except messages.TooBusy:
            why = "another large report of this token waits to be read; try again"
            raise Problem(503, "Busy", why) from None


def _asked(scope: Scope) -> Asked:
    """Raises Problem. By nothing that changes while the process lives: heads are remembered."""
    demand_encrypted(scope)
    demand_known_host(scope)
    found = PATH.fullmatch(scope["path"])
    if not found:
        raise Problem(404, "Not found", f"there is nothing at {scope['path']}")
    if scope["method"] != "POST":
        raise Problem(405, "Method not allowed", f"{scope['method']} is not POST")
    given = header_of(scope, b"authorization")
    scheme, _, token = given.decode("latin-1").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Problem(401, "No token", "the header Authorization: Bearer <token> is missing")
    group, verb = found.groups()
    return Asked(group, verb, tokens.digest_of(token.strip()), address_of(scope))


def _speaks_for(token: tokens.Known, asked: Asked) -> bool:
    return token.is_valid(asked.digest) and token.group == asked.group


def _space(token: tokens.Known) -> Body:
    """Of one request's body."""
    return kept.of(token.sender, messages.most_kept(token.partitions))


def _read(group: str, answer: Callable[[], T]) -> T:
    """What Redis answered. Raises Damaged."""
    try:
        return answer()
    except UNREADABLE as error:
        raise Damaged(f"the records of group {group!r} are damaged: {error}") from error


async def _in_time(work: Awaitable[T]) -> T:
    """As long as a page may take, as the batch gives its answers."""
    try:
        async with asyncio.timeout(deadline.REQUEST_S):
            return await work
    except TimeoutError as error:
        why = f"Redis or database did not answer within {deadline.REQUEST_S:g} s; try again"
        raise Problem(503, NOT_IN_TIME, why) from error


def _checked_member(member: str, secret: str) -> None:
    valid_name("member", member)
    if len(secret) < SECRET_MIN:
        raise Problem(400, "Invalid message", f"secret is shorter than {SECRET_MIN} characters")


def read_beat(token: tokens.Known, body: bytes) -> tuple[wire.Heartbeat, Call[heartbeat.Reported]]:
    messages.check_values(body, token.partitions)
    beat: wire.Heartbeat = messages.read("heartbeat", body)
    _checked_member(beat.member, beat.secret)
    lost = [partition for partition, held in beat.owned.items() if held is None]
    if beat.complete and lost:
        raise Problem(400, "Invalid message", f"owned: a complete report cannot lose {lost[0]}")
    call = heartbeat.report(beat, token.partitions)
    messages.check_partitions(beat, token)
    return beat, call
