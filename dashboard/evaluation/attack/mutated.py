"""Requests that are not quite right, many of them to every route: none may bring an error of the
server, and one that is refused may change nothing.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

import msgspec
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from assignment import wire
from assignment.troubles import Unserved, UnservedReason
from assignment.types import Partition, ReplicaReport, Role
from dashboard.actions.roles import BY_TOKEN
from dashboard.evaluation.attack import routes
from dashboard.evaluation.attack.state import changed
from dashboard.evaluation.attack.target import (
    HOST,
    TOKEN,
    Answer,
    Found,
    NotJudged,
    Person,
    Target,
)

TRIES, TRIES_LEAST = 8, 100  # requests for each that has to reach its handler; of a route
NOT_REACHED = (0, 400, 401, 403, 405, 413, 429)  # of people's pages
OF_A_MOMENT = ("group_map_bytes", "epoch_changes")  # without one they answer 400 themselves
NOT_REACHED_BY_AGENTS = (0, 401, 403, 404, 405)
SOCKET_TIMEOUT_S, SOCKET_QUIET_S = 10.0, 0.01
INTERNAL_ERROR = 1011
MEMBER, SECRET = "attacker-1", "0123456789abcdef"
FRAMES_MAX, HEARD_MAX = 3, 100
JOINS = 0.1  # so often somebody who left or was fenced joins anew: else nobody looks at his beats
OWN = "own"  # origin
Request = Callable[[], tuple[Answer, bool]]  # the answer, and whether it is the handler's
Make = Callable[[], Request]


def agents(target: Target) -> Found:
    """Messages of a token's holder about the group of the token."""
    known, problems = messages(target.group), list[str]()
    if unknown := set(routes.verbs()) - known.keys():
        raise NotJudged(f"no good message is known for {', '.join(sorted(unknown))}")
    token = target.sign_in().new_token(target.group)  # a mutated form may have revoked the first
    for verb in routes.verbs():

        def make(verb: str = verb) -> Request:
            if target.dice.random() < JOINS:
                target.post(target.group, "join", good(target.group, "join"), token)
                target.settled()
            body = target.mutations.message(known[verb]())
            return lambda: _reached(
                target.post(target.group, verb, body, token), NOT_REACHED_BY_AGENTS
            )

        problems += of_route(target, f"agents' {verb}", make)
    return Found(shown(target, len(routes.verbs())), problems)


def good(group: str, verb: str) -> bytes:
    """A message that is accepted."""
    return json.dumps(messages(group)[verb]()).encode()


def messages(group: str) -> Mapping[str, Callable[[], Any]]:
    """Good ones, with all that they can carry."""
    numbers = count(1)
    first, second, third = (str(Partition(group, number)) for number in range(3))

    def heartbeat() -> Any:
        number = next(numbers)
        beat = wire.Heartbeat(
            member=MEMBER,
            secret=SECRET,
            sequence=number,
            report=number,
            complete=number % 3 > 0,
            owned={first: "4294967297 running"},
            able=True,
            consumer=wire.ConsumerHealth(state="ready", rows_per_second=1.5),
            replicas={second: ReplicaReport(role=Role.STANDBY, lag=5, percent=9.5)},
            ready=(second,),
            unserved={third: Unserved(reason=UnservedReason.RESTORE, left_ms=5, why="full")},
        )
        return msgspec.to_builtins(beat)

    join = wire.Join(member=MEMBER, secret=SECRET, host="host", version="1", zone="z", pid=7)
    leave = wire.Leave(member=MEMBER, secret=SECRET)
    return {
        "join": lambda: msgspec.to_builtins(join),
        "heartbeat": heartbeat,
        "leave": lambda: msgspec.to_builtins(leave),
    }


def pages(target: Target) -> Found:
    """Addresses, queries and forms of somebody who is signed in and may do everything."""
    person, problems, found = target.sign_in(), [], routes.pages()
    for page in found:
        make = _logins(target, page) if page.name == "login" else _of_page(target, person, page)
        problems += of_route(target, f"page {page.name}", make)
    return Found(shown(target, len(found)), problems)


def _of_page(target: Target, person: Person, page: routes.Page) -> Make:
    fields, names = person.fields(page.good_path(target.group))
    more = target.bearer if page.name in BY_TOKEN else {}

    def make() -> Request:
        person.sign_in_again()
        of = target.mutations
        method = of.method()
        good = {name: of.dice.choice(values) for name, values in fields.items()}
        path = page.path(target.group, of) + of.query(names, list(good.values()))
        body = of.form(good) if method == "POST" else None

        def ask() -> tuple[Answer, bool]:
            answer = person.ask(method, path, body, more)
            has_refused = answer.status == 400 and page.name in OF_A_MOMENT
            return _reached(of_form(method, answer), () if has_refused else NOT_REACHED)

        return ask

    return make


