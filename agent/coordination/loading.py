"""What the coordinator's thread loads, it loads while the loop rests: a lease must not end by it.

The rules and numpy take 0.2 s of CPU once, for who computes first. Loading holds the interpreter;
where many processes share a CPU the loop got it back late, once for every trip to Redis.
"""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from time import monotonic
from types import ModuleType

GIVE_WAY_S = 2.0  # in all: a loop that itself waits for a module that is being loaded never rests


class GivesWay(MetaPathFinder):
    """Finds nothing: it lets the thread that made it wait before each module that it imports."""

    def __init__(self, rests: threading.Event) -> None:
        self._rests = rests
        self._thread = threading.get_ident()
        self._left_s = GIVE_WAY_S

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if threading.get_ident() == self._thread:
            began_s = monotonic()
            self._rests.wait(max(0.0, self._left_s))
            self._left_s -= monotonic() - began_s
        return None


@contextmanager
def giving_way(rests: threading.Event) -> Iterator[None]:
    """`rests`: set while the loop has nothing to do."""
    finder = GivesWay(rests)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
