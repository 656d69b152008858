"""uvicorn's protocol, which answers a head that it knows without reading it: see heads.py. Knows no
route: whoever answered a request says that its head may be remembered, and who answers it again.
"""

import logging
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from dashboard.web.heads import Answer, Answers, Head, Known

log = logging.getLogger(__name__)


class RepeatedHeadProtocol(HttpToolsProtocol):
    """Remembers one head of its connection, and has no bounds yet."""

    in_message = False
    begun = 0  # requests, by what was received last
    last = b""  # received: one request, whole and alone; else nothing
    known: Known | None = None
    held = b""  # the known head, whose body has not come yet
    answered_s = 0.0  # as the loop counts: the last request

    def data_received(self, data: bytes) -> None:
        is_next = self.is_next()
        data, self.held = self.held + data, b""
        if is_next and self.known is not None and self.is_known(data, self.known):
            return
        self.begun = 0
        super().data_received(data)
        self.last = data if is_next and self.begun == 1 and not self.in_message else b""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.begun += 1
        self.in_message = True

    def on_message_complete(self) -> None:
        self.in_message = False
        super().on_message_complete()

    def is_next(self) -> bool:
        """Whether what comes now begins a request, behind one that was answered and read."""
        is_kept = self.timeout_keep_alive_task is not None and self.cycle.response_complete
        is_next = is_kept or bool(self.held)
        return is_next and not self.in_message and not self.flow.write_paused

    def remember(self, state: dict[str, Any], answers: Answers) -> None:
        """The request of this state was its connection's last one, and another body under the same
        head is to be given to `answers`. Nothing is remembered where that would not be the same.
        """
        cycle, last, self.last = self.cycle, self.last, b""
        if not last or cycle.scope["state"] is not state or self.transport.is_closing():
            return
        is_special = self.expect_100_continue or self.parser.should_upgrade()
        if is_special or cycle.access_log or self.limit_concurrency is not None:
            return
        head = Head.of(last)
        self.known = None if head is None else Known(head, answers)

    def is_known(self, data: bytes, known: Known) -> bool:
        """False: nothing was done. Else it is the known head, and with its body it is answered."""
        body = known.head.body_in(data)
        if body is None and not known.head.is_alone(data):
            return False
        if body is None:
            self._unset_keepalive_if_required()
            self.held = data
        else:
            self.begin_repeated(known, body)
        return True

    def begin_repeated(self, known: Known, body: bytes) -> None:
        """As uvicorn sees it the request goes on that was answered last."""
        self.cycle.response_started = self.cycle.response_complete = False
        tell = partial(self.end_repeated, self.cycle)
        try:
            known.answers(body, tell)
        except Exception as error:
            tell(error)

    def end_repeated(self, cycle: RequestResponseCycle, answer: Answer | Exception) -> None:
        if isinstance(answer, Exception):
            log.error("a request with a known head was not answered", exc_info=answer)
            answer, cycle.keep_alive = FAILED, False
        if not cycle.disconnected:
            self.write_whole(cycle, answer)

    def on_response_complete(self) -> None:
        """Where nothing but a known head was received since the last answer, the timer of that one
        goes on: to make and to end one each time is a twentieth of what a heartbeat costs.
        """
        self.answered_s = self.loop.time()
        if self.timeout_keep_alive_task is None:
            super().on_response_complete()
        else:
            self.server_state.total_requests += 1

    def timeout_keep_alive_handler(self) -> None:
        left_s = self.answered_s + self.timeout_keep_alive - self.loop.time()
        if self.cycle.response_complete and left_s <= 0:
            super().timeout_keep_alive_handler()
            return
        again_s = left_s if left_s > 0 else self.timeout_keep_alive
        self.timeout_keep_alive_task = self.loop.call_later(
            again_s, self.timeout_keep_alive_handler
        )

    def answer_whole(self, state: dict[str, Any], answer: Answer) -> bool:
        """In one write: the two that uvicorn makes are a tenth of what a heartbeat costs. `state`:
        of the request's scope. False: nothing was done, the usual way is the one; so it is for who
        asks ahead, whose newest request this is not.
        """
        cycle = self.cycle
        is_newest = cycle.scope["state"] is state
        is_usual = cycle.response_started or cycle.disconnected or cycle.access_log
        if not is_newest or is_usual or self.flow.write_paused:
            return False
        self.write_whole(cycle, answer)
        return True

    def write_whole(self, cycle: RequestResponseCycle, answer: Answer) -> None:
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        texts = [STATUS_LINE[answer.status]]
        for name, value in cycle.default_headers:
            texts += (name, b": ", value, b"\r\n")
        texts.append(answer.lines)
        if not cycle.keep_alive:
            texts.append(b"connection: close\r\n")
        self.transport.write(b"".join((*texts, b"\r\n", answer.body)))
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()


FAILED = Answer.of(500, b"text/plain; charset=utf-8", b"Internal Server Error")
