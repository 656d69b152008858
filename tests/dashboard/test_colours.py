"""Hues: stable, and never the same for two who are there at the same time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.models import Group, MemberRecord
from dashboard.records.queries import colours
from dashboard.records.queries.colours import HUES, Stay, hues


def test_they_are_dealt_in_turn() -> None:
    assert hues([Stay("a", 0, None), Stay("b", 1, None)]) == {"a": 0, "b": 1}


def test_who_replaces_somebody_looks_different() -> None:
    assert hues([Stay("a", 0, 10), Stay("b", 1, None), Stay("c", 10, None)])["c"] == 2


def test_after_all_were_used_the_first_free_one_comes_again() -> None:
    stays = [Stay(str(n), n, None if n % 2 else n + 20) for n in range(HUES)]
    assert hues([*stays, Stay("next", 100, None)])["next"] == 0
    assert hues([*stays, Stay("next", 100, None), Stay("after", 101, None)])["after"] == 2


@given(st.lists(st.tuples(st.integers(0, 50), st.none() | st.integers(0, 60)), max_size=30))
def test_nobody_shares_a_hue_while_there_are_enough(lives: list[tuple[int, int | None]]) -> None:
    stays = [
        Stay(str(i), start, None if length is None else start + length)
        for i, (start, length) in enumerate(sorted(lives, key=lambda life: life[0]))
    ]
    given_hues = hues(stays)
    for stay in stays:
        there = [
            other
            for other in stays
            if other.joined_at_ms <= stay.joined_at_ms
            and (other.left_at_ms is None or other.left_at_ms > stay.joined_at_ms)
        ]
        if len(there) <= HUES and not any(_crowded(stays, other) for other in there):
            assert len({given_hues[other.member_id] for other in there}) == len(there)


def _crowded(stays: list[Stay], who: Stay) -> bool:
    """More than there are hues when it joined: from then on some share."""
    return (
        sum(
            other.joined_at_ms <= who.joined_at_ms
            and (other.left_at_ms is None or other.left_at_ms > who.joined_at_ms)
            for other in stays
        )
        > HUES
    )


def test_a_member_keeps_its_hue_when_it_joins_anew() -> None:
    stays = [Stay("a", 0, 5), Stay("b", 1, None), Stay("a", 6, None)]
    assert hues(stays)["a"] == 0


# --- as they are recorded -------------------------------------------------------------------------


@pytest.fixture
def group(db: None) -> Group:
    settings = {"stream": "s", "partitions": 2}
    return Group.objects.create(name="g", settings=settings, **settings)


def stayed(group: Group, member: str, joined_ms: int, left_ms: int | None = None) -> None:
    MemberRecord.objects.create(
        group=group, member_id=member, joined_at_ms=joined_ms, left_at_ms=left_ms
    )


def test_who_came_back_has_not_left(group: Group) -> None:
    for n in range(HUES):
        stayed(group, f"m{n}", n)
    MemberRecord.objects.filter(member_id="m2").update(left_at_ms=20)
    assert colours.of_group(group.pk) == {f"m{n}": n for n in range(HUES)}
    stayed(group, "m2", 21)
    stayed(group, "next", 30)
    assert colours.of_group(group.pk)["next"] == 0, "the hue of m2 is not free"


def test_of_two_that_joined_at_once_the_name_decides(group: Group) -> None:
    stayed(group, "b", 1)
    stayed(group, "a", 1)
    assert colours.of_group(group.pk) == {"a": 0, "b": 1}


def test_others_groups_members_are_none_of_its(group: Group) -> None:
    settings = {"stream": "s", "partitions": 2}
    other = Group.objects.create(name="other", settings=settings, **settings)
    stayed(other, "a", 1)
    assert colours.of_group(group.pk) == {}
