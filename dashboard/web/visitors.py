"""Connections of strangers, counted: who connected and has not yet said who they are.

A connection is a stranger's until a request on it carried a valid token or came from somebody who
is signed in (`said_who`). An honest stranger's request comes whole within milliseconds, so when
there is no place for one more, the one that has kept us waiting longest is cut off. Knows no
protocol; all but `said_who` is called in the event loop.

Those of one token are counted too, and a further one is not taken: its agents have one each.
"""

import asyncio
import ipaddress
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.decorators import sync_only_middleware

VISIT = "evenkeel.visit"  # in the scope's state
PEER = "evenkeel.peer"  # there too: who connected, whatever was claimed in a header
PER_ADDRESS = 64  # ten browsers behind one address, with six connections each
IN_ALL = 512
PATIENCE_S = 1.0  # agents that come back all at once are accepted before any of them is read
BURST = 2_048  # above the bounds meanwhile: as many as uvicorn lets wait to be accepted
IPV6_PREFIX = 64  # of these one host has as many addresses as it wants
TELL_EVERY_S = 60.0

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Visit:
    """One connection. `end` cuts it off; `is_known` is set once, by whatever thread."""

    address: str
    end: Callable[[], None]
    loop: asyncio.AbstractEventLoop
    visitors: "Visitors"
    is_known: bool = False
    is_counted: bool = True
    token: int = 0  # under which it is counted
    is_over: bool = False


@dataclass(slots=True)
class Crowd:
    """Strangers of one address, or all of them. `waiting`: those that we wait for and since when,
    the first first; for the others we work.
    """

    most: int
    count: int = 0
    waiting: dict[Visit, float] = field(default_factory=dict)


class Visitors:
    """Those of one server. An address of "" has no bound of its own: a proxy's, or a Unix socket's.

    `per_address` and `in_all`: so many strangers at one time; for `patience_s` nobody is cut off.
    """

    def __init__(
        self,
        per_address: int = PER_ADDRESS,
        in_all: int = IN_ALL,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._patience_s = patience_s
        self._per_address = per_address
        self._all = Crowd(in_all)
        self._of: dict[str, Crowd] = {}
        self._cut, self._told_s = 0, -TELL_EVERY_S
        self._of_token: dict[int, int] = {}

    @property
    def count(self) -> int:
        return self._all.count

    def come(self, address: str, end: Callable[[], None]) -> Visit | None:
        """A new connection, which we wait for; None: there is no place for it."""
        crowds = self._crowds(address)
        if not all(self._has_place(crowd, address) for crowd in crowds):
            self._forget_empty(address)
            return None
        visit = Visit(address, end, asyncio.get_running_loop(), self)
        for crowd in self._crowds(address):
            crowd.count += 1
        self.wait(visit)
        return visit

    def wait(self, visit: Visit) -> None:
        """From now on it is this connection's turn to send, or to read."""
        if visit.is_counted:
            for crowd in self._crowds(visit.address):
                crowd.waiting.setdefault(visit, time.monotonic())

    def work(self, visit: Visit) -> None:
        """Its request is whole."""
        if visit.is_counted:
            for crowd in self._crowds(visit.address):
                crowd.waiting.pop(visit, None)

    def part(self, visit: Visit) -> None:
        """It ended, or is no stranger's any more; may be called twice."""
        if not visit.is_counted:
            return
        for crowd in self._crowds(visit.address):
            crowd.waiting.pop(visit, None)
            crowd.count -= 1
        visit.is_counted = False
        self._forget_empty(visit.address)

    def hold(self, visit: Visit, token: int, most: int) -> bool:
        """Whether it may be one of that token's connections, of which there are `most`. A proxy's
        carry requests of many.
        """
        if visit.token == token or not visit.address or visit.is_over:
            return True
        if self._of_token.get(token, 0) >= most:
            return False
        self._let_go(visit)
        self._of_token[token] = self._of_token.get(token, 0) + 1
        visit.token = token
        return True

    def end(self, visit: Visit) -> None:
        """The connection is no more; may be called twice."""
        visit.is_over = True
        self.part(visit)
        self._let_go(visit)

    def _let_go(self, visit: Visit) -> None:
        if not visit.token:
            return
        self._of_token[visit.token] -= 1
        if not self._of_token[visit.token]:
            del self._of_token[visit.token]
        visit.token = 0

    def _crowds(self, address: str) -> tuple[Crowd, ...]:
        if not address:
            return (self._all,)
        return self._of.setdefault(address, Crowd(self._per_address)), self._all

    def _forget_empty(self, address: str) -> None:
        if address and not self._of[address].count:
            del self._of[address]

    def _has_place(self, crowd: Crowd, address: str) -> bool:
        """If need be, in the place of those that we have waited for longest."""
        while crowd.count >= crowd.most:
            oldest, since_s = next(iter(crowd.waiting.items()), (None, 0.0))
            is_new = time.monotonic() - since_s < self._patience_s
            if oldest is not None and is_new and crowd.count < crowd.most + BURST:
                return True
            self._tell(address)
            if oldest is None:
                return False
            self.part(oldest)
            oldest.end()
        return True

    def _tell(self, address: str) -> None:
        """A line a minute at most, whatever they do."""
        self._cut += 1
        if time.monotonic() - self._told_s < TELL_EVERY_S:
            return
        log.warning(
            "strangers: no place for %d connections, lately of %s; the oldest that wait are ended",
            self._cut,
            address or "a proxy",
        )
        self._cut, self._told_s = 0, time.monotonic()


def address_of(client: tuple[str, int] | None) -> str:
    """Whom a connection is counted for: an IPv4 address, or the network of an IPv6 one."""
    try:
        address = ipaddress.ip_address(client[0].partition("%")[0] if client else "")
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, IPV6_PREFIX), strict=False))


def said_who(scope: dict[str, Any]) -> None:
    """This request was an agent's with its token, or that of somebody signed in: from now on its
    connection is no stranger's. From any thread; under another server it does nothing.
    """
    visit: Visit | None = (scope.get("state") or {}).get(VISIT)
    if visit is not None and not visit.is_known:
        visit.is_known = True
        visit.loop.call_soon_threadsafe(visit.visitors.part, visit)


def admits(scope: dict[str, Any], token: int, most: int) -> bool:
    """This request brought a valid token: from now on its connection is no stranger's, unless the
    token has `most` others.
    """
    visit: Visit | None = (scope.get("state") or {}).get(VISIT)
    if visit is not None and not visit.visitors.hold(visit, token, most):
        return False
    said_who(scope)
    return True


@sync_only_middleware
def known_people(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Django's middleware, inside of its authentication. It costs no query of its own: for a page
    that reads the session who asks was looked up already.
    """

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if request.session.accessed and request.user.is_authenticated:
            said_who(getattr(request, "scope", {}))
        return response

    return answer
