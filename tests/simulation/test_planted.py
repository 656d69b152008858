"""Bugs planted into the scripts: the simulation that finds none of them proves nothing."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.fakes import owners, scripts
from tests.fakes.group import Group
from tests.simulation.test_agents import survive

SEEDS_MAX = 12


def commit_without_fence_check(g: Group, args: Sequence[str], raw: Sequence[str | bytes]) -> Any:
    """Takes the commit of whoever asks, and keeps the fence it was asked with."""
    partition, fence = args[0], args[2]
    last = str(g.last_fence(partition))
    answer = owners.commit(g, [*args[:2], last, *args[3:]], raw)
    if answer[0] == "done":
        g.server.streams[f"{g.prefix}changelog:{partition}"][-1][1]["fence"] = fence.encode()
    return answer


def fence_reused(g: Group, args: Sequence[str], raw: Sequence[str | bytes]) -> Any:
    """The counter starts anew with each grant."""
    last_fence, g.last_fence = g.last_fence, lambda partition: 0  # type: ignore[method-assign]
    try:
        return owners.acquire(g, args)
    finally:
        g.last_fence = last_fence  # type: ignore[method-assign]


def commit_without_offset_check(g: Group, args: Sequence[str], raw: Sequence[str | bytes]) -> Any:
    """Takes a commit from wherever, so that what was applied before is applied again."""
    partition, low = args[0], args[3]
    committed = g.hash("offsets").get(partition, b"0-0").decode()
    answer = owners.commit(g, [*args[:3], committed, *args[4:]], raw)
    if answer[0] == "done":
        g.server.streams[f"{g.prefix}changelog:{partition}"][-1][1]["from"] = low.encode()
    return answer


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("commit", commit_without_fence_check),
        ("acquire", fence_reused),
        ("commit", commit_without_offset_check),
    ],
)
def test_a_planted_bug_is_found(
    name: str, bug: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(scripts.SCRIPTS, name, bug)
    with pytest.raises(AssertionError):
        for seed in range(SEEDS_MAX):
            survive(seed)
