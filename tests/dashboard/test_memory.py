"""What a process that lives long does with its memory."""

import ctypes
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from dashboard import memory

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


LARGE = """
from pathlib import Path
from dashboard import memory
def has(what):
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) >> 10
kept = [str(n) * 20 for n in range(1_000_000)]
before = has("Rss:")
known = memory.enlarge()
memory.enlarge(known)
print(has("AnonHugePages:"), has("Rss:") - before)
"""


def test_memory_goes_into_large_pages_and_does_not_grow() -> None:
    """Most of 150 MB."""
    allowed = memory._LARGE_ALLOWED
    if not allowed.exists() or "[never]" in allowed.read_text():
        pytest.skip("this machine has no large pages")
    if tuple(map(int, platform.release().split(".")[:2])) < (6, 1):
        pytest.skip("this kernel makes them by and by")
    command = [sys.executable, "-c", LARGE]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    large, grown = map(int, said.split())
    assert large >= 100
    assert grown <= 30


def test_what_is_mapped_is_told_apart() -> None:
    lines = """\
10000000-10800000 r--p 00000000 fd:00 12 /usr/lib/libpython3.11.so
10800000-11000000 rw-p 00800000 fd:00 12 /usr/lib/libpython3.11.so
20100000-20900000 rw-p 00000000 00:00 0 [heap]
30000000-30800000 rw-p 00000000 00:00 0
30800000-30801000 ---p 00000000 00:00 0
30801000-31001000 rw-p 00000000 00:00 0
40000000-40100000 rw-p 00000000 00:00 0
50000000-50400000 rw-p 00000000 00:00 0 [anon:cpython:pymalloc]
60000000-60400000 rw-s 00000000 00:00 0 /dev/shm/one
70000000-70800000 rw-p 00000000 00:00 0 [stack]"""
    found = list(memory._enlargeable(lines.splitlines()))
    assert found == [
        (0x20200000, 0x20800000),
        (0x30000000, 0x30800000),
        (0x50000000, 0x50400000),
    ]


def test_a_machine_that_wants_no_large_pages_is_left_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "enabled"
    said.write_text("always madvise [never]")
    monkeypatch.setattr(memory, "_LARGE_ALLOWED", said)
    with pytest.raises(OSError, match="has none"):
        memory.enlarge()
    memory._go_on_enlarging()  # tries no second time
    monkeypatch.setattr(memory, "_LARGE_ALLOWED", tmp_path / "not there")
    memory._go_on_enlarging()
