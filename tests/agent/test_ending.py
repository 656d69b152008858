"""What a program with threads says last, and how it ends."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PLANNING = """
import atexit, sys, threading
import numpy as np
from agent.ending import run_to_end

planned = threading.Semaphore(0)

def plan():
    numbers = np.arange(50_000) % 100
    while True:
        np.unique(numbers)  # whose destructor waits for the interpreter
        planned.release()

def main():
    atexit.register(print, "registered")
    for _ in range(3):
        threading.Thread(target=plan, daemon=True).start()
    for _ in range(100):
        planned.acquire()
    print("done")
    {last}

run_to_end(main)
"""


@pytest.mark.parametrize(
    ("last", "code", "said"),
    [
        ("return 7", 7, ""),
        ("return None", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('no Redis')", 1, "no Redis\n"),
        ("raise ValueError('a bug')", 1, "ValueError: a bug\n"),
        ("raise KeyboardInterrupt", 130, ""),
    ],
)
def test_threads_that_plan_change_nothing_about_an_end(last: str, code: int, said: str) -> None:
    process = subprocess.run(
        [sys.executable, "-c", PLANNING.format(last=last)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert process.returncode == code
    assert process.stdout == "done\nregistered\n"
    assert process.stderr.endswith(said) and "terminate" not in process.stderr


def test_a_program_without_standard_output_keeps_its_exit_code() -> None:
    """As a service that closes it has it: Python has none then, too."""
    text = "from agent.ending import run_to_end; run_to_end(lambda: 7)"
    process = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" >&- 2>&-', sys.executable, text],
        cwd=ROOT, check=False, timeout=60,
    )  # fmt: skip
    assert process.returncode == 7
