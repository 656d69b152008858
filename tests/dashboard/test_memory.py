"""What a process that lives long does with its memory."""

import ctypes
import subprocess
import sys

import pytest

FAULTS = """
import resource
import numpy as np
from dashboard import memory
{settle}
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    [np.ones(1_000_000) for _ in range(4)]
before = faults()
for _ in range(10):
    [np.ones(1_000_000) for _ in range(4)]
print(faults() - before)
"""


def faults(settle: str) -> int:
    """Of ten times four arrays of 8 MB, 1,953 pages each, in a process of its own."""
    command = [sys.executable, "-c", FAULTS.format(settle=settle)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_pages_of_freed_arrays_are_not_fetched_again() -> None:
    if not hasattr(ctypes.CDLL(None), "mallopt"):
        pytest.skip("this C library has no mallopt")
    assert 10 * faults("memory.settle()") < faults("")


def test_garbage_is_looked_for_seldom_and_not_in_what_was_loaded() -> None:
    program = (
        "import gc; from dashboard import memory; memory.settle();"
        " print(gc.get_threshold()[0], gc.get_freeze_count() > 0)"
    )
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout
    assert said.split() == [b"50000", b"True"]
