"""Servers' protocols that count what they read, and a request as they know it."""

from typing import Any

from dashboard.web.protocols import HttpProtocol
from tests.dashboard.served import post

SAID = post("/", b"some")
BEFORE, AFTER = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: ", b"\r\n\r\n"


class Counting(HttpProtocol):
    """How many requests the parser has read, and what is not expected."""

    read = 0
    newest: "Counting"
    logs = False

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        Counting.newest = self
        self.access_log = self.logs  # pytest listens to it

    def on_headers_complete(self) -> None:
        Counting.read += 1
        super().on_headers_complete()


class Logging(Counting):
    logs = True
