"""Trips to Redis beside each other. Where it is busy each of them waits for its turn, and one after
the other they would wait for the sum of that.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
# Whoever waits for another one here was begun after it, so some thread is always free to go on.
_pool = ThreadPoolExecutor(8, thread_name_prefix="beside")


def begin(asked: Callable[[], T]) -> Future[T]:
    return _pool.submit(asked)


class Ahead(Generic[T]):
    """A trip that may be begun before its answer is wanted."""

    def __init__(self) -> None:
        self.begun: Future[T] | None = None

    def begin(self, ask: Callable[[], T]) -> None:
        self.begun = begin(ask)

    def answer(self, ask: Callable[[], T]) -> T:
        """Of what was begun, once; else it is asked for now."""
        begun, self.begun = self.begun, None
        return begun.result() if begun else ask()
