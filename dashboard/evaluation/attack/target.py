"""The system that is attacked, as its attackers see it, and what is counted of its answers."""

import http.client
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlencode

from assignment.wire import API_PREFIX
from dashboard.demo.tree import TreeFailed
from dashboard.evaluation.attack.mutations import Mutations
from dashboard.evaluation.attack.state import Held

HOST = "127.0.0.1"
LOGIN = "/login/"
TIMEOUT_S = 120.0  # a busy machine hashes a password for long
CSRF = "a" * 32  # whoever sends the cookie may choose it
READY = "/readyz"  # says so with 503, for worker and beat rest
NAMED_MAX = 20  # server errors
LOCKED_OUT = 429
FORM = "application/x-www-form-urlencoded"
FIELD = re.compile(r"<(?:input|select|textarea|button)\b[^>]*?\bname=\"([^\"]+)\"[^>]*>")
VALUE = re.compile(r"\bvalue=\"([^\"]*)\"")
TOKEN = re.compile(rb'id="token">(ek[tp]_[\w-]+)<')
NO_HEADERS: Mapping[str, str] = {}
LINKED = re.compile(r"[?&](?:amp;)?([a-z_]+)=")


@dataclass(frozen=True, slots=True)
class Found:
    """What a check shows, and what is wrong."""

    shown: str
    problems: list[str] = field(default_factory=list)


