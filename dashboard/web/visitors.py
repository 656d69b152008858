"""Connections, counted by who they are: strangers, those whose token is being checked, the known.

A connection is a stranger's until a request on it carried a valid token or came from somebody who
is signed in (`said_who`); then it counts for that token or user. An honest request comes whole
within milliseconds, so when there is no place for one more, the one that has kept us waiting
longest is cut off. Knows no protocol; all but `said_who` and `refused` is called in the event loop.
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
WHOLE = "evenkeel.whole"  # there too: sends an answer at once, see repeated_heads.py
REMEMBER = "evenkeel.remember"  # there too: remembers the head, see there
PER_ADDRESS = 64  # ten browsers behind one address, with six connections each
IN_ALL = 512
CLAIMED_PER_ADDRESS = 512  # while tokens are checked, and answers that refuse them are read
CLAIMED_IN_ALL = 2_048
PER_PERSON = 128  # of one user: pages, and 30 sockets
KNOWN_IN_ALL = 32_768  # three times the agents aimed at; half of the files that we may open
# As long as an agent waits: those that come back all at once are accepted before any is read.
PATIENCE_S = 4.0
BURST = 2_048  # above the bounds meanwhile: as many as uvicorn lets wait to be accepted
IPV6_PREFIX = 64  # of these one host has as many addresses as it wants
TELL_EVERY_S = 60.0

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Visit:
    """One connection. `end` cuts it off. `who`: whose it is, "" a stranger's; `is_refused`: what it
    showed is not valid, or not any more; both are set by whatever thread.
    """

    address: str
    end: Callable[[], None]
    loop: asyncio.AbstractEventLoop
    visitors: "Visitors"
    who: str = ""
    is_refused: bool = False
    is_working: bool = False
    has_ended: bool = False
    crowds: tuple["Crowd", ...] = ()  # in which it is counted

    @property
    def is_stranger(self) -> bool:
        return self.visitors.strangers in self.crowds

    @property
    def is_over(self) -> bool:
        """Nothing more is expected of it, once it has its answer. What a proxy sends next may be
        somebody else's.
        """
        return self.is_refused and bool(self.address or not self.who)


@dataclass(slots=True, eq=False)
class Crowd:
    """Connections of one address, token or user, or all of a kind. `waiting`: those that we wait
    for and since when, the first first; for the others we work.
    """

    most: int
    name: str = ""
    count: int = 0
    waiting: dict[Visit, float] = field(default_factory=dict)


class Visitors:
    """Those of one server. An address of "" has no bound of its own, nor has who is known there: a
    proxy's, or a Unix socket's.

    `per_address` and `in_all`: so many strangers at one time; for `patience_s` none is cut off.
    `claimed_per_address`, `claimed_in_all`: so many whose token is checked or was refused.
    """

    def __init__(
        self,
        per_address: int = PER_ADDRESS,
        in_all: int = IN_ALL,
        patience_s: float = PATIENCE_S,
        *,
        claimed_per_address: int = CLAIMED_PER_ADDRESS,
        claimed_in_all: int = CLAIMED_IN_ALL,
        known_in_all: int = KNOWN_IN_ALL,
    ) -> None:
        self._patience_s = patience_s
        self._per_address, self._claimed_per_address = per_address, claimed_per_address
        self.strangers = Crowd(in_all)
        self.claimed = Crowd(claimed_in_all)
        self.known = Crowd(known_in_all)
        self._of: dict[str, Crowd] = {}
        self._cut, self._told_s = 0, -TELL_EVERY_S

    @property
    def count(self) -> int:
        """Of strangers."""
        return self.strangers.count

    def come(self, address: str, end: Callable[[], None]) -> Visit | None:
        """A new connection, which we wait for; None: there is no place for it."""
        crowds = self._crowds(address, self._per_address, self.strangers)
        if not self._make_place(crowds, self._patience_with(address)):
            return None
        visit = Visit(address, end, asyncio.get_running_loop(), self)
        self._count(visit, crowds)
        self.wait(visit)
        return visit

    def claim(self, visit: Visit) -> None:
        """It shows a token, which is being checked. Without a place it stays a stranger."""
        name = _claimed(visit.address) if visit.address else ""
        crowds = self._crowds(name, self._claimed_per_address, self.claimed)
        if self._make_place(crowds):
            self._count(visit, crowds)

    def refuse(self, visit: Visit) -> None:
        """Its answer, which says so, may be read for as long as there is a place."""
        if visit.is_stranger:
            self.claim(visit)
        self.wait(visit)
        if visit.is_stranger:
            visit.end()

    def know(self, visit: Visit, who: str, most: int) -> None:
        """It is that token's or user's, who may have `most` connections. Without a place it ends
        with its answer.
        """
        if visit.has_ended:
            return
        crowds = self._crowds(who if visit.address else "", most, self.known)
        if not self._make_place(crowds):
            visit.is_refused = True
        self._count(visit, crowds)
        if visit.is_working:
            return
        self.wait(visit)
        if visit.is_refused:
            visit.end()

    def wait(self, visit: Visit) -> None:
        """From now on it is this connection's turn to send, or to read."""
        visit.is_working, now_s = False, time.monotonic()
        for crowd in visit.crowds:
            crowd.waiting.setdefault(visit, now_s)

    def work(self, visit: Visit) -> None:
        """Its request is whole."""
        visit.is_working = True
        for crowd in visit.crowds:
            crowd.waiting.pop(visit, None)

    def part(self, visit: Visit) -> None:
        """It ended; may be called twice."""
        visit.has_ended = True
        self._count(visit, ())

    def _patience_with(self, address: str) -> float:
        """None where as many were refused as may be strangers: those are no agents."""
        claimed = self._of.get(_claimed(address))
        is_tried = claimed is not None and len(claimed.waiting) >= self._per_address
        return 0.0 if is_tried else self._patience_s

    def _crowds(self, name: str, most: int, whole: Crowd) -> tuple[Crowd, ...]:
        if not name:
            return (whole,)
        return self._of.get(name) or Crowd(most, name), whole

    def _count(self, visit: Visit, crowds: tuple[Crowd, ...]) -> None:
        """In these from now on, and in no others."""
        for crowd in visit.crowds:
            crowd.waiting.pop(visit, None)
            crowd.count -= 1
            if crowd.name and not crowd.count:
                del self._of[crowd.name]
        for crowd in crowds:
            crowd.count += 1
            if crowd.name:
                self._of[crowd.name] = crowd
        visit.crowds = crowds

    def _make_place(self, crowds: tuple[Crowd, ...], patience_s: float = 0.0) -> bool:
        return all(self._has_place(crowd, crowds[0].name, patience_s) for crowd in crowds)

    def _has_place(self, crowd: Crowd, name: str, patience_s: float) -> bool:
        """If need be, in the place of those that we have waited for longest."""
        while crowd.count >= crowd.most:
            oldest, since_s = next(iter(crowd.waiting.items()), (None, 0.0))
            is_new = time.monotonic() - since_s < patience_s
            if oldest is not None and is_new and crowd.count < crowd.most + BURST:
                return True
            self._tell(name)
            if oldest is None:
                return False
            self.part(oldest)
            oldest.end()
        return True

    def _tell(self, name: str) -> None:
        """A line a minute at most, whatever they do."""
        self._cut += 1
        if time.monotonic() - self._told_s < TELL_EVERY_S:
            return
        log.warning(
            "no place for %d connections, lately of %s; the oldest that wait are ended",
            self._cut,
            name or "a proxy",
        )
        self._cut, self._told_s = 0, time.monotonic()


