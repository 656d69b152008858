"""How long a page waits for Redis: one deadline over all calls of a request, and a breaker that
spares the requests after it the same wait.

Whoever has no deadline (worker, beat, commands) waits for each call as long as the client does.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from django.http import HttpRequest, HttpResponse
from django.utils.decorators import sync_only_middleware

REQUEST_S = 2.0  # longer than the largest group takes to be read, shorter than people wait
OPEN_S = 1.0  # then one request tries whether the server is back
LEAST_S = 0.001  # of a timeout: zero would mean not to wait at all

_until: ContextVar[float | None] = ContextVar("until", default=None)  # monotonic


@contextmanager
def within() -> Iterator[None]:
    """What is asked of Redis in here, or in a function that it wraps, is answered or given up
    within REQUEST_S.
    """
    token = _until.set(time.monotonic() + REQUEST_S)
    try:
        yield
    finally:
        _until.reset(token)


def is_bounded() -> bool:
    return _until.get() is not None


def left_s(otherwise: float) -> float:
    """Until the deadline; `otherwise` where there is none."""
    until = _until.get()
    return otherwise if until is None else max(LEAST_S, until - time.monotonic())


@sync_only_middleware
def one_deadline(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    return within()(get_response)


class Breaker:
    """Open after a call that timed out; every OPEN_S one request is let through to try."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._try_at_s: float | None = None  # open; monotonic

    def lets_pass(self) -> bool:
        now_s = time.monotonic()
        with self._lock:
            if self._try_at_s is None:
                return True
            if now_s < self._try_at_s:
                return False
            self._try_at_s = now_s + OPEN_S
            return True

    def open(self) -> None:
        with self._lock:
            self._try_at_s = time.monotonic() + OPEN_S

    def close(self) -> None:
        self._try_at_s = None
