"""When the next batch is due, on a clock that the tests move."""

from dataclasses import replace

import pytest

from agent.spark.pace import EXPECTED_OF, FEW_EVENTS, Pace, Waiting, latency_goal_ms
from assignment.types import GroupSettings

FEW = Waiting(events=3, events_max=5_000, goal_ms=1_000, lease_end_ms=60_000)


def paced(*batches_ms: int, events: int = 3) -> tuple[Pace, int]:
    """After batches that took so long, one right after the other; and when the last one ended."""
    pace, now_ms = Pace(), 0
    for took_ms in batches_ms:
        pace.planned(events, now_ms)
        now_ms += took_ms
        pace.finished(now_ms)
    pace.nothing_waits()
    return pace, now_ms


def test_events_wait_as_long_as_the_goal_leaves_beside_the_batch() -> None:
    pace, now_ms = paced(400)
    assert pace.wait_ms(FEW, now_ms) == 600
    assert pace.wait_ms(replace(FEW, events=40), now_ms + 250) == 350
    assert pace.wait_ms(FEW, now_ms + 600) == 0
    assert pace.wait_ms(FEW, now_ms + 601) == 0


def test_what_is_there_after_a_batch_may_have_waited_since_that_was_planned() -> None:
    pace = Pace()
    pace.planned(3, 100)
    pace.finished(500)
    assert pace.wait_ms(FEW, 500) == 200
    pace.finished(600)  # asked again: there was no batch
    assert pace.wait_ms(FEW, 600) == 100


def test_what_comes_after_a_quiet_moment_waits_from_when_it_was_seen() -> None:
    pace, now_ms = paced(400)
    assert pace.wait_ms(FEW, now_ms) == 600
    pace.nothing_waits()  # it was revoked
    assert pace.wait_ms(FEW, now_ms + 5_000) == 600


def test_the_slowest_of_the_last_batches_is_what_is_expected() -> None:
    pace, now_ms = paced(700, *[300] * (EXPECTED_OF - 1))
    assert pace.wait_ms(FEW, now_ms) == 300
    pace, now_ms = paced(700, *[300] * EXPECTED_OF)
    assert pace.wait_ms(FEW, now_ms) == 700


@pytest.mark.parametrize(
    "waiting",
    [
        replace(FEW, events=None),
        replace(FEW, events=FEW_EVENTS + 1),
        replace(FEW, events_max=2),
        replace(FEW, goal_ms=0),
        replace(FEW, goal_ms=400),
        replace(FEW, lease_end_ms=400 + 2 * 400),
    ],
    ids=["not counted", "many", "a full batch", "no goal", "a goal as short", "end of the lease"],
)
def test_at_once(waiting: Waiting) -> None:
    pace, now_ms = paced(400)
    assert pace.wait_ms(FEW, now_ms) > 0
    assert pace.wait_ms(waiting, now_ms) == 0


def test_a_batch_of_which_nobody_knows_how_long_it_takes_is_due() -> None:
    assert Pace().wait_ms(FEW, 0) == 0


def test_as_many_as_the_batch_before_had_are_no_backlog() -> None:
    pace, now_ms = paced(400, events=3_000)
    assert pace.wait_ms(replace(FEW, events=3_000), now_ms) == 600
    assert pace.wait_ms(replace(FEW, events=3_001), now_ms) == 0


def test_a_batch_never_waits_until_before_its_lease_could_end() -> None:
    pace, now_ms = paced(400)
    soon = replace(FEW, lease_end_ms=now_ms + 2 * 400 + 50)
    assert pace.wait_ms(soon, now_ms) == 50


def test_a_goal_is_never_so_long_that_the_consumer_seems_to_hang() -> None:
    settings = GroupSettings(stream="s", partitions=1, consumer_stall_ms=1_000)
    assert latency_goal_ms(settings) == 500
    assert latency_goal_ms(replace(settings, latency_goal_ms=100)) == 100
