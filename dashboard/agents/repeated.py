"""Heartbeats under a head that was read. One on its way acts on what Redis answers as soon as it is
there (live.batch.Answer), so that no task waits for it; one that repeats the last one, but for its
sequence, is not read again.
"""

import logging
from collections.abc import Callable
from typing import Any, Self

from msgspec.structs import replace

from assignment import wire
from assignment.scripts import heartbeat
from assignment.scripts.values import FENCE_MAX, Call
from dashboard.agents.answers import refusal, replied
from dashboard.agents.requests import Scope, encode
from dashboard.agents.tokens import Known
from dashboard.live.batch import Wanted, around
from dashboard.live.scripts import script
from dashboard.web.heads import Answer, Told
from dashboard.web.kept import Body

NUMBER = b'"sequence":'
DIGITS_MAX = len(str(FENCE_MAX)) - 1  # with more it may be too high, and is read
REPEATED_MAX = 2**11  # bytes; a heartbeat whose partitions are as they were has 300
log = logging.getLogger(__name__)


class Repeated:
    """`space`: of its body, until it is answered. `reply`: what Redis' answer is to the agent; set
    before it is asked.
    """

    __slots__ = ("_is_done", "_tell", "reply", "scope", "space")
    reply: Callable[[tuple[Any, int]], wire.Reply]

    def __init__(self, scope: Scope, space: Body, tell: Told) -> None:
        self.scope, self._tell, self._is_done = scope, tell, False
        self.space = space

    def done(self) -> bool:
        return self._is_done

    def set_result(self, found: tuple[Any, int], /) -> None:
        try:
            answer: Answer | Exception = replied(self.scope, self.reply(found))
        except Exception as error:
            answer = refusal(self.scope, error)
        self._end(answer)

    def set_exception(self, error: Exception, /) -> None:
        self._end(refusal(self.scope, error))

    def _end(self, answer: Answer | Exception) -> None:
        """Others of the same trip are answered after it, whatever becomes of this one."""
        self._is_done = True
        self.space.end()
        try:
            self._tell(answer)
        except Exception:
            log.exception("the answer to a heartbeat was not written")


def seen_by(beat: wire.Heartbeat) -> tuple[int, int]:
    """By whose settings its sender goes."""
    return beat.incarnation, beat.settings_epoch


class LastBeat:
    """A heartbeat that was read, to know those that differ from it in their sequence alone."""

    __slots__ = ("_body", "_command", "_of", "call", "seen")

    def __init__(
        self, token: Known, body: bytes, beat: wire.Heartbeat, call: Call[heartbeat.Reported]
    ) -> None:
        """As agents write it: its sequence stands plainly, and nothing before it looks like one."""
        before, name, rest = body.partition(NUMBER)
        self._body = before + name, rest[len(str(beat.sequence)) :]
        self._command: tuple[bytes, bytes] | None = None
        self._of = token.stream, token.partitions  # by which it was read
        self.seen, self.call = seen_by(beat), call

    @classmethod
    def of(
        cls, token: Known, body: bytes, beat: wire.Heartbeat, call: Call[heartbeat.Reported]
    ) -> Self | None:
        """None: it is long, or not written as agents write."""
        is_usual = len(body) <= REPEATED_MAX and encode(beat) == body
        return cls(token, body, beat, call) if is_usual else None

    def repeated(self, token: Known, body: bytes) -> Wanted | None:
        """What a heartbeat asks of Redis that repeats this one; None: it has other content."""
        before, after = self._body
        if not (body.startswith(before) and body.endswith(after)):
            return None
        number = body[len(before) : len(body) - len(after)]
        is_number = number.isdigit() and len(number) <= DIGITS_MAX and number[0] != ord("0")
        if not is_number or self._of != (token.stream, token.partitions):
            return None
        known = script(self.call.script)
        if self._command is None:  # only one that is repeated is worth it
            self._command = around(known, token.group, self.call.args, heartbeat.SEQUENCE)
            self.call = replace(self.call, args=[])
        begin, end = self._command
        command = b"%b$%d\r\n%b\r\n%b" % (begin, len(number), number, end)
        return Wanted(known, token.group, command)
