"""What is asked of the provider, within bounds of bytes and time; its documents are kept a while.

The provider is trusted to say who somebody is, not to answer soon or little: a page waits for it at
most ANSWER_S, whatever it sends, and only AT_ONCE requests of a process are under way.
"""

import io
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests

from assignment.bounds import printable, shown
from dashboard.single_sign_on.configuration import Configuration

ANSWER_S = 5.0  # of one request, from the first byte sent to the last one read
PIECE_S = 3.0  # to connect, and between two pieces
ANSWER_BYTES_MAX = 2**19  # the keys of a large provider are 20 KiB
PIECE_BYTES = 2**14
AT_ONCE = 8
KEEP_S = 600.0  # the provider's description and keys
RETRY_S = 5.0  # what failed is not asked again: strangers would make us ask at will

T = TypeVar("T")
log = logging.getLogger(__name__)
places = threading.BoundedSemaphore(AT_ONCE)


class Unreachable(Exception):
    """The provider, not who wants to log in, is to blame. A sentence."""


class Session(requests.Session):
    """Goes to the provider alone: follows no redirect, and gives the secret to no other way."""

    def __init__(self, configured: Configuration) -> None:
        super().__init__()
        self._configured = configured
        self.auth = _as_it_is  # else a .netrc would add its own
        self.headers["Accept-Encoding"] = "identity"  # so that bytes are what they seem

    def request(self, method: Any, url: Any, *args: Any, **kwargs: Any) -> requests.Response:
        """Raises Unreachable, also for an answer that says so: of 500 and above, and of 401."""
        if not self._configured.allows(url):
            raise Unreachable(f"{shown(url)} is not asked: it is neither HTTPS nor on this machine")
        host = urlsplit(url).hostname
        more = {**kwargs, "stream": True, "allow_redirects": False, "timeout": PIECE_S}
        call = partial(super().request, method, url, *args, **more)
        try:
            response = within(ANSWER_S, lambda: _whole(call()))
        except (TimeoutError, requests.Timeout):
            raise Unreachable(f"{host} did not answer in time") from None
        except (requests.RequestException, OSError, ValueError) as error:
            log.warning("single sign-on: %s", shown(printable(str(error))))
            raise Unreachable(f"{host} cannot be reached: {type(error).__name__}") from error
        if response.status_code >= 500:
            raise Unreachable(f"{host} failed: it answered {response.status_code}")
        if response.status_code == 401:
            raise Unreachable(f"{host} does not take the client id and secret of this dashboard")
        return response


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def within(seconds: float, call: Callable[[], T]) -> T:
    """What it returns or raises, or TimeoutError. It may go on longer: a header that comes byte by
    byte has no bound of time in any library; so few of them go on that it costs nothing.
    """
    until, mine = time.monotonic() + seconds, places
    if not mine.acquire(timeout=seconds):
        raise TimeoutError
    future: Future[T] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # raised again where it is waited for
            future.set_exception(error)
        finally:
            mine.release()

    threading.Thread(target=work, name="single sign-on", daemon=True).start()
    return future.result(max(0.0, until - time.monotonic()))


def _whole(response: requests.Response) -> requests.Response:
    """With its body read. Raises TimeoutError, ValueError."""
    until, size, pieces = time.monotonic() + ANSWER_S, 0, []
    with response:
        for piece in response.raw.stream(PIECE_BYTES, decode_content=False):
            pieces.append(piece)
            size += len(piece)
            if size > ANSWER_BYTES_MAX:
                raise ValueError(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
            if time.monotonic() > until:
                raise TimeoutError
    response.raw = io.BytesIO(b"".join(pieces))
    return response


class Documents:
    """JSON objects by address, kept by this process; what could not be had for RETRY_S."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # one asks, the others wait for what it gets
        self._kept: dict[str, tuple[float, dict[str, Any] | Unreachable]] = {}

    def get(
        self, configured: Configuration, url: str, *, younger_s: float = KEEP_S
    ) -> dict[str, Any]:
        """Raises Unreachable."""
        with self._lock:
            at_s, kept = self._kept.get(url, (0.0, None))
            life_s = RETRY_S if isinstance(kept, Unreachable) else younger_s
            if kept is None or time.monotonic() - at_s > life_s:
                kept = _document(configured, url)
                self._kept[url] = time.monotonic(), kept
        if isinstance(kept, Unreachable):
            raise kept
        return kept

    def forget(self) -> None:
        with self._lock:
            self._kept.clear()


def _document(configured: Configuration, url: str) -> dict[str, Any] | Unreachable:
    try:
        with Session(configured) as session:
            return read_object(session.get(url))
    except Unreachable as error:
        return error


def read_object(response: requests.Response) -> dict[str, Any]:
    """Raises Unreachable for what is no JSON object."""
    host = urlsplit(response.url).hostname
    if response.status_code != 200:
        raise Unreachable(f"{host} answered {response.status_code}")
    try:
        found = response.json()
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Unreachable(f"{host} answered something else than a JSON object")
    return found


documents = Documents()
