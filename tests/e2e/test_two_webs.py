"""Two web processes behind one address and two workers, on PostgreSQL: one system, whichever of
them is asked. Light members follow real targets by that address; each web process is asked at its
own port too.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import requests
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from assignment.wire import API_PREFIX
from dashboard.api.v1.doors import SCOPES
from dashboard.demo import processes
from dashboard.demo.parts import WORKERS, kind_of
from dashboard.demo.prepare import read_login
from dashboard.evaluation.beside.programs import made_groups
from dashboard.evaluation.load.aims import Sizes
from dashboard.evaluation.load.check import Scene, crowd_of
from dashboard.evaluation.load.watching import Watch
from dashboard.evaluation.system import own_run

ASKED = Sizes(members=20, groups=1, partitions=40, processes=1, seconds=1, webs=2, workers=2)
(GROUP,) = ASKED.by_group
DEADLINE_S = 20.0
POOL, OTHERS = 8, 2  # connections of each web process; who counts them, and a command
PAGES, PAGES_AT_ONCE = 60, 30


@dataclass
class Person:
    """Signed in at one web process; asks any by its port."""

    scene: Scene
    session: requests.Session = field(default_factory=requests.Session)
    token: str = ""

    def url(self, port: int, path: str) -> str:
        return f"http://127.0.0.1:{port}{path}"

    def sign_in(self, port: int) -> None:
        name, password = read_login(self.scene.run.demo.options.data / "login")
        self.post(port, "/login/", username=name, password=password)

    def post(self, port: int, path: str, form_at: str = "", **values: Any) -> str:
        """The page that it led to. `form_at`: where a form of that path is, if not there."""
        form = self.session.get(self.url(port, form_at or path)).text
        given = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
        assert given, form
        values["csrfmiddlewaretoken"] = given[1]
        answer = self.session.post(self.url(port, path), values)
        assert answer.status_code == 200, answer.text
        return answer.text

    def get(self, port: int, path: str) -> requests.Response:
        return self.session.get(self.url(port, path), allow_redirects=False)

    def make_token(self, port: int) -> None:
        scopes = [action.key for action in SCOPES if action.key != "see"]
        page = self.post(port, "/api-tokens/", do="create", name="test", days=1, scopes=scopes)
        self.token = re.search(r'id="token">(\S+)<', page)[1]  # type: ignore[index]

    def api(self, verb: str, port: int, path: str, **more: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.token}", **more.pop("headers", {})}
        return requests.request(verb, self.url(port, f"/api/v1{path}"), headers=headers, **more)

    def watching(self, port: int) -> ClientConnection:
        return connect(
            f"ws://127.0.0.1:{port}/ws/group/{GROUP}/",
            origin=self.url(port, ""),  # type: ignore[arg-type]
            additional_headers={"Cookie": f"sessionid={self.session.cookies['sessionid']}"},
            proxy=None,
        )


@pytest.fixture
def own_database(postgres_url: str, group_name: str) -> str:
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {group_name}")
    return urlunsplit(urlsplit(postgres_url)._replace(path=f"/{group_name}"))


@pytest.fixture
def scene(own_database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    for name in ("REDIS_URL", "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EVENKEEL_DATABASE_POOL", str(POOL))
    sizes = {"webs": ASKED.webs, "workers": ASKED.workers}
    with own_run(print, seed=1, demo=False, database_url=own_database, **sizes) as run:
        run.demo.start_dashboard()
        assert run.demo.redis is not None
        tokens = made_groups(run, ASKED.by_group)
        url = run.demo.redis.server.url
        with Watch(url, [GROUP]) as watch, crowd_of(run, ASKED, tokens, 1) as crowd:
            yield Scene(run, ASKED, watch, crowd)


@pytest.mark.postgres
@pytest.mark.timeout(300)
def test_two_web_processes_and_two_workers_are_one_system(scene: Scene) -> None:
    scene.join()
    assert scene.found["join_steady_s"] is not None
    assert scene.found["differing"] == 0
    first, second = ports(scene, "web")
    person = Person(scene)
    person.sign_in(first)
    assert person.get(second, "/").status_code == 200, "the session counts at both"
    person.make_token(first)
    history_has_each_lock_once(scene, person, second)
    a_command_is_done_once_and_seen_elsewhere(person, first, second)
    a_revoked_token_ends_at_both(scene, person, first, second)
    pages_leave_connections_to_agents(scene, person, first)
    nothing_moves_when_one_is_killed(scene)


def ports(scene: Scene, kind: str) -> list[int]:
    """Of their own."""
    parts: list[Any] = [part for part in scene.run.demo.tree.parts if kind_of(part.name) == kind]
    return [int(part.command[part.command.index("--port") + 1]) for part in parts]


def until(scene: Scene, fact: Callable[[], bool], what: str) -> None:
    scene.run.wait(fact, DEADLINE_S, what)


def history_has_each_lock_once(scene: Scene, person: Person, port: int) -> None:
    """Two workers stored it: every lock has one tenure that is open, with its fence."""
    locks = {p.number: lock for p, lock in scene.watch.all_locks(ASKED.by_group).items()}

    def is_told() -> bool:
        answer = person.api("GET", port, f"/groups/{GROUP}/tenures?limit=500").json()
        rows = [row for row in answer["items"] if row["ended_ms"] is None]
        found = {row["number"]: (row["member_id"], int(row["fence"])) for row in rows}
        return len(rows) == len(locks) and found == locks

    until(scene, is_told, "history is not what the locks are")


def a_command_is_done_once_and_seen_elsewhere(person: Person, first: int, second: int) -> None:
    path, key = f"/groups/{GROUP}/pause", {"Idempotency-Key": "once"}
    asked = {"json": {"reason": "the test"}, "headers": key}
    with person.watching(second) as browser:
        assert "hello" in str(browser.recv(DEADLINE_S))
        done, again = (person.api("POST", port, path, **asked) for port in (first, second))
        assert (done.status_code, again.status_code) == (200, 200), done.text + again.text
        assert again.headers["Idempotent-Replayed"] == "true" and again.json() == done.json()
        frame_with(browser, "paus")
        other = Person(person.scene)
        other.sign_in(second)
        with other.watching(second) as hers:
            assert "hello" in str(hers.recv(DEADLINE_S))
            other.post(first, "/logout/", form_at="/")
            assert code_at_the_end(hers) == 4403
    person.api("POST", second, f"/groups/{GROUP}/resume", json={"reason": "the test"})


def frame_with(browser: ClientConnection, text: str) -> None:
    for _ in range(100):
        if text in str(browser.recv(DEADLINE_S)):
            return
    raise AssertionError(f"no frame has {text}")


def code_at_the_end(browser: ClientConnection) -> int:
    with pytest.raises(ConnectionClosed) as ended:
        for _ in range(100):
            browser.recv(DEADLINE_S)
    assert ended.value.rcvd
    return ended.value.rcvd.code


def a_revoked_token_ends_at_both(scene: Scene, person: Person, first: int, second: int) -> None:
    made = person.api("POST", first, f"/groups/{GROUP}/tokens", json={"name": "b", "reason": "t"})
    assert made.status_code == 201, made.text
    secret, pk = made.json()["secret"], made.json()["id"]

    def status(port: int) -> int:
        url = person.url(port, f"{API_PREFIX}/{GROUP}/leave")
        answer = requests.post(url, b"{}", headers={"Authorization": f"Bearer {secret}"})
        return answer.status_code

    assert 401 not in (status(first), status(second))
    gone = person.api("DELETE", first, f"/groups/{GROUP}/tokens/{pk}", json={"reason": "t"})
    assert gone.ok, gone.text
    until(scene, lambda: status(first) == status(second) == 401, "the token serves on")


def pages_leave_connections_to_agents(scene: Scene, person: Person, port: int) -> None:
    """However many are asked for at once."""
    url, cookies = person.url(port, f"/groups/{GROUP}/history/"), dict(person.session.cookies)
    with ThreadPoolExecutor(PAGES_AT_ONCE) as many:
        asked = [many.submit(requests.get, url, cookies=cookies) for _ in range(PAGES)]
        seen = [connections(scene) for _ in asked if not asked[-1].done()]
        statuses = Counter(one.result().status_code for one in asked)
    assert statuses.keys() <= {200, 503} and statuses[200] >= POOL
    assert 0 < max(seen) <= ASKED.webs * POOL + ASKED.workers * WORKERS + OTHERS
    scene.crowd.ask("anew")
    everybody_is_heard(scene)
    assert not {"errors", "timeouts"} & scene.crowd.status().count.keys()


def connections(scene: Scene) -> int:
    url = scene.run.demo.options.database_url
    with psycopg.connect(url) as server:
        found = server.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        ).fetchone()
    return int(found[0]) if found else 0


def nothing_moves_when_one_is_killed(scene: Scene) -> None:
    before, granted = scene.watch.all_locks(ASKED.by_group), grants(scene)
    part: Any = next(p for p in scene.run.demo.tree.parts if kind_of(p.name) == "web")
    processes.kill(part.family)
    for _ in range(2):  # also after those that were given to it
        scene.crowd.ask("anew")
        everybody_is_heard(scene)
    assert scene.watch.all_locks(ASKED.by_group) == before
    assert grants(scene) == granted


def everybody_is_heard(scene: Scene) -> None:
    until(scene, lambda: scene.crowd.status().heard == ASKED.members, "a member was not heard")


def grants(scene: Scene) -> int:
    return scene.crowd.status().count["grants"]
