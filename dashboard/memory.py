"""The memory of processes that live long.

Garbage: Python looks for cycles each time 700 more objects live than before. Under thousands of
connections, or members of a group, that took a web process a third of its CPU, and a worker a
fifth.

Freed arrays: those of a group of 100,000 partitions have 800 kB each, and as it comes glibc gives
more than some 1.6 MB of them back to the kernel at once, which hands the same pages out again a
millisecond later, one fault of some microseconds for each. That took more than half of what a
map of its owners costs.

Pages: of 4 KiB a web process with 5,000 agents has 50,000, and each heartbeat needs some hundreds
that none did for seconds; to find where they are is 6 % of what it costs. Of the 2 MiB that Linux
has as well there are a hundred. Python 3.15 can ask for such pages itself; what is asked here
is the same of memory that there is already.
"""

import ctypes
import errno
import gc
import logging
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

OBJECTS = 50_000  # some ten megabytes
OLDER = 10  # as Python's own

# man 3 mallopt: what is free at the end of a heap above so many bytes is given back; what is larger
# than so many bytes is no part of a heap; and so many heaps, however many threads there are.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
FREE_KEPT, IN_HEAP_MAX, HEAPS_MAX = 64 * 2**20, 32 * 2**20, 2

LARGE = 2 * 2**20
LARGE_EVERY_S = 10.0  # agents come within a minute
# man 2 madvise: so from now on; and at once, which Linux can since 6.1.
_HUGEPAGE, _COLLAPSE = 14, 25
_LARGE_ALLOWED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_MAPPED = Path("/proc/self/maps")

log = logging.getLogger(__name__)


def settle() -> None:
    """What is loaded by now stays: no collection goes through it again, and later ones are seldom.
    What is freed stays with the process, up to FREE_KEPT of each of its HEAPS_MAX heaps.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS, OLDER, OLDER)
    _keep_freed()


def _keep_freed() -> None:
    """Where the C library has no such settings it stays as it is."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        return
    wanted = {_TRIM_THRESHOLD: FREE_KEPT, _MMAP_THRESHOLD: IN_HEAP_MAX, _ARENA_MAX: HEAPS_MAX}
    refused = [option for option, value in wanted.items() if not set_option(option, value)]
    if refused:
        log.warning("the C library refuses mallopt %s", refused)


def keep_in_large_pages() -> None:
    """What this process has and what it gets, by a thread that lives as long. Not for one that is
    forked: what it shares with others it would have for itself.
    """
    threading.Thread(target=_go_on_enlarging, name="large pages", daemon=True).start()


def _go_on_enlarging() -> None:
    known = frozenset[tuple[int, int]]()
    while True:
        try:
            known = enlarge(known)
        except OSError as error:
            log.info("memory stays in small pages: %s", error)
            return
        time.sleep(LARGE_EVERY_S)


def enlarge(known: frozenset[tuple[int, int]] = frozenset()) -> frozenset[tuple[int, int]]:
    """Puts all but what is `known` to be into large pages: addresses, from and to, as this returns
    them. Raises OSError where there are none, or whoever runs the machine wants none.
    """
    if "[never]" in _LARGE_ALLOWED.read_text():
        raise OSError(errno.ENOSYS, "the machine has none")
    advise = ctypes.CDLL(None, use_errno=True).madvise
    advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    found = frozenset(_enlargeable(_MAPPED.read_text().splitlines()))
    for begin, end in found - known:
        if advise(begin, end - begin, _HUGEPAGE):
            raise OSError(ctypes.get_errno(), "the kernel refuses them")
        advise(begin, end - begin, _COLLAPSE)  # else it does so by and by
    return found


def _enlargeable(lines: Iterable[str]) -> Iterator[tuple[int, int]]:
    """What is this process' own, but for stacks, which are nearly empty: each ends at an address
    that nobody may touch. man 5 proc_pid_maps.
    """
    untouchable = 0
    for line in lines:
        span, rights, _, _, _, *name = line.split(maxsplit=5)
        begin, end = (int(address, 16) for address in span.split("-"))
        is_own = rights == "rw-p" and (not name or name[0].startswith(("[heap]", "[anon")))
        if is_own and begin != untouchable:
            first, last = -(-begin // LARGE) * LARGE, end // LARGE * LARGE
            if first < last:
                yield first, last
        elif rights == "---p":
            untouchable = end
