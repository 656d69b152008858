"""Long runs in virtual time are done beside the tests before them, not after those.

Most tests wait: for a process, a lease, a disk. What runs here takes only the CPU that is left over
meanwhile, so that tests which look at real time do not notice it.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from functools import cached_property
from multiprocessing.pool import AsyncResult, Pool
from typing import Any

import pytest

from tests.second_process import give_way

LOWEST = 19


class Ahead:
    """What functions of a module answer, each asked once for the same arguments."""

    def __init__(self) -> None:
        self._answers: dict[Any, AsyncResult[Any]] = {}

    @cached_property
    def _processes(self) -> Pool:
        return multiprocessing.get_context("spawn").Pool(initializer=give_way, initargs=(LOWEST,))

    def begin(self, function: Callable[..., Any], *arguments: Any) -> "AsyncResult[Any]":
        asked = (function, *arguments)
        if asked not in self._answers:
            self._answers[asked] = self._processes.apply_async(function, arguments)
        return self._answers[asked]

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.begin(function, *arguments).get()

    def end(self) -> None:
        if self._answers:
            self._processes.terminate()


AHEAD = pytest.StashKey[Ahead]()


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    """Begins what the chosen tests will ask for: `ahead(of=function)`, of each one's parameters."""
    ahead = session.config.stash[AHEAD] = Ahead()
    if not session.config.option.collectonly:
        for item in session.items:
            for mark in item.iter_markers("ahead"):
                ahead.begin(mark.kwargs["of"], *item.callspec.params.values())
    try:
        return (yield)
    finally:
        ahead.end()


@pytest.fixture
def ahead(request: pytest.FixtureRequest) -> Ahead:
    return request.config.stash[AHEAD]
