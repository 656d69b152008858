"""Who has no right to it: each address without a token or a login, with somebody else's, or sent
from another site. Everything is refused, and changes nothing.
"""

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidStatus

from assignment.wire import API_PREFIX
from dashboard.actions.roles import BY_TOKEN, PUBLIC
from dashboard.evaluation.attack import routes
from dashboard.evaluation.attack.mutated import good, open_socket
from dashboard.evaluation.attack.state import changed
from dashboard.evaluation.attack.target import HOST, Answer, Found, Target, form_headers

NO_RIGHT = 4403  # with which a socket closes
CLOSED_WITHIN_S = 1.0  # after it was opened
FOREIGN = ("http://evil.example", "https://evil.example:8000", "http://127.0.0.1.evil.example")
TRANSFER_MAX = 1_024


def tokens(target: Target) -> Found:
    """Agents' routes with no token, wrong ones, and that of another group."""
    other = target.tokens[target.other]
    shown = {
        "no token": None,
        "an empty one": "",
        "a wrong one": other[:-1] + "?",
        "another's": other,
    }
    problems = list[str]()
    for verb in routes.verbs():
        body = good(target.group, verb)
        for what, token in shown.items():
            before = target.state()
            answer = target.post(target.group, verb, body, token)
            problems += refusal(target, f"{verb} with {what}", answer, before, (401, 403))
    return Found(f"{len(routes.verbs()) * len(shown)} attempts", problems)


def strangers(target: Target) -> Found:
    """Every page by somebody who is not signed in, seen and sent."""
    closed = [page for page in routes.pages() if page.name not in PUBLIC]
    problems = list[str]()
    for page in closed:
        for method, body in (("GET", None), ("POST", b"reason=x&do=revoke")):
            before = target.state()
            answer = target.ask_unknown(method, page.good_path(target.group), body)
            name = f"{method} of page {page.name}"
            problems += refusal(target, name, answer, before, (401, 403, 404, 405))
    return Found(f"{len(closed)} pages", problems)


def readers(target: Target) -> Found:
    """Addresses that ask for a token of their own: without it, with wrong ones, and by somebody who
    is signed in.
    """
    person, right = target.sign_in(), target.metrics_token
    shown = {
        "no token": {},
        "an empty one": {"Authorization": "Bearer "},
        "a wrong one": {"Authorization": f"Bearer {right[:-1]}?"},
        "an agent's": {"Authorization": f"Bearer {target.tokens[target.group]}"},
        "a login": form_headers(person.session),
        "another scheme": {"Authorization": f"Basic {right}"},
    }
    paths = [p.good_path(target.group) for p in routes.pages() if p.name in BY_TOKEN]
    problems = list[str]()
    for path in paths:
        for what, headers in shown.items():
            before = target.state()
            answer = target.ask("GET", path, headers)
            problems += refusal(target, f"{path} with {what}", answer, before, (401,))
    return Found(f"{len(paths) * len(shown)} attempts", problems)


def forgeries(target: Target) -> Found:
    """Every page sent by somebody signed in, from a form that is not ours."""
    person, problems, found = target.sign_in(), list[str](), routes.pages()
    for page in found:
        headers = form_headers(person.session) | {"X-CSRFToken": "b" * 32}
        before = target.state()
        path = page.good_path(target.group)
        answer = target.ask("POST", path, headers, b"reason=x&do=revoke")
        problems += refusal(target, f"page {page.name}", answer, before, (403, 405))
    return Found(f"{len(found)} pages", problems)


def origins(target: Target) -> Found:
    """Every socket, opened by a page of another site in the browser of somebody signed in."""
    cookie, problems = target.sign_in().cookie, []
    near = (f"https://{HOST}:{target.port}", f"http://{HOST}:{target.port + 1}", f"http://{HOST}")
    foreign = (None, "null", *near, *FOREIGN)
    for route in routes.sockets():
        path = routes.socket_path(route, target.group)
        for origin in foreign:
            if status := _opened(target, path, cookie, origin):
                problems.append(f"{path} was opened by {origin} with {status}")
    return Found(f"{len(routes.sockets())} sockets, {len(foreign)} origins", problems)


def sockets(target: Target) -> Found:
    """Every socket, opened by somebody who is not signed in."""
    problems = []
    for route in routes.sockets():
        path = routes.socket_path(route, target.group)
        if status := _opened(target, path, "", "own"):
            problems.append(f"{path} was opened with {status}")
    return Found(f"{len(routes.sockets())} sockets", problems)


def _opened(target: Target, path: str, cookie: str, origin: str | None) -> str:
    """What was let through; "" when it was refused."""
    target.requests += 1
    try:
        with open_socket(target, path, cookie, origin) as opened:
            try:
                return f"a frame of {len(opened.recv(timeout=CLOSED_WITHIN_S))} bytes"
            except TimeoutError:
                return "no close"
            except ConnectionClosed as error:
                code = error.rcvd.code if error.rcvd else 0
                return "" if code == NO_RIGHT else f"code {code}"
    except InvalidStatus as error:
        status = error.response.status_code
        return "" if status in (400, 403, 404) else f"status {status}"


def hosts(target: Target) -> Found:
    """A page, and an agents' route, under a name that is not the system's, as a rebound address has
    it.
    """
    problems = []
    for host in ("evil.example", "127.0.0.1.evil.example", "", "a b"):
        for method, path in (("GET", "/login/"), ("POST", f"{API_PREFIX}/{target.group}/join")):
            answer = target.ask(method, path, {"Host": host})
            if answer.status != 400:
                problems.append(f"{path} of host {host!r} was answered {answer.status}")
    return Found("4 names, 2 addresses", problems)


def redis(target: Target) -> Found:
    """Redis, by a process of this machine that knows no password."""
    address, problems = urlsplit(target.redis_url), []
    for command in (b"PING", b"KEYS *", b"CONFIG GET *", b"AUTH wrong", b"INFO"):
        with socket.create_connection((HOST, address.port or 0), 10) as connection:
            connection.sendall(command + b"\r\n")
            said = connection.recv(TRANSFER_MAX)
        if not said.startswith((b"-NOAUTH", b"-WRONGPASS")):
            problems.append(f"{command.decode()} was answered {said[:50]!r}")
    return Found("5 commands", problems)


def refusal(
    target: Target, name: str, answer: Answer, before: object, right: tuple[int, ...]
) -> Iterator[str]:
    """What is wrong with it."""
    if answer.status not in right and not answer.is_login:
        yield f"{name} was answered {answer.status}"
    if what := changed(before, target.state()):  # type: ignore[arg-type]
        yield f"{name} changed {what}"
