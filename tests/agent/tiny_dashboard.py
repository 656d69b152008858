"""A dashboard in few lines, over real HTTP and the real scripts: answers agents, decides nothing.

The test decides: `assign`, `evict`, `configure`. It can be slow, away, or refuse.
"""

import contextlib
import threading
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from agent.dashboard_session.requests import Refusal
from agent.store.group import GroupStore
from assignment.scripts import dashboard_side, group_read, values
from assignment.scripts.group_read import GroupRead, Purpose
from assignment.types import Drain, GroupSettings, Partition, TargetRow
from assignment.wire import API_PREFIX, Heartbeat, Join, Leave, Reply
from tests.agent.coordinator import answer_to

MESSAGES: dict[str, Any] = {"join": Join, "heartbeat": Heartbeat, "leave": Leave}
TOKEN = "a-token-of-this-test"
PROBLEMS = {
    401: ("Token refused", "this token is wrong, expired or revoked"),
    403: ("Token of another group", "this token speaks for 'other'"),
    404: ("Unknown group", "there is no such group"),
    409: ("Member id in use", "a live member has another secret"),
    503: ("Redis is away", "try again"),
}


class TinyDashboard:
    def __init__(self, store: GroupStore, settings: GroupSettings) -> None:
        self.store = store
        self.settings = settings
        self.refuse_with = 0  # an HTTP status to answer everything with
        self.answers = threading.Event()  # cleared: every request waits
        self.answers.set()
        self.heard: dict[str, list[Any]] = {verb: [] for verb in MESSAGES}
        self.configure(settings)
        self.set_incarnation(1)
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.away = False
        handler = type("Handler", (_Handler,), {"dashboard": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self.answers.set()
        self.away = True
        self._server.shutdown()
        self._server.server_close()

    @property
    def beats(self) -> list[Heartbeat]:
        return self.heard["heartbeat"]

    # --- what a coordinator would do

    def run(self, call: values.Call[Any]) -> Any:
        return self.store.run(call)

    def configure(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.run(dashboard_side.configure(settings, "test", rebalance_due=False))

    def set_incarnation(self, incarnation: int) -> None:
        self.run(dashboard_side.set_incarnation(incarnation))

    def read(self, purpose: Purpose = Purpose.LOOK) -> GroupRead:
        return self.run(group_read.read_group(purpose))

    def assign(
        self,
        rows: Mapping[str, Iterable[int]],
        standby: Mapping[str, Iterable[int]] | None = None,
        learning: Mapping[str, Iterable[int]] | None = None,
    ) -> None:
        """The target: member id -> partition numbers, by role."""
        self.run(dashboard_side.request_rebalance("test"))
        read = self.read(Purpose.REBALANCE)
        epoch = read.meta.group_epoch
        standby, learning = standby or {}, learning or {}
        targets = {
            member: TargetRow(
                target_epoch=epoch,
                active=self._partitions(rows.get(member, ())),
                standby=self._partitions(standby.get(member, ())),
                learning=self._partitions(learning.get(member, ())),
            )
            for member in {*rows, *standby, *learning}
        }
        assert self.run(dashboard_side.set_target(read, targets)) is None

    def _partitions(self, numbers: Iterable[int]) -> frozenset[Partition]:
        return frozenset(Partition(self.settings.stream, n) for n in numbers)

    def mark(self, drain: Drain, *members: str) -> None:
        """What a scale-down tells these members."""
        assert self.run(dashboard_side.set_drain(drain, members)) == list(members)

    def join(self, member: str) -> None:
        """A member without an agent."""
        self.run(dashboard_side.join(member, "a secret of sixteen letters", {}))

    def evict(self, member: str) -> None:
        beat = self.read().beats[member]
        self.run(dashboard_side.evict(member, beat, "test"))

    # --- what agents ask

    def answer(self, verb: str, body: bytes) -> Reply | None:
        message = msgspec.json.decode(body, type=MESSAGES[verb])
        self.heard[verb].append(message)
        return answer_to(self.run, self.settings, message)


class _Handler(BaseHTTPRequestHandler):
    dashboard: TinyDashboard
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(200, {"status": "ok"})

    def do_POST(self) -> None:
        dashboard = self.dashboard
        body = self.rfile.read(int(self.headers["content-length"]))
        dashboard.answers.wait(30)
        if dashboard.away:
            self.close_connection = True
            return
        prefix, _, verb = self.path.rpartition("/")
        assert prefix == f"{API_PREFIX}/{dashboard.store.group}"
        status = dashboard.refuse_with
        if not status and self.headers["authorization"] != f"Bearer {TOKEN}":
            status = 401
        if status:
            title, detail = PROBLEMS[status]
            self._answer(status, {"status": status, "title": title, "detail": detail})
            return
        try:
            self._answer(200, dashboard.answer(verb, body))
        except Refusal as refusal:
            problem = {"status": refusal.status, "title": "Refused", "detail": str(refusal)}
            self._answer(refusal.status, problem)

    def _answer(self, status: int, body: object) -> None:
        content = msgspec.json.encode(body)
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass
