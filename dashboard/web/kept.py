"""Bytes of bodies that are kept until their requests are answered: of each sender, and of all."""

from typing import Self

IN_ALL = 128 * 2**20
UNFINISHED = 2**14  # what a connection with half a body costs, however little of it came


class TooMuch(Exception):
    """The sender has its share, and more."""


class Kept:
    """Of one process. While all together have too much, a sender has an equal share at most."""

    def __init__(self, in_all: int = IN_ALL) -> None:
        self._in_all = in_all
        self._all = 0
        self._of: dict[str, int] = {}

    @property
    def bytes(self) -> int:
        return self._all

    def of(self, sender: str, most: int) -> "Body":
        """For as long as the request goes on; `most` bytes may the sender have at a time."""
        return Body(self, sender, most)

    def check(self, sender: str, size: int, most: int) -> None:
        """Whether the sender may have so many more. Raises TooMuch."""
        has = self._of.get(sender, 0)
        if self._all + size > self._in_all:
            most = min(most, self._in_all // (len(self._of) + (not has)))
        if has + size > most:
            raise TooMuch

    def change(self, sender: str, size: int) -> None:
        if not size:
            return
        self._all += size
        left = self._of.get(sender, 0) + size
        if left:
            self._of[sender] = left
        else:
            del self._of[sender]


class Body:
    """One, as it comes; a context manager, which counts it no more at its end."""

    __slots__ = ("_kept", "_most", "_sender", "came", "size")

    def __init__(self, kept: Kept, sender: str, most: int) -> None:
        self._kept, self._sender, self._most = kept, sender, most
        self.came = 0  # of it
        self.size = 0  # that is counted

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._kept.change(self._sender, -self.size)
        self.size = 0

    def add(self, size: int, is_last: bool) -> None:
        """So many bytes came. Raises TooMuch, and counts them not."""
        came = self.came + size
        counted = came if is_last else max(came, UNFINISHED)
        more = counted - self.size
        if more > 0:
            self._kept.check(self._sender, more, self._most)
        self._kept.change(self._sender, more)
        self.came, self.size = came, counted


kept = Kept()
