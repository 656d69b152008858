"""Time without an owner, and with more than one."""

import pytest
from hypothesis import given as over
from hypothesis import strategies as st

from assignment.errors import InvalidInput
from dashboard.evaluation.figures import Coverage, Interval, coverage


def tenure(partition: int, start_ms: int, end_ms: int | None) -> Interval:
    return Interval(
        partition=str(partition), member="a", fence=1, started_ms=start_ms, ended_ms=end_ms
    )


def test_a_gap_between_owners_counts_for_each_partition() -> None:
    tenures = [tenure(0, 0, 40), tenure(0, 60, None), tenure(1, 0, None)]
    assert coverage(tenures, ("0", "1", "2"), 10, 110) == Coverage(
        unowned_ms=20 + 100, overlap_ms=0
    )
    assert coverage(tenures, ("0", "1"), 10, 110).unowned_ms == 20


def test_two_owners_at_once_are_an_overlap() -> None:
    tenures = [tenure(0, 0, 50), tenure(0, 30, 100), tenure(0, 40, 45)]
    assert coverage(tenures, ("0",), 0, 100) == Coverage(unowned_ms=0, overlap_ms=20 + 5)


def test_touching_tenures_are_neither_gap_nor_overlap() -> None:
    tenures = [tenure(0, 50, 100), tenure(0, 0, 50)]
    assert coverage(tenures, ("0",), 0, 100) == Coverage(0, 0)


def test_a_window_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(InvalidInput, match="ends at 5, before its start 6"):
        coverage([], ("0",), 6, 5)


@over(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 30), st.none() | st.integers(0, 30)),
        max_size=8,
    )
)
def test_coverage_equals_counting_every_millisecond(rows: list[tuple[int, int, int]]) -> None:
    tenures = [tenure(*row) for row in rows]
    owners = [
        sum(t.partition == str(p) and t.holds_at(ms) for t in tenures)
        for p in range(3)
        for ms in range(5, 25)
    ]
    assert coverage(tenures, ("0", "1", "2"), 5, 25) == Coverage(
        unowned_ms=owners.count(0), overlap_ms=sum(max(0, n - 1) for n in owners)
    )
