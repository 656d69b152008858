"""What counts as a crash, and the batch in hand that outlives its consumer."""

import signal
from pathlib import Path

import pytest

from agent.consumer import in_hand
from assignment.types import START, Offset, Partition, Range

PART = Range(Partition("s", 3), START, Offset(5, 1), 7)


@pytest.mark.parametrize(
    ("code", "counts"),
    [
        (1, True),
        (13, True),
        (-signal.SIGSEGV, True),
        (-signal.SIGABRT, True),
        (-signal.SIGBUS, True),
        (128 + signal.SIGABRT, True),  # as a shell tells it
        (-signal.SIGKILL, False),
        (-signal.SIGTERM, False),
        (-signal.SIGINT, False),
        (128 + signal.SIGKILL, False),
        (128 + signal.SIGTERM, False),
        (in_hand.EXIT_ENDED, False),
        (in_hand.EXIT_NO_AGENT, False),
        (in_hand.EXIT_LEASE, False),
        (in_hand.EXIT_JVM_KILLED, False),
    ],
)
def test_an_end_by_its_own_fault_is_a_crash_and_one_from_outside_is_not(
    code: int, counts: bool
) -> None:
    assert in_hand.is_crash(code) is counts


def test_the_batch_in_hand_is_that_of_the_consumer_that_wrote_it(tmp_path: Path) -> None:
    in_hand.write(tmp_path, in_hand.BatchInHand(42, (PART,), 3, letters=2))
    found = in_hand.read(tmp_path, 42)
    assert found == in_hand.BatchInHand(42, (PART,), 3, 2)
    assert in_hand.read(tmp_path, 43) is None
    in_hand.remove(tmp_path)
    assert in_hand.read(tmp_path, 42) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 42}', '{"pid": 42, "parts": [["s"]]}'])
def test_a_file_that_cannot_be_read_is_no_batch(tmp_path: Path, text: str) -> None:
    (tmp_path / in_hand.FILE).write_text(text)
    assert in_hand.read(tmp_path, 42) is None
