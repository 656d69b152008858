"""SIGTERM and SIGINT end a wait for input or time at once, and never the sending of an event."""

import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TypeVar

Value = TypeVar("Value")


class Stopped(BaseException):
    """Asked to end while waiting."""


class Stop:
    """`asked` from the first signal on; `on_stop` is called in the signal's handler."""

    def __init__(self) -> None:
        self.asked = False
        self.on_stop: Callable[[], None] = lambda: None
        self._waits = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._hear)

    def sleep(self, seconds: float) -> None:
        """Raises Stopped."""
        self._waits = True
        try:
            if self.asked:
                raise Stopped
            time.sleep(seconds)
        finally:
            self._waits = False

    def iterate(self, values: Iterator[Value]) -> Iterator[Value]:
        """The values, waiting for each, until asked to end."""
        while True:
            self._waits = True
            try:
                if self.asked:
                    return
                value = next(values)
            except (Stopped, StopIteration):
                return
            finally:
                self._waits = False
            yield value

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        self.on_stop()
        if self._waits:
            self._waits = False
            raise Stopped
