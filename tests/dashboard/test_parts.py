"""Which part of the demo hangs, by the signs of life that /readyz tells of."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from assignment.rights import with_token_file
from dashboard.demo import parts
from dashboard.demo.options import AGENTS_URL, PRODUCER_TOKEN, Options
from dashboard.demo.parts import Parts

Say = Callable[..., Parts]
OLD_MS = int(parts.HUNG_S * 1_000) + 1


@pytest.fixture
def say(tmp_path: Path) -> Iterator[Say]:
    """Parts beside a web process that says these ages, and that these are not there."""
    checks: dict[str, Any] = {}

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"ready": False, "checks": checks}).encode()
            self.send_response(503)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def said(away: str = "", **ages_ms: int | None) -> Parts:
        checks.update({"database": {"vendor": "sqlite"}, "redis": {"ages_ms": ages_ms}})
        checks.update({away: None} if away else {})
        return Parts(Options(data=tmp_path, port=server.server_port), "redis://")

    yield said
    server.shutdown()
    server.server_close()


def test_beat_and_worker_live_while_they_give_signs(say: Say) -> None:
    found = say(beat=900, worker=1_000, tick=1_100)
    assert found.lives("beat") and found.lives("worker")
    found = say(beat=None, worker=None, tick=None)
    assert found.lives("beat") and found.lives("worker"), "they have just been started"


def test_beat_that_hangs_is_not_the_workers_fault(say: Say) -> None:
    found = say(beat=OLD_MS, worker=OLD_MS, tick=OLD_MS)
    assert not found.lives("beat")
    assert found.lives("worker")


def test_worker_that_begins_nothing_hangs_and_one_whose_tick_fails_does_not(say: Say) -> None:
    assert not say(beat=900, worker=OLD_MS, tick=OLD_MS).lives("worker")
    assert say(beat=900, worker=1_000, tick=OLD_MS).lives("worker")


@pytest.mark.parametrize("away", ["redis", "database"])
def test_nobody_hangs_while_what_it_needs_is_away(say: Say, tmp_path: Path, away: str) -> None:
    silent = tmp_path / "log"
    silent.touch()
    os.utime(silent, (0, 0))
    found = say(away=away, beat=OLD_MS, worker=OLD_MS, tick=OLD_MS)
    assert found.lives("beat") and found.lives("worker") and found.writes(silent)


def test_producer_that_says_nothing_hangs(say: Say, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    found = say(beat=900, worker=1_000, tick=1_100)
    assert found.writes(log)
    os.utime(log, (0, 0))
    assert not found.writes(log)


def test_every_part_uses_the_redis_of_its_tree(tmp_path: Path) -> None:
    found = Parts(Options(data=tmp_path, port=1), "redis://own").process("any", 0, "any")
    named = {found.environment[name] for name in ("REDIS_URL", "EVENKEEL_REDIS_URL")}
    assert named == {"redis://own"}, "another one in the caller's environment would be struck"


def test_the_dashboard_looks_for_snapshots_where_its_agents_write_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where the operator's own agents do."""
    monkeypatch.setenv("EVENKEEL_SNAPSHOT_URLS", "s3://mine/x")
    parts = Parts(Options(data=tmp_path, port=1), "redis://own")
    command = parts.agent("a", "g", "http://d", ["c"], environment={}).command
    own = command[command.index("--snapshot-url") + 1]
    assert parts.web().environment["EVENKEEL_SNAPSHOT_URLS"] == f"s3://mine/x,{own}"


def test_several_of_a_kind_share_the_address_and_no_name(tmp_path: Path) -> None:
    made = Parts(Options(data=tmp_path, port=1, webs=2, workers=2), "redis://own")
    webs, workers = made.webs(), made.workers()
    assert [part.name for part in (*webs, *workers)] == ["web", "web-2", "worker", "worker-2"]
    own = [part.command[part.command.index("--port") + 1] for part in webs]
    shared = [part.command[part.command.index("--shared-port") + 1] for part in webs]
    assert len({*own, "1"}) == 3 and shared == ["1", "1"]
    named = [part.command[part.command.index("--hostname") + 1] for part in workers]
    assert named == ["worker@%h", "worker-2@%h"]


def test_one_of_a_kind_has_the_address_to_itself(tmp_path: Path) -> None:
    [web] = Parts(Options(data=tmp_path, port=1), "redis://own").webs()
    assert web.command[web.command.index("--port") + 1] == "1"
    assert "--shared-port" not in web.command


def test_the_database_that_was_asked_for_is_every_parts(tmp_path: Path) -> None:
    options = Options(data=tmp_path, port=1, database_url="postgres:///own")
    assert Parts(options, "redis://own").worker().environment["DATABASE_URL"] == "postgres:///own"


def test_agents_and_producer_log_in_by_tokens_of_their_own(tmp_path: Path) -> None:
    parts = Parts(Options(data=tmp_path, port=1), "redis://:secret@own/0")

    def addresses() -> list[str]:
        started = (parts.consumer(1, lambda: True), parts.producer())
        return [part.environment["EVENKEEL_REDIS_URL"] for part in started]

    assert addresses() == ["redis://:secret@own/0"] * 2, "nobody prepared users there"
    (tmp_path / AGENTS_URL).write_text("redis://own/0\n")
    (tmp_path / PRODUCER_TOKEN).touch()
    named = with_token_file("redis://own/0", tmp_path / PRODUCER_TOKEN)
    assert addresses() == ["redis://own/0", named]
    (tmp_path / AGENTS_URL).write_text("redis://another/0\n")
    assert addresses() == ["redis://:secret@own/0"] * 2
