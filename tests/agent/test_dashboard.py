"""Agents against the real dashboard: web, worker, beat, Redis; consumers without Spark."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.store.group import GroupStore
from assignment.scripts.group_read import GroupRead, Purpose, read_group
from dashboard.demo.demo import Demo
from dashboard.demo.options import GROUP
from dashboard.demo.tree import Process
from tests.agent.conftest import until
from tests.agent.tiny_demo import TINY, tiny_demo

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with tiny_demo(tmp_path_factory.mktemp("demo"), consumers=3) as demo:
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
    entries = store.door.ask("XRANGE", store.keys.events, "-", "+")
    return [
        {n.decode(): v.decode() for n, v in zip(f[::2], f[1::2], strict=True)} for _, f in entries
    ]


def test_while_web_is_killed_and_started_again_nothing_moves(demo: Demo, store: GroupStore) -> None:
    before = owners(store)
    web = next(part for part in demo.tree.parts if part.name == "web")
    assert isinstance(web, Process) and web.pid is not None
    os.kill(web.pid, signal.SIGKILL)
    demo.tree.wait(lambda: web.pid is not None and web.healthy(), 60, "web is back")
    demo.tree.wait(demo.is_settled, 60, "settled")
    assert owners(store) == before


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
