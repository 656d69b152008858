"""Cycles of objects in processes that live long.

Python looks for them each time 700 more objects live than before. Under thousands of connections,
or members of a group, that took a web process a third of its CPU, and a worker a fifth.
"""

import gc

OBJECTS = 50_000  # some ten megabytes
OLDER = 10  # as Python's own


def settle() -> None:
    """What is loaded by now stays: no collection goes through it again. Later ones are seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS, OLDER, OLDER)
