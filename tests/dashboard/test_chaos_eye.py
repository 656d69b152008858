"""Who looks at the group while it is struck, and what comes of it when nobody can."""

from collections.abc import Iterator
from typing import Any

import pytest

from assignment.errors import GroupMissing
from dashboard.evaluation.chaos import eye
from dashboard.evaluation.chaos.eye import Eye, Sample
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


def test_a_bug_that_ends_it_is_an_error_of_the_harness_and_no_verdict(
    read: list[Exception | None], looking: list[Eye]
) -> None:
    read += [None, ZeroDivisionError("a bug")]
    seen = opened(looking)
    with pytest.raises(ZeroDivisionError):
        until(seen.check)
