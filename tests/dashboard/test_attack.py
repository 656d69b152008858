"""Each check of attack_check, against a system that holds and against one that does not."""

import json
import random
import re
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pytest
import uvicorn
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import override_settings
from django.urls import get_resolver, path, resolve
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from websockets.datastructures import Headers
from websockets.http11 import Response
from websockets.sync.server import serve

from assignment.rights import Server, agent_rules, login_of
from assignment.wire import GroupKeys
from dashboard.demo.embedded_redis import EmbeddedRedis, wheel_binary
from dashboard.evaluation.attack import floods, insiders, mutated, mutations, refused, routes, run
from dashboard.evaluation.attack.mutations import Mutations
from dashboard.evaluation.attack.routes import Page
from dashboard.evaluation.attack.state import Witness, changed
from dashboard.evaluation.attack.target import Answer, Found, NotJudged, Person, Target
from dashboard.live.connection import client_of
from dashboard.management.commands import attack_check
from dashboard.web.protocols import Awaited, HttpProtocol
from dashboard.web.visitors import VISIT, Visitors, said_who
from tests.dashboard.people import logged_in

TRACEBACK = """Traceback (most recent call last):
  File "a.py", line 1, in a
    b()
OverflowError: too large
"""
LOGIN = {"Location": "/login/?next=/"}
urlpatterns = [path("a-new-one/<int:number>/", lambda request, number: HttpResponse(), name="new")]


class Somebody(Person):
    __slots__ = ()

    def new_token(self, group: str) -> str:
        return "ekt_a"


class SignedIn(Target):
    __slots__ = ()

    def sign_in(self) -> Person:
        return Somebody(self, "session")


def target_at(port: int, **more: Any) -> SignedIn:
    held: dict[str, bytes] = {}
    values: dict[str, Any] = {
        "port": port,
        "group": "attacked",
        "other": "other",
        "tokens": {"attacked": "ekt_a", "other": "ekt_b"},
        "metrics_token": "m" * 32,
        "login": ("operator", "password"),
        "dice": random.Random(7),
        "say": lambda line: None,
        "state": lambda: dict(held),
        "settled": lambda: dict(held),
        "memory": lambda: 0,
        "tracebacks": list,
        "redis_url": f"redis://127.0.0.1:{port}/0",
        "data": Path(),
        "go_on": lambda: None,
        "let_in": lambda: None,
        "requests_a_route": 2,
    }
    return SignedIn(**(values | more))


@contextmanager
def answering(status: int, headers: dict[str, str] | None = None, **more: Any) -> Iterator[Target]:
    """A system that answers everything like this; with `changes` each request changes it."""
    held: dict[str, bytes] = {}
    changes, body = more.pop("changes", False), more.pop("body", b"")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if changes:
                held["key a"] = str(len(held) + int(held.get("key a", b"0"))).encode()
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_POST = do_HEAD = answer

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        state = {"state": lambda: dict(held), "settled": lambda: dict(held)}
        target = target_at(server.server_address[1], **(state | more))
        try:
            yield target
        finally:
            target.close()
            server.shutdown()


# --- who has no right

REFUSALS = [
    (refused.tokens, 401, None, 200),
    (refused.strangers, 302, LOGIN, 200),
    (refused.readers, 401, None, 200),
    (refused.forgeries, 403, None, 302),
    (refused.hosts, 400, None, 200),
]


@pytest.mark.parametrize(("check", "right", "headers", "wrong"), REFUSALS)
def test_who_has_no_right_is_refused_or_it_is_found(
    check: run.Check, right: int, headers: dict[str, str] | None, wrong: int
) -> None:
    with answering(right, headers) as target:
        assert check(target).problems == []
        assert target.requests > 3
    with answering(wrong) as target:
        assert f"was answered {wrong}" in check(target).problems[0]


@pytest.mark.parametrize(("check", "right", "headers", "wrong"), REFUSALS[:4])
def test_refusal_that_changes_something_is_found(
    check: run.Check, right: int, headers: dict[str, str] | None, wrong: int
) -> None:
    with answering(right, headers, changes=True) as target:
        assert check(target).problems[0].endswith("changed key a")


