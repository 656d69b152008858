"""A heartbeat on its way, under a head that was read: acts on what Redis answers as soon as it is
there (live.batch.Answer), so that no task waits for it.
"""

import logging
from collections.abc import Callable
from typing import Any

from assignment import wire
from dashboard.agents.answers import refusal, replied
from dashboard.agents.requests import Scope
from dashboard.web.heads import Answer, Told
from dashboard.web.kept import Body

log = logging.getLogger(__name__)


class Repeated:
    """`space`: of its body, until it is answered. `reply`: what Redis' answer is to the agent; set
    before it is asked.
    """

    __slots__ = ("_is_done", "_scope", "_tell", "reply", "space")
    reply: Callable[[tuple[Any, int]], wire.Reply]

    def __init__(self, scope: Scope, space: Body, tell: Told) -> None:
        self._scope, self._tell, self._is_done = scope, tell, False
        self.space = space

    def done(self) -> bool:
        return self._is_done

    def set_result(self, found: tuple[Any, int], /) -> None:
        try:
            answer: Answer | Exception = replied(self._scope, self.reply(found))
        except Exception as error:
            answer = refusal(self._scope, error)
        self._end(answer)

    def set_exception(self, error: Exception, /) -> None:
        self._end(refusal(self._scope, error))

    def _end(self, answer: Answer | Exception) -> None:
        """Others of the same trip are answered after it, whatever becomes of this one."""
        self._is_done = True
        self.space.end()
        try:
            self._tell(answer)
        except Exception:
            log.exception("the answer to a heartbeat was not written")
