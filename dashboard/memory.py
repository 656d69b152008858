"""The memory of processes that live long.

Garbage: Python looks for cycles each time 700 more objects live than before. Under thousands of
connections, or members of a group, that took a web process a third of its CPU, and a worker a
fifth.

Freed arrays: those of a group of 100,000 partitions have 800 kB each, and as it comes glibc gives
more than some 1.6 MB of them back to the kernel at once, which hands the same pages out again a
millisecond later, one fault of some microseconds for each. That took more than half of what a
map of its owners costs.
"""

import ctypes
import gc
import logging

OBJECTS = 50_000  # some ten megabytes
OLDER = 10  # as Python's own

# man 3 mallopt: what is free at the end of a heap above so many bytes is given back; what is larger
# than so many bytes is no part of a heap; and so many heaps, however many threads there are.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
FREE_KEPT, IN_HEAP_MAX, HEAPS_MAX = 64 * 2**20, 32 * 2**20, 2

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
