"""One cause has one rebalance, with all rounds that it takes."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from assignment.coordinator.rounds import Earlier, Why, continued
from assignment.types import Reason


class History:
    """Rounds as they come; a rebalance is known by the number of its first round."""

    def __init__(self) -> None:
        self.rounds: list[Earlier] = []

    def round(self, *causes: tuple[Reason, str], moved: int = 0, learning: int = 0) -> int:
        why = tuple(Why(*cause) for cause in causes)
        number = continued(why, moved, lambda: reversed(self.rounds))
        whole = len(self.rounds) if number is None else number
        found = Earlier(rebalance=whole, causes=why, learning=learning, is_open=True)
        self.rounds.append(found)
        return whole

    def end(self) -> None:
        self.rounds = [replace(one, is_open=False) for one in self.rounds]


def wholes(*rounds: Sequence[tuple[Reason, str]]) -> list[int]:
    history = History()
    return [history.round(*causes) for causes in rounds]


J, A, R = Reason.JOIN, Reason.ABLE, Reason.READY


def test_three_joins_of_three_rounds_each_are_three_rebalances() -> None:
    names = ("a", "b", "c")
    assert (
        wholes(*([(reason, m)] for m in names for reason in (J, A, R)))
        == [0] * 3 + [3] * 3 + [6] * 3
    )


def test_joins_between_each_other_keep_their_rounds() -> None:
    found = wholes([(J, "a")], [(J, "b")], [(A, "a")], [(A, "b")], [(R, "a")], [(R, "b")])
    assert found == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize(
    "reason",
    sorted(set(Reason) - {R, A, Reason.LEAVE, Reason.NEXT_ROUND}),
)
def test_a_new_cause_begins_a_rebalance(reason: Reason) -> None:
    assert wholes([(J, "a")], [(reason, "a")]) == [0, 1]
    assert wholes([(J, "a")], [(R, "a"), (reason, "b")]) == [0, 1], "beside a later round too"


def test_whoever_becomes_able_again_has_a_cause_of_its_own() -> None:
    assert wholes([(J, "a")], [(A, "a")], [(Reason.UNABLE, "a")], [(A, "a")]) == [0, 0, 2, 3]
    assert wholes([(J, "a"), (A, "a")], [(A, "a")]) == [0, 1]


def test_a_member_is_able_for_its_join_however_late() -> None:
    history = History()
    assert history.round((J, "a")) == 0
    history.end()
    assert history.round((Reason.MANUAL, "")) == 1
    assert history.round((A, "a")) == 0


def test_a_ready_learner_belongs_to_who_made_it_learn() -> None:
    history = History()
    history.round((J, "a"))
    history.round((J, "b"))
    history.end()
    assert history.round((Reason.SCALE_DOWN, ""), learning=2) == 2
    assert history.round((R, "a"), moved=1, learning=1) == 2
    assert history.round((R, "b"), moved=1) == 2


def test_leaving_and_left_are_one() -> None:
    assert wholes([(Reason.LEAVING, "a")], [(R, "b")], [(Reason.LEAVE, "a")]) == [0, 0, 0]
    assert wholes([(J, "a")], [(Reason.LEAVE, "a")]) == [0, 1]


@pytest.mark.parametrize(("moved", "found"), [(0, 0), (2, 2)])
def test_who_was_told_to_leave_ends_its_scale_down_with_nothing(moved: int, found: int) -> None:
    history = History()
    history.round((Reason.SCALE_DOWN, ""), learning=1)
    history.round((R, "b"), moved=1)
    assert history.round((Reason.LEAVE, "a"), moved=moved) == found


def test_the_next_round_of_a_change_is_the_last_ones() -> None:
    assert wholes([(Reason.MANUAL, "")], [(Reason.NEXT_ROUND, "")]) == [0, 0]


def test_without_a_history_everything_begins() -> None:
    for reason in Reason:
        assert wholes([(reason, "a")]) == [0]


def test_what_is_new_asks_for_no_history() -> None:
    def asked() -> Iterable[Earlier]:
        raise AssertionError("read for nothing")

    assert continued((Why(J, "a"), Why(R, "b")), 0, asked) is None
    assert continued((), 0, asked) is None