@contextmanager
def sockets_that(answer: Callable[[Any, Any], Response | None], code: int) -> Iterator[Target]:
    def handler(opened: Any) -> None:
        if code:
            opened.close(code)
        else:
            opened.recv()

    with serve(handler, "127.0.0.1", 0, process_request=answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield target_at(server.socket.getsockname()[1])
        server.shutdown()


def rejected(*_: Any) -> Response:
    return Response(403, "Forbidden", Headers({"Content-Length": "0"}), b"")


def let_in(*_: Any) -> None:
    return None


def test_sockets_are_closed_to_strangers_and_other_sites_or_it_is_found() -> None:
    with sockets_that(rejected, 0) as target:
        assert refused.origins(target).problems == []
        assert refused.sockets(target).problems == []
    with sockets_that(let_in, 4403) as target:
        assert refused.sockets(target).problems == []
    for code, said in ((0, "no close"), (1000, "code 1000")):
        with sockets_that(let_in, code) as target:
            assert said in refused.sockets(target).problems[0]
            assert len(refused.origins(target).problems) >= 5


@pytest.mark.parametrize(
    ("said", "problems"), [(b"-NOAUTH Authentication required.\r\n", 0), (b"+PONG\r\n", 5)]
)
def test_redis_asks_for_a_password_or_it_is_found(said: bytes, problems: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve_all() -> None:
            for _ in range(5):
                connection, _ = server.accept()
                with connection:
                    connection.recv(100)
                    connection.sendall(said)

        threading.Thread(target=serve_all, daemon=True).start()
        assert len(refused.redis(target_at(server.getsockname()[1])).problems) == problems


# --- insiders


def test_a_revoked_token_that_is_still_taken_is_found() -> None:
    with answering(200, body=b'<tr data-token="3"><tr data-token="12">') as target:
        assert insiders.revoked(target).problems == ["200, and after a second it was answered 200"]
    with answering(401) as target, pytest.raises(NotJudged, match="was not taken"):
        insiders.revoked(target)


@pytest.fixture
def shared_redis(tmp_path: Path) -> Iterator[Target]:
    """A Redis of its own with two groups, and a user of the first one's token whose rules a test
    sets.
    """
    server = EmbeddedRedis(tmp_path, binary=wheel_binary())
    server.start()
    witness = Witness(server.url, Path(":memory:"))
    target = target_at(
        urlsplit(server.url).port or 0,
        redis_url=server.url,
        state=lambda: witness._of("redis", object(), witness._keys),
    )
    with client_of(server.url) as client:
        for name in (target.group, target.other):
            client.hset(GroupKeys(name).meta, "a", "b")
    yield target
    witness.close()
    server.stop()


def admit(target: Target, *rules: str) -> None:
    name, token = login_of(target.tokens[target.group])
    with client_of(target.redis_url) as client:
        client.execute_command("ACL", "SETUSER", name, "reset", "on", f">{token}", *rules)


def test_a_tokens_user_that_reaches_other_keys_or_commands_is_found(shared_redis: Target) -> None:
    own = agent_rules(Server(reads_only=True), shared_redis.group, shared_redis.group)
    admit(shared_redis, *own)
    assert insiders.redis_user(shared_redis).problems == []
    admit(shared_redis, *own, "%R~*")
    other = GroupKeys(shared_redis.other).meta
    assert f"HGETALL {other} was done" in insiders.redis_user(shared_redis).problems
    admit(shared_redis, *own, "+config|get", "+keys")
    found = insiders.redis_user(shared_redis).problems
    assert {"CONFIG GET * was done", "KEYS * was done"} <= set(found)
    admit(shared_redis, *own, "~*", "+del")
    assert any(
        problem.startswith("changed key") for problem in insiders.redis_user(shared_redis).problems
    )


def test_a_tokens_user_that_is_not_there_shows_nothing(shared_redis: Target) -> None:
    with pytest.raises(NotJudged, match="was answered"):
        insiders.redis_user(shared_redis)


def test_files_that_are_open_to_another_user_are_found(tmp_path: Path) -> None:
    folder, file = tmp_path / "data", tmp_path / "data" / "secret_key"
    folder.mkdir(mode=0o700)
    file.touch(0o600)
    target = target_at(1, data=folder)
    assert insiders.other_user(target).problems == []
    file.chmod(0o640)
    assert insiders.other_user(target).problems == ["secret_key is open to other users"]
    file.chmod(0o600)
    folder.chmod(0o711)
    assert "data is open to other users" in insiders.other_user(target).problems


# --- strangers


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Reads bodies whole, as Django does; agents are known."""
    more = True
    while more:
        message = await receive()
        more = message.get("more_body", False)
    if scope["path"].startswith("/api/"):
        said_who(scope, "token 1", 1_000)
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]}
    )
    await send({"type": "http.response.body", "body": b""})


async def forgetful(scope: Any, receive: Any, send: Any) -> None:
    """Knows nobody."""
    scope["state"].pop(VISIT, None)
    await application(scope, receive, send)


@contextmanager
def serving(protocol: type[Any], app: Any = application) -> Iterator[Target]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, http=protocol, lifespan="off", log_level="critical")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        target = target_at(listening.getsockname()[1])
        try:
            yield target
        finally:
            target.close()
            server.should_exit = server.force_exit = True
            thread.join()


def bounded() -> type[HttpProtocol]:
    return type("Bounded", (HttpProtocol,), {"visitors": Visitors()})


def test_too_much_is_cut_off_or_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = [(what, start, 20 * 2**20) for what, start, _ in floods.STARTS[:2]]
    monkeypatch.setattr(floods, "STARTS", headers)
    with serving(bounded()) as target:
        assert floods.too_much(target).problems == []
    with serving(HttpToolsProtocol) as target:
        assert [p.split(":")[0] for p in floods.too_much(target).problems] == [
            "a header",
            "an address",
        ]
    grown = iter((0, 2**30))
    monkeypatch.setattr(floods, "STARTS", [])
    problems = floods.too_much(target_at(1, memory=lambda: next(grown))).problems
    assert problems == [f"the web process has grown by {2**30} bytes"]


def test_half_sent_requests_give_way_or_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HttpProtocol.seconds, Awaited.HEADER, 2.0)
    monkeypatch.setattr(floods, "PATIENCE_S", 0.6)
    monkeypatch.setattr(floods, "HALF_SENT", 120)
    monkeypatch.setattr(floods, "SLOW_S", 60.0)
    quick = type("Quick", (HttpProtocol,), {"visitors": Visitors(patience_s=0.2)})
    with serving(quick) as target:
        assert floods.half_sent(target).problems == []
    with serving(HttpToolsProtocol) as target:
        first, second = floods.half_sent(target).problems
        assert first.startswith("120 of 120 stayed")
        assert second == "60 of 60 half headers stayed"
    monkeypatch.setattr(floods, "SLOW_S", 0.0)
    with serving(quick) as target:
        assert "were answered 200 and 200 after" in floods.half_sent(target).problems[0]


def test_agents_that_are_cut_off_as_strangers_are_found() -> None:
    with serving(bounded()) as target:
        assert floods.known_agents(target).problems == []
    hasty = type("Hasty", (HttpProtocol,), {"visitors": Visitors(patience_s=0.0)})
    with serving(hasty, forgetful) as target:
        assert re.search("were cut off|were refused", "".join(floods.known_agents(target).problems))


# --- mutated requests


def test_mutated_requests_that_change_something_though_refused_are_found() -> None:
    for check in (mutated.pages, mutated.agents):
        with answering(422) as target:
            assert check(target).problems == []
            assert target.requests >= 2 * len(routes.verbs())
        with answering(422, changes=True) as target:
            assert check(target).problems[0].endswith("answered 422 and changed key a")


def test_a_page_that_is_only_seen_may_change_nothing() -> None:
    with answering(200, changes=True) as target:
        assert "answered 200 and changed key a" in mutated.pages(target).problems[0]


def test_somebody_who_was_logged_out_signs_in_again() -> None:
    with answering(302, {"Location": "/login/"}) as target:
        person = target.sign_in()
        person.session = "old"
        assert person.ask("POST", "/logout/").may_change
        person.sign_in_again()
        assert (person.session, person.is_over) == ("session", False)


def test_forms_are_read_with_all_that_they_send() -> None:
    page = b"""<input type="hidden" name="csrfmiddlewaretoken" value="x">
      <input name="token" value="5"><button name="do" value="rotate">Rotate</button>
      <button class="a" name="do" value="revoke">Revoke</button><textarea name="why"></textarea>
      <a href="?page=2&amp;sort=name"><pre class="wrap" id="token">ekt_x-Y_1</pre>"""
    with answering(200, body=page) as target:
        person = Person(target, "session")
        fields, names = person.fields("/")
        assert fields == {"token": ["5"], "do": ["rotate", "revoke"], "why": [""]}
        assert names == ["do", "page", "sort", "token", "why"]
        assert person.new_token("g") == "ekt_x-Y_1"
    with answering(200) as target, pytest.raises(NotJudged, match="made none: 200"):
        Person(target, "session").new_token("g")


def test_requests_that_never_reach_their_handler_show_nothing() -> None:
    for check in (mutated.pages, mutated.agents):
        with answering(403) as target, pytest.raises(NotJudged, match="0 of 2 requests reached"):
            check(target)


def test_errors_of_the_server_are_found_in_whatever_check() -> None:
    with answering(500) as target:
        one = run.judge("mutated_agents", mutated.agents, target)
        assert (one.held, "server errors: POST /api/" in one.detail) == (False, True)
        assert len(target.server_errors) >= 6
    log = iter(("", f"INFO: a\n{TRACEBACK}INFO: b\n{TRACEBACK}"))
    target = target_at(1, tracebacks=lambda: run.ends_of_tracebacks(next(log)))
    one = run.judge("any", lambda _: Found("all"), target)
    assert (one.held, len(target.server_errors)) == (False, 2)
    assert "OverflowError: too large" in one.detail
    silent = target_at(1)
    assert not run.judge("any", refused.hosts, silent).held
    assert silent.server_errors[0].endswith("no answer")


def test_sockets_that_break_are_found() -> None:
    with sockets_that(let_in, 1000) as target:
        assert mutated.sockets(target).problems == []
        assert target.server_errors == []
    with sockets_that(let_in, 1011) as target:
        assert not run.judge("mutated_sockets", mutated.sockets, target).held
    counted = iter(range(1_000))
    with sockets_that(let_in, 1000) as target:
        target.state = lambda: {"key a": str(next(counted)).encode()}
        assert mutated.sockets(target).problems[0].endswith("changed key a")


def test_the_same_seed_makes_the_same_requests() -> None:
    def made(seed: int) -> list[Any]:
        of = Mutations(random.Random(seed))
        good = mutated.messages("g")["heartbeat"]()
        forms = [of.form({"a": "1", "b": "2"}) for _ in range(20)]
        return [of.message(good) for _ in range(50)] + forms + [of.query(["a"], ["1"]), of.frame()]

    assert made(1) == made(1) != made(2)
    documents = [m for m in made(3)[:50] if _is_object(m)]
    assert 10 < len(documents) < 50, "some are JSON, some are not"
    assert len(set(made(3)[:50])) > 45


@pytest.mark.django_db
def test_requests_aim_at_what_is_read_by_a_rule_of_its_own() -> None:
    """So many as a route is sent reach each of them."""
    of = Mutations(random.Random(1))
    asked = [of.query(["actor", "from", "to", "object", "group", "result"], []) for _ in range(300)]
    for moment in mutations.MOMENTS:
        assert any(f"from={quote(moment, safe='')}" in one for one in asked), moment
    boss = User.objects.create_superuser("boss")
    client = logged_in(boss, raise_request_exception=False)
    found = [one for one in asked if client.get(f"/audit/{one}").status_code >= 500]
    assert found == []
    good = {"strategy": "", "strategy_parameters": "", "reason": ""}
    forms = [of.form(good) for _ in range(300)]
    for text in mutations.PARAMETERS:
        aimed = f"strategy=config&strategy_parameters={quote(text, safe='')}&reason=x"
        assert any(aimed.encode() in one for one in forms), text


def _is_object(message: bytes) -> bool:
    try:
        return isinstance(json.loads(message), dict)
    except (ValueError, RecursionError):
        return False


def test_every_route_is_attacked() -> None:
    known = {name for name in get_resolver().reverse_dict if isinstance(name, str)}
    assert {page.name for page in routes.pages()} == known
    assert set(routes.verbs()) == mutated.messages("g").keys()
    assert "ws/group/<str:name>/" in routes.sockets()
    with override_settings(ROOT_URLCONF=__name__):
        assert routes.pages() == [Page("new", {"number": "int"})]


def test_mutated_addresses_stay_those_of_their_page() -> None:
    of = Mutations(random.Random(1))
    for page in routes.pages():
        for _ in range(20):
            assert resolve(unquote(page.path("g", of))).url_name == page.name
    made = {routes.socket_path("ws/group/<str:name>/", "g", of) for _ in range(50)}
    assert len(made) > 5
    assert all(re.fullmatch(r"/ws/group/[^/]+/", unquote(one), re.DOTALL) for one in made)


def test_a_new_verb_without_a_good_message_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routes, "verbs", lambda: ["join", "vote"])
    with pytest.raises(NotJudged, match="no good message is known for vote"):
        mutated.agents(target_at(1))


# --- what must not change


def test_what_redis_and_the_database_hold_is_compared(
    own_redis: EmbeddedRedis, tmp_path: Path
) -> None:
    database = sqlite3.connect(tmp_path / "db.sqlite3")
    database.executescript(
        """
        PRAGMA journal_mode=WAL;
        CREATE TABLE dashboard_group (name TEXT);
        CREATE TABLE dashboard_agenttoken (name TEXT, last_used_at TEXT);
        CREATE TABLE dashboard_auditentry (action TEXT);
        CREATE TABLE axes_accessattempt (username TEXT);
        INSERT INTO dashboard_agenttoken VALUES ('a', 'now');
        """
    )
    redis = client_of(own_redis.url)
    witness = Witness(own_redis.url, tmp_path / "db.sqlite3")

    def change(act: Callable[[], object]) -> str:
        before = witness.look()
        act()
        database.commit()
        return changed(before, witness.look())

    sql = database.execute
    assert change(lambda: None) == ""
    assert change(lambda: redis.hset("ek:{g}:meta", "a", 1)) == "key ek:{g}:meta"
    assert change(lambda: redis.hset("ek:{g}:meta", "a", 2)) == "key ek:{g}:meta"
    assert change(lambda: redis.hset("ek:{g}:meta", "joins", "1 2")) == ""
    assert change(lambda: redis.delete("ek:{g}:meta")) == "key ek:{g}:meta"
    assert change(lambda: redis.set("ek:{g}:rate:1:5", 1)) == ""
    assert change(lambda: redis.set("ek:readyz", 1)) == ""
    assert (
        change(lambda: sql("INSERT INTO dashboard_group VALUES ('g')")) == "table dashboard_group"
    )
    assert change(lambda: sql("UPDATE dashboard_group SET name = 'h'")) == "table dashboard_group"
    token = "table dashboard_agenttoken"
    assert change(lambda: sql("UPDATE dashboard_agenttoken SET name = 'b'")) == token
    assert change(lambda: sql("UPDATE dashboard_agenttoken SET last_used_at = 'later'")) == ""
    assert change(lambda: sql("INSERT INTO dashboard_auditentry VALUES ('x')")) == ""
    assert change(lambda: sql("INSERT INTO axes_accessattempt VALUES ('x')")) == ""
    witness.close()
    database.close()


# --- the verdict


def test_what_did_not_hold_comes_before_what_was_not_judged() -> None:
    held = run.Judged(name="a", held=True, detail="all")
    broken = run.Judged(name="b", held=False, detail="it broke")
    unknown = run.Judged(name="c", held=False, detail="not judged", error=True)
    target = target_at(1, requests=5)
    assert run.answer([held], target) == (
        {
            "checks": [{"name": "a", "held": True, "detail": "all"}],
            "requests": 5,
            "server_errors": 0,
            "ok": True,
        },
        0,
    )
    for judged, code in (([held, broken, unknown], 1), ([held, unknown], 3), ([], 3)):
        found, given = run.answer(judged, target)
        assert (found["ok"], given) == (False, code)
    target.note_error("500")
    assert run.answer([held], target)[1] == 1


def test_a_check_that_shows_nothing_is_not_judged() -> None:
    def cannot(target: Target) -> Found:
        raise NotJudged("nobody was there")

    one = run.judge("a", cannot, target_at(1))
    assert (one.held, one.error, one.detail) == (False, True, "not judged: nobody was there")


def test_command_ended_early_answers_what_was_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def attacked(seed: int, requests: int) -> Iterator[Target]:
        assert (seed, requests) == (5, 9)
        yield target_at(1)

    def ends(target: Target) -> Found:
        raise OSError("the folder is gone")

    monkeypatch.setattr(run, "attacked", attacked)
    monkeypatch.setattr(run, "CHECKS", {"a": lambda target: Found("all"), "b": ends})
    command = attack_check.Command()
    parser = command.create_parser("manage.py", "attack_check")
    options = vars(parser.parse_args(["--seed", "5", "--requests", "9"]))
    found, code = command._found(options)
    assert code == 3
    assert found is not None
    assert (found["ok"], [row["name"] for row in found["checks"]]) == (False, ["a"])


def test_answers_that_may_change_something_are_those_that_were_taken() -> None:
    assert Answer(200).may_change
    assert not Answer(200).that_changes_nothing().may_change
    assert not Answer(302, {"location": "/login/?next=/"}).may_change
    assert Answer(302, {"location": "/groups/"}).may_change
    assert Answer(302, {"location": "/login/"}).may_change, "after a log out"
    made = Answer(200, body=b'<pre class="wrap" id="token">ekt_a</pre>')
    assert mutated.of_form("POST", made).may_change
    assert not mutated.of_form("GET", made).may_change
    assert not mutated.of_form("POST", Answer(200, body=b"<form>")).may_change
    assert not Answer(400).may_change
    assert not Answer(0).may_change