class NotJudged(RuntimeError):
    """The check could not show what it is for; the text says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int  # 0: none
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_harmless: bool = False  # it may change nothing, whatever the answer

    @property
    def may_change(self) -> bool:
        is_refused = self.status == 0 or self.status >= 400 or self.is_login
        return not is_refused and not self.is_harmless

    def that_changes_nothing(self) -> "Answer":
        return replace(self, is_harmless=True)

    @property
    def is_login(self) -> bool:
        """Whether it sends whoever asked to the login."""
        return self.status == 302 and self.headers.get("location", "").startswith(f"{LOGIN}?next=")


@dataclass(slots=True, kw_only=True)
class Target:
    """`state`: what must not change. `settled`: waits until nothing changes any more. `memory`:
    bytes of the web process. `tracebacks`: what each in its log ended with. `go_on`: raises what
    ends it all. `let_in`: ends lockouts, as who runs the machine can.
    """

    port: int
    group: str  # the attacker's
    other: str
    tokens: Mapping[str, str]
    login: tuple[str, str]
    dice: Random
    say: Callable[[str], None]
    state: Callable[[], Held]
    settled: Callable[[], Held]
    memory: Callable[[], int]
    tracebacks: Callable[[], list[str]]
    redis_url: str
    data: Path
    go_on: Callable[[], None]
    let_in: Callable[[], None]
    metrics_token: str = ""
    requests_a_route: int = 300
    requests: int = 0
    server_errors: list[str] = field(default_factory=list)
    connections: dict[str, http.client.HTTPConnection] = field(default_factory=dict)

    @property
    def mutations(self) -> Mutations:
        return Mutations(self.dice)

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        source: str = HOST,
    ) -> Answer:
        """Over a connection of that source address, which is kept."""
        self.go_on()
        self.requests += 1
        answer = self._ask(method, path, headers or {}, body, source)
        is_not_ready = answer.status == 503 and path.startswith(READY)
        if (answer.status == 0 or answer.status >= 500) and not is_not_ready:
            self.note_error(f"{method} {path[:100]}: {answer.status or 'no answer'}")
        return answer

    def note_error(self, what: str) -> None:
        self.server_errors.append(what)
        if len(self.server_errors) <= NAMED_MAX:
            self.say(f"server error: {what}")

    def _ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, source: str
    ) -> Answer:
        for is_new in (source not in self.connections, True):
            if is_new:
                self.forget(source)
                self.connections[source] = http.client.HTTPConnection(
                    HOST, self.port, timeout=TIMEOUT_S, source_address=(source, 0)
                )
            connection = self.connections[source]
            try:
                connection.request(method, path, body, dict(headers))
                found = connection.getresponse()
                read = found.read()
            except (OSError, http.client.HTTPException):
                self.forget(source)
                if is_new:
                    return Answer(0)
                continue  # a kept connection may have ended meanwhile
            told = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, told, read)
        raise AssertionError("the second connection is new")

    def forget(self, source: str) -> None:
        if (kept := self.connections.pop(source, None)) is not None:
            kept.close()

    def close(self) -> None:
        for source in tuple(self.connections):
            self.forget(source)

    # --- agents

    def post(self, group: str, verb: str, body: bytes, token: str | None, **more: Any) -> Answer:
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return self.ask("POST", f"{API_PREFIX}/{group}/{verb}", headers, body, **more)

    @property
    def bearer(self) -> Mapping[str, str]:
        """Of who reads the metrics."""
        return {"Authorization": f"Bearer {self.metrics_token}"}

    # --- people

    def ask_unknown(
        self, method: str, path: str, body: bytes | None = None, source: str = HOST
    ) -> Answer:
        """By somebody who is not signed in."""
        return self.ask(method, path, form_headers(""), body, source)

    def sign_in(self) -> "Person":
        """The operator, whom guesses at an own password may have locked out. Raises TreeFailed."""
        name, password = self.login
        body = urlencode({"username": name, "password": password}).encode()
        answer = self.ask("POST", LOGIN, form_headers(""), body)
        if answer.status == LOCKED_OUT:
            self.let_in()
            answer = self.ask("POST", LOGIN, form_headers(""), body)
        session = re.search(r"sessionid=(\w+)", answer.headers.get("set-cookie", ""))
        if answer.status != 302 or session is None:
            raise TreeFailed(f"the login of {name} answered {answer.status}")
        return Person(self, session[1])

    def raw(self, source: str = HOST) -> socket.socket:
        """A connection on which nothing was said."""
        return socket.create_connection((HOST, self.port), TIMEOUT_S, source_address=(source, 0))


@dataclass(slots=True)
class Person:
    """Somebody signed in."""

    target: Target
    session: str
    is_over: bool = False

    @property
    def cookie(self) -> str:
        return f"sessionid={self.session}; csrftoken={CSRF}"

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        more: Mapping[str, str] = NO_HEADERS,
    ) -> Answer:
        answer = self.target.ask(method, path, {**form_headers(self.session), **more}, body)
        self.is_over = answer.headers.get("location", "").startswith(LOGIN)
        return answer

    def sign_in_again(self) -> None:
        """If the last request ended the session."""
        if self.is_over:
            self.session, self.is_over = self.target.sign_in().session, False

    def fields(self, path: str) -> tuple[dict[str, list[str]], list[str]]:
        """Of the forms of a page: names with their values; then names in its links too."""
        self.sign_in_again()
        text = self.ask("GET", path).body.decode(errors="replace")
        found: dict[str, list[str]] = {}
        for match in FIELD.finditer(text):
            value = VALUE.search(match[0])
            found.setdefault(match[1], []).append(value[1] if value else "")
        found.pop("csrfmiddlewaretoken", None)
        return found, sorted({*LINKED.findall(text), *found})

    def new_token(self, group: str) -> str:
        """For agents of the group, made on its page. Raises NotJudged."""
        self.sign_in_again()
        body = urlencode({"do": "create", "name": "attack", "days": ""}).encode()
        answer = self.ask("POST", f"/groups/{group}/tokens/", body)
        made = TOKEN.search(answer.body)
        if made is None:
            raise NotJudged(f"the page of tokens made none: {answer.status}")
        return made[1].decode()


def form_headers(session: str) -> dict[str, str]:
    cookies = [f"csrftoken={CSRF}", *([f"sessionid={session}"] if session else [])]
    return {"Cookie": "; ".join(cookies), "X-CSRFToken": CSRF, "Content-Type": FORM}


def first(problems: Sequence[str], most: int = 3) -> str:
    """For a detail: the first few, and how many there are."""
    more = f" (and {len(problems) - most} more)" if len(problems) > most else ""
    return "; ".join(problems[:most]) + more
