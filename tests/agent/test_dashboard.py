"""Agents against the real dashboard: web, worker and beat, two of each at once on one database and
Redis; consumers without Spark.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.store.group import GroupStore
from assignment import invariants
from assignment.scripts.group_read import GroupRead, Purpose, read_group
from dashboard.demo.demo import Demo
from dashboard.demo.embedded_redis import free_port
from dashboard.demo.options import GROUP
from dashboard.demo.parts import Parts
from dashboard.demo.tree import Process
from tests.agent.conftest import until
from tests.agent.tiny_demo import TINY, tiny_demo

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


class TwoAddresses(Parts):
    """Agents know both, the first one first."""

    second_url = ""

    def consumer(self, *args: Any, **how: Any) -> Process:
        process = Parts.consumer(self, *args, **how)
        both = f"{self.options.url},{self.second_url}"
        process.command = tuple(both if p == self.options.url else p for p in process.command)
        return process


class Doubled(Demo):
    def start_dashboard(self) -> None:
        super().start_dashboard()
        others = replace(self.options, port=free_port())
        second, self.parts = (
            Parts(others, self.parts.redis_url),
            TwoAddresses(self.options, self.parts.redis_url),
        )
        self.parts.second_url = others.url
        schedule = str(self.options.data / "beat-schedule-2")
        for process, *more in (
            (second.web(),),
            (second.worker(), "--hostname", "second@%h"),
            (second.beat(), "--schedule", schedule),
        ):
            process.name += "-2"
            process.log = second.log(process.name)
            process.command += tuple(more)
            self.tree.start(process)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with tiny_demo(tmp_path_factory.mktemp("demo"), consumers=3, make=Doubled) as demo:
        yield demo


@pytest.fixture(scope="module")
def store(demo: Demo) -> GroupStore:
    return GroupStore.connect(demo.parts.redis_url, GROUP)


def read(store: GroupStore) -> GroupRead:
    return store.run(read_group(Purpose.LOOK))


def owners(store: GroupStore) -> dict[str, dict[int, int]]:
    """Member -> partition number -> fence, by the live locks."""
    view = read(store)
    owned: dict[str, dict[int, int]] = {member: {} for member in view.members}
    for partition, lock in view.locks.items():
        owned.setdefault(lock.member_id, {})[partition.number] = lock.fence
    return owned


def counts(store: GroupStore) -> list[int]:
    return sorted(len(partitions) for partitions in owners(store).values())


def test_three_members_own_four_partitions_each(store: GroupStore) -> None:
    assert counts(store) == [4, 4, 4]


def test_one_more_takes_three_and_nobody_else_moves(demo: Demo, store: GroupStore) -> None:
    before = owners(store)
    demo.start_consumer()
    until(lambda: counts(store) == [3, 3, 3, 3], "3 each")
    for member, owned in before.items():
        kept = owners(store)[member]
        assert kept.items() <= owned.items()
    until(demo.is_settled, "settled")


def test_a_term_gives_everything_back_at_once(demo: Demo, store: GroupStore) -> None:
    consumer = demo.consumers.pop()
    before = owners(store)
    process = consumer.popen
    demo.tree.take_out(consumer)
    assert process is not None and process.returncode == 0
    until(lambda: counts(store) == [4, 4, 4], "4 each")
    kinds = {event["type"] for event in events(store)}
    assert kinds == {"acquired", "released"}
    for member, owned in owners(store).items():
        assert before[member].items() <= owned.items()


def events(store: GroupStore) -> list[dict[str, str]]:
    return rows(store, store.keys.events)


def rows(store: GroupStore, stream: str) -> list[dict[str, str]]:
    entries = store.door.ask("XRANGE", stream, "-", "+")
    return [
        {n.decode(): v.decode() for n, v in zip(f[::2], f[1::2], strict=True)} for _, f in entries
    ]


def test_while_web_is_killed_the_other_one_answers_and_nothing_moves(
    demo: Demo, store: GroupStore
) -> None:
    before = owners(store)
    web = next(part for part in demo.tree.parts if part.name == "web")
    assert isinstance(web, Process) and web.pid is not None
    with demo.tree.not_restarting(web):
        os.kill(web.pid, signal.SIGSTOP)  # it takes connections and does not answer
        stopped_ms = read(store).now_ms
        until(lambda: min(heard_ms(store)) > stopped_ms, "all are heard by the other")
        os.kill(web.pid, signal.SIGKILL)
        until(lambda: web.exit_code() is not None, "killed")
        killed_ms = read(store).now_ms
        until(lambda: min(heard_ms(store)) > killed_ms, "all are heard by the other still")
    demo.tree.wait(lambda: web.pid is not None and web.healthy(), 60, "web is back")
    demo.tree.wait(demo.is_settled, 60, "settled")
    assert owners(store) == before


def heard_ms(store: GroupStore) -> list[int]:
    """When each member's last heartbeat came."""
    view = read(store)
    return [view.reports[member].at_ms for member in view.members]


