"""One POST to a webhook, within bounds of time; no redirect is followed, no answer is read."""

import http.client
import logging
import socket
import ssl
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from assignment.bounds import printable, shortened
from assignment.errors import InvalidInput
from dashboard.webhooks import addresses, signing
from dashboard.webhooks.addresses import Target
from dashboard.webhooks.stored import PROBLEM_MAX

PIECE_S = 3.0  # to connect, and between two pieces
ANSWER_S = 8.0  # from the first byte sent until its status was read
HEADERS = {"Content-Type": "application/json", "User-Agent": "Evenkeel"}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`status` None: there was no answer. `problem` "": it was taken."""

    status: int | None
    problem: str


class _Connection(http.client.HTTPConnection):
    """To the first that answers of addresses that were checked, whatever the name leads to now."""

    def __init__(self, target: Target, found: Sequence[str]) -> None:
        super().__init__(target.host, target.port, timeout=PIECE_S)
        self._addresses, self._is_encrypted = found, target.is_encrypted
        self._plain: socket.socket | None = None
        self._is_over = False
        if target.is_encrypted:
            self.default_port = addresses.DEFAULT_PORTS["https"]

    def connect(self) -> None:
        self.sock = self._plain = self._reached()
        if self._is_over:
            raise TimeoutError("it took too long to connect")
        if self._is_encrypted:
            context = ssl.create_default_context()
            self.sock = context.wrap_socket(self._plain, server_hostname=self.host)

    def _reached(self) -> socket.socket:
        *others, last = self._addresses
        for address in others:
            with suppress(OSError):
                return socket.create_connection((address, self.port), PIECE_S)
        return socket.create_connection((last, self.port), PIECE_S)

    def give_up(self) -> None:
        """Whoever waits for it, waits no longer: also while an answer comes byte by byte."""
        self._is_over = True
        for one in (self.sock, self._plain):
            with suppress(OSError):
                if one is not None:
                    one.shutdown(socket.SHUT_RDWR)


def send(url: str, headers: Mapping[str, str], body: bytes) -> Outcome:
    try:
        target = addresses.target_of(url)
        connection = _Connection(target, addresses.resolved(target))
        return _posted(connection, target, {**HEADERS, **headers}, body)
    except InvalidInput as error:
        return Outcome(None, shortened(str(error), PROBLEM_MAX))
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        said = printable(f"{type(error).__name__}: {error}")
        return Outcome(None, shortened(said, PROBLEM_MAX))


def _posted(
    connection: _Connection, target: Target, headers: Mapping[str, str], body: bytes
) -> Outcome:
    timer = threading.Timer(ANSWER_S, connection.give_up)
    timer.daemon = True
    timer.start()
    try:
        connection.request("POST", target.path, body, headers)
        status = connection.getresponse().status
    finally:
        timer.cancel()
        connection.close()
    if 200 <= status < 300:
        return Outcome(status, "")
    why = ", a redirect, which is not followed" if 300 <= status < 400 else ""
    return Outcome(status, f"it answered {status}{why}")


def signed(salt: str, timestamp: int, body: bytes, delivery: int, event: str) -> dict[str, str]:
    """The headers of a delivery (docs/webhooks.md). `timestamp`: of this try, in Unix seconds."""
    return {
        "Evenkeel-Event": event,
        "Evenkeel-Delivery": str(delivery),
        "Evenkeel-Timestamp": str(timestamp),
        "Evenkeel-Signature": signing.signature(signing.secret_of(salt), timestamp, body),
    }
