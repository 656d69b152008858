"""Who looks at the group while it is struck, and what comes of it when nobody can."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from assignment.errors import GroupMissing
from assignment.scripts.group_read import GroupRead
from assignment.types import Offset, Partition
from dashboard.demo.embedded_redis import EmbeddedRedis
from dashboard.evaluation.chaos import eye
from dashboard.evaluation.chaos.eye import Eye, Sample
from dashboard.evaluation.inspecting import Server
from tests.agent.conftest import until


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Exception | None]:
    """What the next looks at Redis come to; then the last one again."""
    found: list[Exception | None] = []

    def look(server: object) -> Any:
        answer = found.pop(0) if len(found) > 1 else found[0]
        if answer is not None:
            raise answer

    monkeypatch.setattr(eye, "look", look)
    monkeypatch.setattr(eye, "lag_of", lambda server, read: 0)
    monkeypatch.setattr(eye, "sample_of", lambda read, lag: Sample(at_ms=1, lag=lag))
    monkeypatch.setattr(eye, "LOOK_EVERY_S", 0.001)
    return found


@pytest.fixture
def looking(read: list[Exception | None]) -> Iterator[list[Eye]]:
    opened: list[Eye] = []
    yield opened
    for one in opened:
        one.close()


def opened(looking: list[Eye]) -> Eye:
    looking.append(Eye("redis://127.0.0.1:1", "group", 2, dict))
    return looking[0]


def test_it_looks_on_when_a_wiped_redis_does_not_have_the_group(
    read: list[Exception | None], looking: list[Eye]
) -> None:
    read += [None, GroupMissing("the group is not configured in this Redis"), None]
    seen = opened(looking)
    until(lambda: len(seen.samples) >= 3)
    seen.check()


def test_what_came_after_a_wipe_is_behind_although_a_higher_total_was_put_back(
    own_redis: EmbeddedRedis,
) -> None:
    server = Server(own_redis.url, "group", "stream", 2)
    last = [Partition("stream", number) for number in range(2)]
    applied = {p: SimpleNamespace(total=40) for p in last}
    for number, count in ((0, 3), (1, 43)):
        server.client.xadd(server.stream.entries(number), {"lines": "x"}, id="9-0")
        server.client.hset(server.stream.producers(number), ":events", count)

    def lag(*offsets: str) -> int:
        at = dict(zip(last, map(Offset.parse, offsets), strict=False))
        return eye.lag_of(server, cast(GroupRead, SimpleNamespace(offsets=at, applied=applied)))

    assert lag("7-0", "9-0") == 1
    assert lag("9-0", "7-0") == 3
    assert lag("9-0", "9-0") == 0
    assert lag("9-0") == 3, "nothing is committed"
    server.close()


def test_a_bug_that_ends_it_is_an_error_of_the_harness_and_no_verdict(
    read: list[Exception | None], looking: list[Eye]
) -> None:
    read += [None, ZeroDivisionError("a bug")]
    seen = opened(looking)
    with pytest.raises(ZeroDivisionError):
        until(seen.check)
