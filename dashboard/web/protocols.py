"""uvicorn's protocols, with bounds on what a connection may cost before anybody looked at it: bytes
and time of a header, time of a body, requests sent ahead, and connections of strangers.

uvicorn itself bounds none of these with its fast parser: it keeps a header of any size, and waits
for the rest of a request for ever. How large a body may be is said by route, in bodies.py.
"""

import asyncio
from enum import Enum
from typing import Any, ClassVar, assert_never

from django.conf import settings
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request

from assignment.wire import API_PREFIX
from dashboard.web.heads import Known
from dashboard.web.repeated_heads import RepeatedHeadProtocol
from dashboard.web.visitors import PEER, REMEMBER, VISIT, WHOLE, Visit, Visitors, address_of

HEADER_BYTES_MAX = 2**18  # the scale-down wizard's address names up to 2,000 members
HEADERS_MAX = 100
AHEAD_MAX = 16  # requests sent before the answer to the first
REST_BYTES_MAX = 8 * 2**20  # the largest report: its agent reads why it was refused
FRAGMENTS_MAX = 64  # of a message, of which browsers send none
API = API_PREFIX.encode()


class Awaited(Enum):
    """What a connection is waited for."""

    NOTHING = "nothing"
    HEADER = "the header of the request"
    BODY = "the body of the request"
    REST = "the rest of what was refused"
    READING = "that the answer is read"


class Refused(Exception):
    """Raised inside of the parser, which gives the connection up then."""


