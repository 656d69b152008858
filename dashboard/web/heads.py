"""The head of a request, said again. What the parser and the routes made of it holds for the same
bytes as well, whatever follows: only the length that it says of its body is another number. Agents
say one head with all heartbeats of a connection, and to read it is half of what a heartbeat costs.
"""

import re
from collections.abc import Callable
from typing import NamedTuple, Self

END = b"\r\n\r\n"
LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)[ \t]*\r\n", re.IGNORECASE)
HEAD_MAX = 2**11  # bytes; an agent's has 300
BODY_MAX = 2**14  # bytes, which come at once; a longer one costs more than its head
DIGITS = len(str(BODY_MAX))


class Answer(NamedTuple):
    """`lines`: of the header, each with its end; they say the length of the body."""

    status: int
    lines: bytes
    body: bytes

    @classmethod
    def of(cls, status: int, content_type: bytes, body: bytes, more: bytes = b"") -> Self:
        lines = b"content-type: %b\r\ncontent-length: %d\r\n%b" % (content_type, len(body), more)
        return cls(status, lines, body)


Told = Callable[[Answer | Exception], None]  # once, now or later
Answers = Callable[[bytes, Told], None]  # of a body


class Head(NamedTuple):
    """Its bytes before the digits that are the length of the body, and after them."""

    before: bytes
    after: bytes

    @classmethod
    def of(cls, request: bytes) -> Self | None:
        """Of one that the parser has read, alone and whole; None: one that is not worth it, or
        whose length does not stand there once.
        """
        end = request.find(END) + len(END)
        size = len(request) - end
        lengths = list(LENGTH.finditer(request, 0, end))
        if end > HEAD_MAX or len(lengths) != 1 or int(lengths[0][1]) != size:
            return None
        return cls(request[: lengths[0].start(1)], request[lengths[0].end(1) : end])

    def body_in(self, data: bytes) -> bytes | None:
        """What follows this head; None: it is another one, or there are more or fewer bytes than it
        says.
        """
        if not data.startswith(self.before):
            return None
        end = data.find(END, len(self.before)) + len(END)
        size = len(data) - end
        is_this = data[len(self.before) : end] == b"%d%b" % (size, self.after)
        return data[end:] if is_this and size <= BODY_MAX else None

    def is_alone(self, data: bytes) -> bool:
        """Whether `data` is this head, and of its body nothing: many clients send it apart."""
        if not (data.startswith(self.before) and data.endswith(self.after)):
            return False
        digits = data[len(self.before) : len(data) - len(self.after)]
        return digits.isdigit() and len(digits) <= DIGITS and 0 < int(digits) <= BODY_MAX


class Known(NamedTuple):
    """A head, and who answers another body to it."""

    head: Head
    answers: Answers
