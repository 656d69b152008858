"""How long processes of this machine were ready to run and had no CPU, as Linux counts it."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

NS_A_MS = 1_000_000
PROC = Path("/proc")


HARNESS = "harness"  # this process: all that the struck ones say goes through its forwarders


class Starving:
    """Of each named process or one of its children, whichever waited longer each time; only what
    their main threads waited. Of this process how late one thread was that had to run at a time:
    without a CPU, or without the interpreter. What its threads waited beside each other adds up to
    more than the time that went by, and nothing would be judged. Where it is not counted, nobody
    starved.
    """

    def __init__(self, pids: Callable[[], Mapping[str, int | None]]) -> None:
        self._pids = pids
        self._counted_ns: dict[int, int] = {}  # pid -> at the last look
        self._waited_ns: dict[str, int] = {}

    def look(self, late_ms: int = 0) -> dict[str, int]:
        """ms of each in all looks. `late_ms`: of this look."""
        for name, pid in self._pids().items():
            found = () if pid is None else (pid, *children(pid))
            self._add(name, max(map(self._since, found), default=0))
        self._add(HARNESS, max(0, late_ms) * NS_A_MS)
        return {name: waited_ns // NS_A_MS for name, waited_ns in self._waited_ns.items()}

    def _add(self, name: str, waited_ns: int) -> None:
        self._waited_ns[name] = self._waited_ns.get(name, 0) + waited_ns

    def _since(self, pid: int) -> int:
        """Since the last look; 0 for one that was not there then."""
        numbers = numbers_in(PROC / str(pid) / "task" / str(pid) / "schedstat")
        if len(numbers) < 2:
            return 0
        before = self._counted_ns.get(pid, numbers[1])
        self._counted_ns[pid] = numbers[1]
        return max(0, numbers[1] - before)


def children(pid: int) -> Iterable[int]:
    return numbers_in(PROC / str(pid) / "task" / str(pid) / "children")


def numbers_in(path: Path) -> list[int]:
    """None of a process that has ended."""
    with suppress(OSError):
        return [int(word) for word in path.read_text().split()]
    return []