def _claimed(address: str) -> str:
    return f"claimed {address}"


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


def visit_of(scope: dict[str, Any]) -> Visit | None:
    """None: the server is another one."""
    return (scope.get("state") or {}).get(VISIT)


def said_who(scope: dict[str, Any], who: str, most: int = PER_PERSON) -> None:
    """This request was an agent's with its token, or that of somebody signed in: from now on its
    connection is one of the `most` that they may have. From any thread.
    """
    visit = visit_of(scope)
    if visit is None or visit.who == who:
        return
    visit.who = who
    if _runs_here(visit.loop):  # before others come, in whose eyes it would still be a stranger's
        visit.visitors.know(visit, who, most)
    else:
        visit.loop.call_soon_threadsafe(visit.visitors.know, visit, who, most)


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:  # a thread without one
        return False


def refused(scope: dict[str, Any]) -> None:
    """Its token is wrong, or not valid any more: whoever it was, the connection ends."""
    visit = visit_of(scope)
    if visit is not None:
        visit.is_refused = True


def sender_of(scope: dict[str, Any]) -> str:
    """Whom the bytes of a request are counted for: whose connection it is, or its address."""
    visit = visit_of(scope)
    if visit is not None and visit.who and visit.address:
        return visit.who
    return address_of(scope.get("client"))


def user_named(number: Any) -> str:
    return f"user {number}"


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
            said_who(getattr(request, "scope", {}), user_named(request.user.pk))
        return response

    return answer