def test_a_crash_changes_no_fence_of_the_others(demo: Demo, store: GroupStore) -> None:
    consumer = demo.consumers[0]
    before = owners(store)
    with demo.tree.not_restarting(consumer):
        assert consumer.pid is not None
        os.kill(consumer.pid, signal.SIGKILL)
        until(lambda: counts(store) == [6, 6], "6 each")
        for member, owned in owners(store).items():
            assert before[member].items() <= owned.items()
    since_ms = time.time_ns() // 1_000_000
    demo.tree.wait(lambda: counts(store) == [4, 4, 4], 60, "4 each")
    demo.tree.wait(lambda: demo.is_settled(since_ms), 60, "settled")


def test_each_target_and_each_event_is_recorded_once_and_none_is_missing(
    demo: Demo, store: GroupStore
) -> None:
    """After all that came before: joins, a leave, a crash, a killed web process."""
    invariants.check(read(store))
    targets = sum(hint["reason"] == "target" for hint in rows(store, store.keys.control))
    locked = [(e["type"], e["partition"], int(e["fence"])) for e in events(store)]
    until(lambda: stored(demo, "SELECT max(last_event_seq) FROM dashboard_group")[0][0]
          == len(locked), "every event is stored")  # fmt: skip
    epochs = stored(demo, "SELECT incarnation, target_epoch FROM dashboard_rebalance ORDER BY id")
    assert len(epochs) == targets
    assert epochs == sorted(set(epochs))
    assert store.door.ask("XLEN", store.keys.outbox) == 0
    assert stored(demo, "SELECT * FROM dashboard_historygap") == []
    tenures = stored(demo, 'SELECT partition, fence, "end" FROM dashboard_tenure')
    assert sorted((p, fence) for p, fence, _ in tenures) == sorted(
        (p, fence) for kind, p, fence in locked if kind == "acquired"
    )
    assert sorted((end, p, fence) for p, fence, end in tenures if end) == sorted(
        (kind, p, fence) for kind, p, fence in locked if kind in ("released", "expired")
    )
    for name in ("worker", "worker-2"):
        assert "coordinator.ticker ticker" in demo.parts.log(name).read_text(), (
            f"{name} was at work"
        )
    beats = [part for part in demo.tree.parts if part.name.startswith("beat")]
    assert [beat.exit_code() for beat in beats] == [None, None]


def stored(demo: Demo, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(demo.options.data / "evenkeel.sqlite3")) as database:
        return database.execute(query).fetchall()


@pytest.mark.parametrize(
    ("changes", "code", "sentence"),
    [
        ({"--group": "nogroup"}, 3, "Unknown group"),
        ({"--token": "wrong"}, 3, "Token refused"),
        ({"--redis-url": "redis://:wrong@{redis}"}, 4, "refuses the login"),
    ],
)
def test_who_is_refused_says_why_and_ends(
    demo: Demo, tmp_path: Path, changes: dict[str, str], code: int, sentence: str
) -> None:
    token = (demo.options.data / "agent_token").read_text().strip()
    redis = demo.parts.redis_url.removeprefix("redis://")
    values: dict[str, Any] = {
        "--group": GROUP,
        "--dashboard": demo.options.url,
        "--token": token,
        "--redis-url": demo.parts.redis_url,
        "--state-dir": str(tmp_path),
    }
    values |= {flag: value.format(redis=redis) for flag, value in changes.items()}
    options = [part for pair in values.items() for part in pair]
    ended = subprocess.run(
        [sys.executable, "-m", "agent", *options, "--log-format", "json", "--", *TINY],
        capture_output=True, text=True, timeout=60, check=False, cwd=ROOT,
    )  # fmt: skip
    assert ended.returncode == code, ended.stderr
    assert sentence in ended.stderr
