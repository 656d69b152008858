"""The dashboard as an agent sees it: join, heartbeat, leave over HTTP (coordination.md section 3).

`Dashboards` asks the first address that answers, and goes back to an earlier one (route.py).
`Courier` does the asking in a thread of its own, so that a slow dashboard never delays a renew.
Knows nothing of partitions or Redis.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import urllib3

from agent.addresses import trusting
from agent.dashboard_session.route import Route
from assignment.errors import EvenkeelError
from assignment.wire import API_PREFIX, Heartbeat, Join, Leave, Reply

CONNECT_S = 1.0
READ_S = 3.0  # far below a session; Redis is followed meanwhile
WAIT_MIN_S = 1.0  # for one of several addresses, however short the heartbeats are
RETRY_AFTER_MAX_S = 60  # whatever a dashboard says, or a proxy before it
REPLY_BYTES_MAX = 16 * 2**20  # a target of 100,000 partitions is some MiB


class DashboardAway(EvenkeelError):
    """No address answered, or the one that did cannot answer now: stay safe and try again, not
    before `retry_after_ms` where it asked for that.
    """

    def __init__(self, text: str, retry_after_ms: int = 0) -> None:
        super().__init__(text)
        self.retry_after_ms = retry_after_ms


class Refusal(EvenkeelError):
    """The dashboard answered and said no. Asking again the same way changes nothing."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


Request = Join | Heartbeat | Leave


VERBS: Mapping[type, str] = {Join: "join", Heartbeat: "heartbeat", Leave: "leave"}


class Dashboards:
    """All addresses of the dashboard, in order of preference. Used by one thread."""

    def __init__(
        self, urls: Sequence[str], group: str, token: Callable[[], str], ca_file: str = ""
    ) -> None:
        """`ca_file`: certificates of authorities to trust too; "" for none."""
        self._urls = tuple(urls)
        self._group = group
        self._token = token
        self._route = Route(addresses=len(self._urls))
        self._beat: Heartbeat | None = None  # that was answered last
        self._heartbeat_s = READ_S  # until the settings are told
        context = trusting(ca_file) if ca_file else None
        self._pool = urllib3.PoolManager(retries=False, maxsize=1, ssl_context=context)

    @property
    def current_url(self) -> str:
        return self._urls[self._route.current]

    def ask(self, request: Request) -> Reply:
        """Raises DashboardAway or Refusal."""
        failures: list[DashboardAway] = []
        for index in self._route.order:
            try:
                reply = self._ask_one(self._urls[index], request)
            except DashboardAway as error:
                failures.append(error)
            else:
                self._route = self._route.answered_by(index)
                self._note_settings(reply)
                self._beat = request if isinstance(request, Heartbeat) else None
                return reply
        asked = [one.retry_after_ms for one in failures if one.retry_after_ms]
        raise DashboardAway("; ".join(map(str, failures)), min(asked, default=0))

    def look_for_earlier(self) -> None:
        """After each beat: whether one before the current takes beats (again). It is told the very
        same one, which changes nothing: a process may live and its database not answer.
        """
        if (index := self._route.to_probe) is not None and self._beat is not None:
            self._route = self._route.probed(answers=self._takes(self._urls[index], self._beat))

    def _takes(self, url: str, beat: Heartbeat) -> bool:
        try:
            self._ask_one(url, beat)
        except (DashboardAway, Refusal):
            return False
        return True

    def _note_settings(self, reply: Reply) -> None:
        if reply.settings is not None:
            self._heartbeat_s = reply.settings.heartbeat_ms / 1_000

    def _timeout(self) -> urllib3.Timeout:
        """Where there is another one to ask, a heartbeat at most: with the pause before the request
        that finds it silent, the next one answers within two.
        """
        wait_s = CONNECT_S + READ_S
        if len(self._urls) > 1:
            wait_s = min(wait_s, max(WAIT_MIN_S, self._heartbeat_s))
        return urllib3.Timeout(connect=min(CONNECT_S, wait_s), total=wait_s)

    def _ask_one(self, url: str, request: Request) -> Reply:
        address = f"{url}{API_PREFIX}/{self._group}/{VERBS[type(request)]}"
        headers = {
            "authorization": f"Bearer {self._token()}",
            "content-type": "application/json",
        }
        try:
            response = self._pool.request(
                "POST",
                address,
                body=msgspec.json.encode(request),
                headers=headers,
                timeout=self._timeout(),
                redirect=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise DashboardAway(f"{url} does not answer: {error}") from error
        if response.status == 200:
            return _reply(url, response.data)
        raise _refused(url, response)


def _reply(url: str, body: bytes) -> Reply:
    if len(body) > REPLY_BYTES_MAX:
        raise DashboardAway(f"{url} answered more than {REPLY_BYTES_MAX} bytes")
    try:
        return msgspec.json.decode(body, type=Reply)
    except msgspec.DecodeError as error:
        raise DashboardAway(f"{url} answered what is no reply: {error}") from error


def _refused(url: str, response: urllib3.BaseHTTPResponse) -> EvenkeelError:
    status = response.status
    text = f"{url}: {_detail(response.data) or 'no reason given'} (HTTP {status})"
    if status in (408, 429) or status >= 500:
        return DashboardAway(text, _retry_after_ms(response.headers.get("retry-after", "")))
    return Refusal(status, text)


def _retry_after_ms(told: str) -> int:
    """Of seconds (RFC 9110 section 10.2.3); a date needs a clock that both have: as if not told."""
    is_number = told.isascii() and told.isdigit()
    return 1_000 * min(RETRY_AFTER_MAX_S, int(told[:9])) if is_number else 0


def _detail(body: bytes) -> str:
    """`title: detail` of a problem+json body (RFC 9457); "" when it is something else."""
    try:
        problem: Any = msgspec.json.decode(body)
        return f"{problem['title']}: {problem['detail']}"
    except (msgspec.DecodeError, KeyError, TypeError):
        return ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request: exactly one of reply and error is there."""

    request: Request
    reply: Reply | None
    error: DashboardAway | Refusal | None


class Courier:
    """Carries one request at a time; of those that wait for it only the newest is kept.

    `ask` raises DashboardAway or Refusal, as that of Dashboards. `after_beat` is called when the
    answer to a heartbeat has been delivered.
    """

    def __init__(
        self,
        ask: Callable[[Request], Reply],
        deliver: Callable[[Answer | BaseException], None],
        after_beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._ask_one = ask
        self._deliver = deliver
        self._after_beat = after_beat
        self._waiting: Request | None = None
        self._busy = False
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="courier", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send(self, request: Request) -> None:
        with self._changed:
            self._waiting = request
            self._changed.notify()

    @property
    def busy(self) -> bool:
        with self._changed:
            return self._busy or self._waiting is not None

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        try:
            while (request := self._next()) is not None:
                answer = self._ask(request)
                with self._changed:
                    self._busy = False
                self._deliver(answer)
                if isinstance(request, Heartbeat):
                    self._after_beat()
        except BaseException as error:  # a bug: the loop must hear of it and end
            self._deliver(error)

    def _next(self) -> Request | None:
        with self._changed:
            while self._waiting is None and not self._closed:
                self._changed.wait()
            request, self._waiting = self._waiting, None
            self._busy = request is not None
            return request

    def _ask(self, request: Request) -> Answer:
        try:
            return Answer(request, self._ask_one(request), None)
        except (DashboardAway, Refusal) as error:
            return Answer(request, None, error)