def of_form(method: str, answer: Answer) -> Answer:
    """What is only seen may change nothing, and neither may a form that is shown again, with what
    is wrong in it; a new token is shown too, by the very answer.
    """
    is_shown_again = answer.status == 200 and not TOKEN.search(answer.body)
    return answer.that_changes_nothing() if method != "POST" or is_shown_again else answer


def _logins(target: Target, page: routes.Page) -> Make:
    """Everybody's, so from ever other addresses: one that guesses is locked out soon."""
    numbers = count(1)

    def make() -> Request:
        of, number = target.mutations, next(numbers)
        method = of.method()
        path = page.path(target.group, of) + of.query(["next"], ["/"])
        body = of.form({"username": f"nobody{number}", "password": "wrong", "next": "/"})
        source = f"127.1.{number // 250}.{number % 250 + 1}"

        def ask() -> tuple[Answer, bool]:
            answer = target.ask_unknown(method, path, body if method == "POST" else None, source)
            target.forget(source)
            return _reached(answer.that_changes_nothing(), NOT_REACHED)

        return ask

    return make


def sockets(target: Target) -> Found:
    """Paths and frames of a browser whose user is signed in."""
    person, problems = target.sign_in(), []
    for route in routes.sockets():

        def make(route: str = route) -> Request:
            path = routes.socket_path(route, target.group, target.mutations)
            said = [target.mutations.frame() for _ in range(target.dice.randrange(FRAMES_MAX + 1))]

            def ask() -> tuple[Answer, bool]:
                answer = Answer(talk(target, path, person.cookie, said))
                return _reached(answer.that_changes_nothing(), (0,))

            return ask

        problems += of_route(target, f"socket {route or 'of another path'}", make)
    return Found(shown(target, len(routes.sockets())), problems)


def of_route(target: Target, name: str, make: Make) -> list[str]:
    """What is wrong after so many requests that reached the handler. Raises NotJudged."""
    reached, problems = 0, []
    for _ in range(max(TRIES * target.requests_a_route, TRIES_LEAST)):
        request = make()
        before = target.state()
        answer, has_reached = request()
        reached += has_reached
        if answer.may_change:
            target.settled()
        elif what := changed(before, target.state()):
            problems.append(f"{name} answered {answer.status} and changed {what}")
        if reached >= target.requests_a_route:
            return problems
    raise NotJudged(f"{name}: {reached} of {target.requests_a_route} requests reached it")


def _reached(answer: Answer, not_reached: tuple[int, ...]) -> tuple[Answer, bool]:
    return answer, answer.status not in not_reached and not answer.is_login


def shown(target: Target, number: int) -> str:
    return f"{number} routes, each reached by {target.requests_a_route} requests"


# --- sockets


def talk(target: Target, path: str, cookie: str, said: list[bytes | str]) -> int:
    """The status with which a socket answered its opening; 101: it was opened, 0: no answer."""
    target.go_on()
    target.requests += 1
    try:
        with open_socket(target, path, cookie) as opened:
            code = _say(opened, said)
        if code == INTERNAL_ERROR:
            target.note_error(f"socket {path[:100]}: closed with {code}")
        return 101
    except InvalidStatus as error:
        status = error.response.status_code
        if status >= 500:
            target.note_error(f"socket {path[:100]}: {status}")
        return status
    except (OSError, WebSocketException) as error:
        target.note_error(f"socket {path[:100]}: {type(error).__name__}: {error}")
        return 0


def open_socket(
    target: Target, path: str, cookie: str, origin: str | None = OWN
) -> ClientConnection:
    """`origin` None: without one. Raises what `connect` does."""
    return connect(
        f"ws://{HOST}:{target.port}{path}",
        origin=f"http://{HOST}:{target.port}" if origin == OWN else origin,  # type: ignore[arg-type]
        additional_headers={"Cookie": cookie},
        open_timeout=SOCKET_TIMEOUT_S,
        close_timeout=SOCKET_TIMEOUT_S,
        ping_interval=None,
        max_size=None,
        proxy=None,
    )


def _say(opened: ClientConnection, said: list[bytes | str]) -> int | None:
    """The code with which it ended. Raises TimeoutError when the server says not a word.

    Who closes first says the code, so the server has its say before: a hello, or why it ends.
    """
    with suppress(ConnectionClosed):
        for one in said:
            if isinstance(one, str):  # as it is, also where it is no UTF-8
                opened.send(one.encode(errors="surrogatepass"), text=True)
            else:
                opened.send(one)
    with suppress(ConnectionClosed):
        opened.recv(SOCKET_TIMEOUT_S)
        with suppress(TimeoutError):
            for _ in range(HEARD_MAX):
                opened.recv(SOCKET_QUIET_S)
    opened.close()
    return opened.close_code
