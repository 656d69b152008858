"""What a member cannot serve is left out of its part, by the planner and by every strategy."""

from dataclasses import replace

import pytest
from hypothesis import given as over
from hypothesis import settings as limits
from hypothesis import strategies as st

from assignment.coordinator.reading import without_lock
from assignment.coordinator.record import Cause, Move
from assignment.planner.indexed import Indexed
from assignment.strategies import NAMES
from tests.assignment.rounds import live as member_of
from tests.assignment.rounds import planned
from tests.assignment.test_target import active, target
from tests.builders import NOW, grant, group, live, partition, settings

NEED_MORE = ("config", "zone", "zone_nearby")  # parameters; they deal with the same ones inside


def test_a_partition_that_its_owner_cannot_serve_goes_to_another_at_once() -> None:
    """In exchange for another: the strategy's counts stay."""
    view = group(
        live("a", (0, 1), unserved={0}), live("b", (2, 3)), settings=settings(partitions=4)
    )
    assert active(view) == {"a": [1, 3], "b": [0, 2]}
    assert target(view).change.causes == (Cause("unserved", "a"),)
    assert Move(partition(0), "a", "b") in target(view).change.moves


def test_who_was_given_it_keeps_it_while_the_old_owner_gives_it_up() -> None:
    given_to_b = group(
        live("a", (0, 1), unserved={0}, target=(1, 3)),
        live("b", (2, 3), target=(0, 2)),
        live("c", (), target=()),
        settings=settings(partitions=4, stateful=True),
    )
    assert 0 in active(given_to_b)["b"]


def test_what_nobody_can_serve_is_nobodys_until_one_can_again() -> None:
    both = [live("a", (0,), unserved={1}), live("b", (), unserved={1})]
    for stateful in (True, False):
        told = settings(partitions=2, stateful=stateful)
        assert active(group(*both, settings=told)) == {"a": [0], "b": []}
        again = group(both[0], replace(both[1], unserved=frozenset()), settings=told)
        assert active(again) == {"a": [0], "b": [1]}


def test_who_cannot_serve_a_partition_is_able_though_nobody_takes_its_lock() -> None:
    old = NOW - 400_000
    view = group(
        live("a", (1,), target=(0, 1), unserved={0}),
        grants={0: grant("a", until_ms=old, ended="released")},
    )
    assert not without_lock(view)


@pytest.mark.parametrize("strategy", [n for n in NAMES if n not in NEED_MORE])
@limits(max_examples=25)  # of each strategy
@over(st.data())
def test_no_strategy_gives_a_member_what_it_cannot_serve(
    strategy: str, data: st.DataObject
) -> None:
    numbers = st.frozensets(st.integers(0, 5), max_size=3)
    members = [
        live(name, (), unserved=data.draw(numbers), zone=data.draw(st.sampled_from("xy")))
        for name in "abc"
    ]
    told = settings(partitions=6, strategy=strategy)
    rows = target(group(*members, settings=told)).rows
    given_to = {p: m for m, row in rows.items() for p in row.active}
    for n in range(6):
        able = {m.member_id for m in members if n not in m.unserved}
        assert (partition(n) in given_to) == bool(able)
        assert given_to.get(partition(n), "") in able | {""}


@over(st.permutations(range(6)), st.frozensets(st.integers(0, 5), max_size=3))
def test_a_target_with_exchanged_partitions_is_a_fixed_point(
    order: list[int], unserved: frozenset[int]
) -> None:
    members = [live("a", order[:3], unserved=unserved), live("b", order[3:])]
    first = active(group(*members, settings=settings(partitions=6)))
    done = [live("a", first["a"], unserved=unserved), live("b", first["b"])]
    assert active(group(*done, settings=settings(partitions=6))) == first


def test_the_planner_gives_it_in_no_role_and_evens_out_with_others() -> None:
    members = (member_of("a", "12", unserved="1"), member_of("b", "34", standby={"1": 0}))
    assert planned(*members, partitions="1234") == {"a": "a2 r1 l3", "b": "a134"}


def test_a_learner_that_cannot_serve_it_does_not_become_owner() -> None:
    members = (member_of("a", "12"), member_of("b", ready="1", unserved="1"))
    assert planned(*members, partitions="12") == {"a": "a12", "b": "l2"}


def test_one_that_cannot_serve_a_partition_makes_no_plan_look_at_all_members_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With 100,000 partitions and 1,000 members that is some seconds of each plan."""
    asked: list[int] = []
    able = Indexed.able
    monkeypatch.setattr(Indexed, "able", lambda of, p: asked.append(p) or able(of, p))
    members = [
        live(m, range(n, 200, 4), unserved={1} if m == "a" else ()) for n, m in enumerate("abcd")
    ]
    kept = active(group(*members, settings=settings(partitions=200, stateful=True)))
    assert kept == {m: [*range(n, 200, 4)] for n, m in enumerate("abcd")}
    assert len(asked) <= 1