class HttpProtocol(RepeatedHeadProtocol):
    """Closes what takes too long or too much; for the rest it is uvicorn's."""

    visitors: ClassVar[Visitors] = Visitors()
    # Agents give up after 4 s; a report of 8 MiB takes 30 s at 2 Mbit/s.
    seconds: ClassVar[dict[Awaited, float]] = {
        Awaited.HEADER: 10.0,
        Awaited.BODY: 30.0,
        Awaited.REST: 2.0,  # so that the answer arrives before the connection is reset
        Awaited.READING: 30.0,
    }
    visit: Visit | None = None
    refusal: tuple[int, str] | None = None
    awaited = Awaited.NOTHING
    timer: asyncio.TimerHandle | None = None
    stalled: asyncio.TimerHandle | None = None
    in_header = False
    has_moved = False  # a piece of a body, or the end of a message
    is_claimed = False  # a token was shown
    is_over = False  # it was refused: nothing more is expected
    is_dropped = False  # what still comes, after the answer that ends the connection
    is_ending = False  # the server is
    header_bytes = 0
    rest_bytes = 0  # since it was refused
    quiet_bytes = 0  # since anything of a body came: of a header, or of what follows the body

    # --- the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = "" if settings.BEHIND_PROXY else address_of(self.client)
        self.visit = self.visitors.come(address, transport.abort)
        if self.visit is None:
            self.answer(503, "Too many connections of this address wait for an answer.")
            return
        own: dict[str, Any] = {WHOLE: self.answer_whole, REMEMBER: self.remember}
        self.app_state = {**self.app_state, VISIT: self.visit, PEER: self.client, **own}
        self.wait()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self.timer, self.stalled):
            if timer is not None:
                timer.cancel()
        if self.visit is not None:
            self.visitors.part(self.visit)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.stalled = self.loop.call_later(self.most_s(Awaited.READING), self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.stalled is not None:
            self.stalled.cancel()
            self.stalled = None

    def handle_websocket_upgrade(self) -> None:
        """From here on the other protocol has the connection, and this one hears of it no more."""
        self.expect(Awaited.NOTHING)
        if self.visit is not None:
            self.visitors.work(self.visit)
        super().handle_websocket_upgrade()

    def shutdown(self) -> None:
        """The server ends: whoever has sent half a request, or does not read, has little time."""
        self.is_ending = True
        super().shutdown()
        self.expect(Awaited.NOTHING)
        self.wait()
        if self.stalled is not None:
            self.stalled.cancel()
            self.stalled = self.loop.call_later(self.most_s(Awaited.READING), self.transport.abort)

    # --- bytes

    def data_received(self, data: bytes) -> None:
        if self.is_dropped:
            self.drop(data)
            return
        self.has_moved = False
        super().data_received(data)
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return
        self.quiet_bytes = 0 if self.has_moved else self.quiet_bytes + len(data)
        if self.quiet_bytes > HEADER_BYTES_MAX and self.in_message:
            self.refusal = _too_large()
            self.send_400_response("")
            return
        if self.awaited is not Awaited.REST:
            self.rest_bytes = 0
        elif not self.drop(data):
            return
        self.wait()

    def drop(self, data: bytes) -> bool:
        """Whether more of it may come."""
        self.rest_bytes += len(data)
        if self.rest_bytes > REST_BYTES_MAX:
            self.transport.abort()
        return self.rest_bytes <= REST_BYTES_MAX

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.in_header = True
        self.header_bytes = self.quiet_bytes = 0
        self.expect(Awaited.NOTHING)  # a new request, a new time

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self.header_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self.header_bytes += len(name) + len(value)
        if self.header_bytes > HEADER_BYTES_MAX or len(self.headers) > HEADERS_MAX:
            self.refusal = _too_large()
            raise Refused

    def on_headers_complete(self) -> None:
        if self.header_bytes > HEADER_BYTES_MAX:
            self.refusal = _too_large()
            raise Refused
        if len(self.pipeline) >= AHEAD_MAX:
            self.refusal = 429, f"More than {AHEAD_MAX} requests wait for their answers."
            raise Refused
        self.in_header = False
        super().on_headers_complete()
        visit = self.visit
        if visit is not None and not visit.who and self.is_agents():
            self.is_claimed = True
            if visit.is_stranger:
                self.visitors.claim(visit)

    def is_agents(self) -> bool:
        """Whether an agent asks and shows a token, which is checked before the body is read."""
        shows = any(name == b"authorization" for name, _ in self.headers)
        return shows and self.url.startswith(API)

    def on_body(self, body: bytes) -> None:
        self.has_moved = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self.came_whole()
        super().on_message_complete()

    def begin_repeated(self, known: Known, body: bytes) -> None:
        self.came_whole()
        super().begin_repeated(known, body)

    def came_whole(self) -> None:
        self.has_moved = True
        if self.visit is not None:
            self.visitors.work(self.visit)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.visit is not None:
            self.visitors.wait(self.visit)
            self.is_over = self.visit.is_over or (self.is_claimed and not self.visit.who)
            if self.is_over:
                self.visitors.refuse(self.visit)
        self.wait()

    # --- time

    def wait(self) -> None:
        """Sees to it that what is waited for now does not take for ever."""
        if self.is_over and not self.in_message:
            self.transport.close()
        awaited = self._awaited()
        if awaited is not self.awaited:
            self.expect(awaited)

    def is_answered(self) -> bool:
        """All that was asked whole."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def _awaited(self) -> Awaited:
        is_answered = self.is_answered()
        if self.transport.is_closing():
            return Awaited.READING
        if self.is_dropped:
            return Awaited.REST
        if self.in_header:
            return Awaited.HEADER
        if self.held or self.in_message:
            return Awaited.REST if self.in_message and is_answered else Awaited.BODY
        if is_answered and self.timeout_keep_alive_task is None:
            return Awaited.HEADER
        return Awaited.NOTHING

    def expect(self, awaited: Awaited) -> None:
        if awaited is self.awaited:
            return
        self.awaited = awaited
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if awaited is not Awaited.NOTHING:
            self.timer = self.loop.call_later(self.most_s(awaited), self.late)

    def most_s(self, awaited: Awaited) -> float:
        most_s = self.seconds[awaited]
        return min(most_s, self.seconds[Awaited.REST]) if self.is_ending else most_s

    def late(self) -> None:
        awaited, self.awaited, self.timer = self.awaited, Awaited.NOTHING, None
        match awaited:
            case Awaited.HEADER | Awaited.BODY if not (self.in_message or self.held):
                self.transport.close()
            case Awaited.BODY if self.flow.read_paused:  # it is we who do not take more of it
                self.wait()
                return
            case Awaited.HEADER | Awaited.BODY:
                self.answer(408, f"{awaited.value.capitalize()} took longer than we wait.")
            case Awaited.REST | Awaited.READING:
                self.transport.abort()
            case Awaited.NOTHING:
                pass
            case _:
                assert_never(awaited)
        self.wait()

    # --- answers

    def send_400_response(self, msg: str) -> None:
        status, why = self.refusal or (400, msg)
        self.answer(status, why)

    def answer(self, status: int, why: str) -> None:
        """And the connection ends; without a word where an answer has begun. What is on its way is
        still taken, unless an answer to something else is: a connection that is closed before it
        was read is reset, and the answer may be lost with it.
        """
        is_answered = self.is_answered()
        if is_answered or not self.cycle.response_started:
            body = why.encode()
            lines = [
                b"content-type: text/plain; charset=utf-8\r\n",
                b"content-length: %d\r\n" % len(body),
                b"connection: close\r\n",
                *((b"retry-after: 1\r\n",) if status in (429, 503) else ()),
            ]
            self.transport.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", body]))
        self.is_dropped = is_answered and self.visit is not None  # one without would be uncounted
        if self.is_dropped:
            self.transport.write_eof()
        else:
            self.transport.close()
        self.wait()


def _too_large() -> tuple[int, str]:
    return 431, f"A header has at most {HEADER_BYTES_MAX} bytes in {HEADERS_MAX} lines."


class SocketProtocol(WebSocketsSansIOProtocol):
    """Also answers what is no handshake, where uvicorn would drop it with a traceback."""

    def connection_lost(self, exc: Exception | None) -> None:
        visit: Visit | None = self.app_state.get(VISIT)
        if visit is not None:
            visit.visitors.part(visit)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.handshake_initiated and not self.close_sent:
            self.refuse_handshake()  # the request came whole

    def handle_connect(self, event: Request) -> None:
        try:
            event.path.encode("ascii")
        except UnicodeEncodeError:
            self.refuse_handshake()
            return
        super().handle_connect(event)

    def handle_parser_exception(self) -> None:
        if self.conn.close_sent is None:
            self.refuse_handshake()
        else:
            super().handle_parser_exception()

    def refuse_handshake(self) -> None:
        lines = b"content-length: 0\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[400] + lines)
        self.close_sent = self.handshake_complete = self.disconnected = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": CloseCode.PROTOCOL_ERROR})
        self.transport.close()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) < FRAGMENTS_MAX:
            super().handle_cont(event)
        else:
            self.conn.fail(CloseCode.MESSAGE_TOO_BIG, "too many fragments")
            self.handle_parser_exception()

    def handle_ping(self) -> None:
        """Whoever asks and does not read the answers is not answered any more."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.transport.abort()
