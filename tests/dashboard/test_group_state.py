"""The one word for how a group is."""

from dataclasses import replace
from typing import Any

import pytest

from dashboard.live.attention import TICK_AGE_MAX_MS, WORDS, Facts
from dashboard.live.group_state import ORDER, SAID_FIRST, GroupState, judged
from dashboard.pages.templatetags import show

STEADY = Facts(
    members=2, conflicts=0, unowned=0, stalled=0, lag_records=10, events_per_second=100.0
)
TROUBLES: list[tuple[GroupState, dict[str, Any]]] = [
    (GroupState.CONFLICT, {"conflicts": 1}),
    (GroupState.EMPTY, {"members": 0}),
    (GroupState.NO_COORDINATOR, {"tick_age_ms": TICK_AGE_MAX_MS + 1}),
    (GroupState.UNOWNED, {"unowned": 1}),
    (GroupState.FLAPPING, {"flapping": "member m2 joined 4 times in 10 min"}),
    (GroupState.STALLED, {"stalled": 1}),
    (GroupState.REBALANCING, {"is_rebalancing": True}),
    (GroupState.UNBALANCED, {"max_minus_min": 2}),
    (GroupState.LAGGING, {"lag_records": 100_000}),
]


def test_each_trouble_has_its_word_and_nothing_is_steady_beside_it() -> None:
    assert judged(STEADY) == (GroupState.STEADY, "all partitions owned")
    for state, change in TROUBLES:
        assert judged(replace(STEADY, **change))[0] is state


def test_the_worse_of_two_troubles_is_said() -> None:
    for number, (worse, change) in enumerate(TROUBLES):
        for _, other in TROUBLES[number + 1 :]:
            assert judged(replace(STEADY, **{**other, **change}))[0] is worse


@pytest.mark.parametrize(("lag", "rate", "lags"), [(999, 0.0, False), (1_001, None, True)])
def test_lag_of_a_batch_in_hand_is_no_lag(lag: int, rate: float | None, lags: bool) -> None:
    found, _ = judged(replace(STEADY, lag_records=lag, events_per_second=rate))
    assert (found is GroupState.LAGGING) == lags


def test_every_rule_of_attention_is_a_word_and_lists_begin_with_them() -> None:
    assert ORDER[: len(WORDS)] == WORDS
    calm = {GroupState.EMPTY, GroupState.REBALANCING, GroupState.PAUSING, GroupState.PAUSED}
    assert {*SAID_FIRST} == {*WORDS, *calm}


def test_a_paused_group_says_so_unless_something_is_wrong() -> None:
    paused = replace(STEADY, is_paused=True, paused=6, pausing=4, pause="since noon, by ann")
    said = "pausing (2 of 6) since noon, by ann"
    assert judged(paused) == (GroupState.PAUSING, said)
    assert judged(replace(paused, pausing=0))[0] is GroupState.PAUSED
    assert judged(replace(paused, unowned=1))[0] is GroupState.UNOWNED
    assert judged(replace(STEADY, paused=1)) == (
        GroupState.STEADY,
        "all partitions owned, 1 paused",
    )


def test_every_word_has_an_icon() -> None:
    assert set(GroupState) <= set(show.STATES)


def test_what_is_not_known_is_no_trouble() -> None:
    unknown = replace(STEADY, conflicts=None, stalled=None, lag_records=None)
    assert judged(unknown)[0] is GroupState.STEADY
