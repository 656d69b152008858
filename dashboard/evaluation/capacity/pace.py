"""How fast this machine is now, by a walk through objects that no cache holds.

What a system takes of a virtual machine differs by half from hour to hour, for its memory and its
caches are its neighbours' too. Sums in a register cost the same all day; this walk does not, and
what it costs goes up and down with what a heartbeat costs. So CPU is told for a machine on which
it takes STANDARD_S.
"""

import random
import time
from functools import cache

OBJECTS = 2_000_000  # with the table that finds them 250 MB
WALKS = 3  # the middle one counts
STANDARD_S = 1.0  # of CPU


@cache
def _objects() -> tuple[list[int], dict[int, object]]:
    numbers = list(range(OBJECTS))
    table = {number: object() for number in numbers}
    random.Random(0).shuffle(numbers)
    return numbers, table


def walk_s() -> float:
    """CPU seconds."""
    numbers, table = _objects()
    return sorted(_walked_s(numbers, table) for _ in range(WALKS))[WALKS // 2]


def _walked_s(numbers: list[int], table: dict[int, object]) -> float:
    began_s, found = time.process_time(), 0
    for number in numbers:  # finding an object counts who refers to it, in the object itself
        found += table[number] is not None
    return time.process_time() - began_s
