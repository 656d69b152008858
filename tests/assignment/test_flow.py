"""Unequal subscriptions: against all assignments there are, and against single exchanges alone."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given as over
from hypothesis import strategies as st

from assignment.errors import InvalidInput
from assignment.strategies import deal, flow, levels, sticky
from assignment.strategies.dense import NOBODY, Owners
from assignment.strategies.exchange import Flow, exchange


@dataclass(frozen=True)
class Problem:
    """sizes [T], subscribed [T, N], previous [P]."""

    sizes: npt.NDArray[np.int64]
    subscribed: npt.NDArray[np.bool_]
    previous: Owners

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        return np.concatenate(([0], np.cumsum(self.sizes)))

    @property
    def readers(self) -> npt.NDArray[np.bool_]:
        """[P, N]"""
        return np.repeat(self.subscribed, self.sizes, axis=0)

    def owners(self) -> Owners:
        return sticky.owners_of(self.previous, self.starts, self.subscribed)

    def cost(self, owners: npt.NDArray[np.integer]) -> tuple[list[int], int]:
        """Loads from the largest down, and how many partitions left their owner."""
        loads = np.bincount(owners[owners != NOBODY], minlength=self.subscribed.shape[1])
        moves = (self.previous != NOBODY) & (self.previous != owners)
        return sorted(loads.tolist(), reverse=True), int(moves.sum())


@st.composite
def problems(draw: st.DrawFn, topics_max: int, members_max: int, size_max: int) -> Problem:
    topics = draw(st.integers(1, topics_max))
    members = draw(st.integers(1, members_max))
    sizes = np.array([draw(st.integers(0, size_max)) for _ in range(topics)])
    rows = st.lists(st.booleans(), min_size=members, max_size=members)
    subscribed = np.array([draw(rows) for _ in range(topics)], dtype=np.bool_)
    previous = np.full(sizes.sum(), NOBODY, dtype=np.int32)
    for partition, reads in enumerate(np.repeat(subscribed, sizes, axis=0)):
        choices = [NOBODY, *np.flatnonzero(reads).tolist()]
        previous[partition] = draw(st.sampled_from(choices))
    return Problem(sizes, subscribed, previous)


def everything(problem: Problem) -> Iterator[npt.NDArray[np.integer]]:
    """Every way to give each partition to one of its readers."""
    choices = [np.flatnonzero(r) if r.any() else np.array([NOBODY]) for r in problem.readers]
    shape = [len(c) for c in choices]
    for number in range(int(np.prod(shape))):
        picks = np.unravel_index(number, shape) if shape else ()
        yield np.array([c[i] for c, i in zip(choices, picks, strict=True)], dtype=np.int32)


def squares(loads: list[int]) -> int:
    return sum(load * load for load in loads)


@over(problems(3, 4, 2))
def test_no_assignment_is_more_even_or_as_even_with_fewer_moves(problem: Problem) -> None:
    loads, moves = problem.cost(problem.owners())
    for other in everything(problem):
        others, others_moves = problem.cost(other)
        assert (squares(loads), moves) <= (squares(others), others_moves)
        assert loads <= others, "the largest loads first: the least of all, compared as words are"


@over(problems(6, 12, 40))
def test_every_partition_that_is_read_has_a_reader(problem: Problem) -> None:
    owners, readers = problem.owners(), problem.readers
    assert ((owners == NOBODY) == ~readers.any(axis=1)).all()
    assert readers[np.arange(len(owners)), owners][owners != NOBODY].all()


@over(problems(6, 12, 40))
def test_levels_in_bulk_end_where_single_exchanges_end(problem: Problem) -> None:
    """Single chains from the first filling are slower, and need no halving to be right."""
    pool_of_topic, readers = flow._pools(problem.subscribed)
    pool = np.repeat(pool_of_topic, problem.sizes)
    kept = np.zeros(readers.shape, dtype=np.int64)
    held = problem.previous != NOBODY
    np.add.at(kept, (pool[held], problem.previous[held]), 1)
    sizes = np.bincount(pool, minlength=len(readers)) * readers.any(axis=1)
    single = Flow.of(flow._filled(kept, readers, sizes), kept, readers)
    exchange(single)
    expected = sorted(single.loads.tolist(), reverse=True), np.maximum(kept - single.flow, 0).sum()
    assert problem.cost(problem.owners()) == expected


@over(problems(6, 12, 40))
def test_levels_leave_no_chain_that_would_make_loads_more_even(problem: Problem) -> None:
    _, readers = flow._pools(problem.subscribed)
    kept = np.zeros(readers.shape, dtype=np.int64)
    state = Flow.of(flow._filled(kept, readers, 7 * readers.any(axis=1)), kept, readers)
    levels.level(state)
    before = np.sort(state.loads)
    exchange(state)
    assert (np.sort(state.loads) == before).all()


@over(problems(6, 12, 40))
def test_what_was_assigned_is_not_moved_again(problem: Problem) -> None:
    owners = problem.owners()
    assert (Problem(problem.sizes, problem.subscribed, owners).owners() == owners).all()


def test_one_too_many_at_one_end_moves_along_everybody() -> None:
    """Topic i is read by members i and i + 1, and the last member has nothing yet."""
    count = 200
    subscribed = np.eye(count, dtype=np.bool_) | np.eye(count, k=1, dtype=np.bool_)
    sizes = np.ones(count, dtype=np.int64)
    sizes[[0, -1]] = 2, 0
    previous = np.maximum(np.arange(-1, count - 1), 0).astype(np.int32)
    problem = Problem(sizes, subscribed, previous)
    assert problem.cost(problem.owners()) == ([1] * count, count - 1)


def test_an_owner_that_does_not_read_is_refused_by_number() -> None:
    problem = Problem(
        np.array([1, 1]),
        np.array([[True, False], [True, True]]),
        np.array([1, 0], dtype=np.int32),
    )
    with pytest.raises(InvalidInput, match="member 1 holds partitions that it does not read"):
        problem.owners()


@pytest.mark.parametrize("wrong", [-2, 2])
def test_an_owner_that_is_no_member_is_refused_by_number(wrong: int) -> None:
    previous = np.array([0, wrong], dtype=np.int32)
    with pytest.raises(InvalidInput, match=f"previous owner {wrong} is not one of 2 members"):
        sticky.owners_of(previous, np.array([0, 2]), np.ones((1, 2), dtype=np.bool_))


# --- trim -----------------------------------------------------------------------------------------


@over(problems(4, 6, 30), st.integers(1, 40), st.data())
def test_the_highest_are_given_up_by_number_then_topic(
    problem: Problem, piece_max: int, data: st.DataObject
) -> None:
    holder, starts = problem.previous, problem.starts
    held = np.bincount(holder + 1, minlength=problem.subscribed.shape[1] + 1)[1:]
    excess = np.array([data.draw(st.integers(0, int(n))) for n in held])
    topic = np.repeat(np.arange(len(problem.sizes)), problem.sizes)
    number = np.arange(len(holder)) - starts[topic]
    from_top = np.lexsort((topic, number))[::-1]
    expected = {int(p) for h, n in enumerate(excess) for p in from_top[holder[from_top] == h][:n]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deal, "_PIECE_MAX", piece_max)
        found = deal.surplus(holder, excess, starts).tolist()
    assert len(found) == len(expected)
    assert set(found) == expected
