"""A map of ownership: packed and read again, changed by tenures, as a page's script reads it."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignment import ownership
from assignment.ownership import STILL, OwnershipMap, Row

SIZE = 4
FIRST: list[Row] = [(0, "a", 7, 100, STILL), (1, "b", 8, 110, STILL), (3, "a", 9, 120, STILL)]


def cells(found: OwnershipMap) -> list[tuple[str | None, int, int]]:
    columns = found.owners(), found.fence.tolist(), found.since_ms.tolist()
    return list(zip(*columns, strict=True))


def first() -> OwnershipMap:
    return ownership.changed(ownership.nobody(SIZE), FIRST, 200)


def test_who_holds_what_is_who_began_and_has_not_ended() -> None:
    nobody = (None, 0, 0)
    assert cells(first()) == [("a", 7, 100), ("b", 8, 110), nobody, ("a", 9, 120)]
    later: list[Row] = [
        (0, "a", 7, 100, 300),
        (0, "b", 10, 310, STILL),
        (3, "a", 9, 120, 305),
        (2, "c", 11, 306, 309),
        (1, "b", 8, 110, 900),
    ]
    then = ownership.changed(first(), later, 400)
    assert cells(then) == [("b", 10, 310), ("b", 8, 110), nobody, nobody]
    assert then.loads() == {"a": 0, "b": 2, "c": 0}


def test_what_is_told_again_changes_nothing() -> None:
    assert cells(ownership.changed(first(), FIRST, 250)) == cells(first())


def test_of_two_that_hold_it_the_higher_fence_is_shown_and_it_is_said() -> None:
    more: list[Row] = [(1, "c", 12, 150, STILL), (2, "a", 14, 150, STILL), (2, "b", 13, 150, 500)]
    then = ownership.changed(first(), more, 200)
    assert [owner for owner, _, _ in cells(then)] == ["a", "c", "a", "a"]
    assert then.several == {1, 2}


@given(
    st.lists(
        st.none() | st.tuples(st.sampled_from("abc"), st.integers(1, 2**53), st.integers(1, 2**47)),
        max_size=40,
    )
)
def test_a_packed_map_is_read_as_it_was(held: list[tuple[str, int, int] | None]) -> None:
    rows = [
        (number, name, fence, since, STILL)
        for number, cell in enumerate(held)
        if cell is not None
        for name, fence, since in [cell]
    ]
    made = ownership.changed(ownership.nobody(len(held)), rows, 2**47)
    assert cells(ownership.unpack(ownership.pack(made))) == cells(made)


def test_names_that_hold_nothing_are_not_kept() -> None:
    gone = ownership.changed(first(), [(1, "b", 8, 110, 300)], 300)
    assert gone.names == ("a", "b")
    assert ownership.unpack(ownership.pack(gone)).names == ("a",)


def test_a_packed_map_is_small() -> None:
    rows = [(n, f"member-{n % 50}", 2**33 + n, 10**12 + n, STILL) for n in range(20_000)]
    made = ownership.changed(ownership.nobody(20_000), rows, 10**13)
    assert len(ownership.pack(made)) < 20_000 * 5


def test_what_is_cut_off_is_refused() -> None:
    with pytest.raises(ValueError, match="cut off"):
        ownership.unpack(ownership.pack(first())[:-3])


def test_a_script_reads_arrays_that_begin_at_multiples_of_eight() -> None:
    told = ownership.encode(first(), {"at_ms": 200})
    length = int.from_bytes(told[:4], "little")
    head = json.loads(told[4 : 4 + length])
    assert head == {"names": ["a", "b"], "size": SIZE, "several": [], "at_ms": 200}
    assert (4 + length) % 8 == 0
    floats = np.frombuffer(told, "<f8", 2 * SIZE, 4 + length)
    owners = np.frombuffer(told, "<i4", SIZE, 4 + length + floats.nbytes)
    assert floats.tolist() == [7, 8, 0, 9, 100, 110, 0, 120]
    assert owners.tolist() == [0, 1, -1, 0]
