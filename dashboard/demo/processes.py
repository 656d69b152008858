"""The processes of one tree, found by a mark in their environment: also those that a child started.

A process is always named by pid and start time (psutil checks both), so a reused pid is never hit.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress

import psutil

MARK = "EVENKEEL_TREE"
KILLED_S = 15.0  # a killed process is gone once the kernel gets to it and its disk answers
POLL_S = 0.05
KEPT_LONGEST = ("redis-server", "valkey-server")  # the others still write while they end


def marked(mark: str) -> list[psutil.Process]:
    """Every live process that inherited this mark; only one's own processes can be read."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def with_children(pid: int) -> list[psutil.Process]:
    """A process and all that came from it; empty when it is gone."""
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def each(processes: Iterable[psutil.Process], act: Callable[[psutil.Process], object]) -> None:
    """Who has ended meanwhile is left out."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            act(process)


def kill(processes: Iterable[psutil.Process]) -> None:
    each(processes, psutil.Process.kill)


def wait_gone(find: Callable[[], list[psutil.Process]], timeout_s: float) -> list[psutil.Process]:
    """What is still there after at most that time."""
    deadline = time.monotonic() + timeout_s
    while (left := find()) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return left


def end_all(mark: str, grace_s: float) -> int:
    """Ends what carries the mark; answers how many had to be killed.

    SIGTERM to the top ones, after the grace SIGKILL to all; Redis last: the others write to it.
    """

    def others() -> list[psutil.Process]:
        return [p for p in marked(mark) if not is_kept_longest(p)]

    terminate(top_of(others()))
    killed = wait_gone(others, grace_s)
    kill(killed)
    wait_gone(others, grace_s)
    terminate(marked(mark))
    last = wait_gone(lambda: marked(mark), grace_s)
    kill(last)
    wait_gone(lambda: marked(mark), KILLED_S)  # what holds a folder lets go of it with its end
    return len(killed) + len(last)


def is_kept_longest(process: psutil.Process) -> bool:
    try:
        return process.name() in KEPT_LONGEST
    except psutil.NoSuchProcess:
        return False


def top_of(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those whose parent is not among them: they end their children themselves."""
    pids = {process.pid for process in processes}
    top = []
    for process in processes:
        try:
            if process.ppid() not in pids:
                top.append(process)
        except psutil.NoSuchProcess:
            continue
    return top


def terminate(processes: Iterable[psutil.Process]) -> None:
    each(processes, psutil.Process.terminate)
