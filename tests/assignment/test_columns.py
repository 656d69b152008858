"""Many partitions at once: what arrays say is what one after the other says."""

import numpy as np
import pytest
from hypothesis import given as over
from hypothesis import strategies as st

from assignment.columns import NOBODY, Fences, Index, Owners, Places, whole_numbers
from assignment.errors import InvalidInput
from assignment.scripts.held import Grants, Holdings, Lock, Locks
from assignment.scripts.rows import UNREADABLE, Applied, AppliedRows, Offsets
from assignment.scripts.values import columns_of, fields_of
from assignment.types import Held, HeldState, Offset, Partition
from assignment.wire import parse_grant, parse_held

NUMBERS = st.sampled_from(
    (
        "0",
        "7",
        "19",
        "00",
        "+1",
        "-1",
        " 1",
        "1_0",
        "",
        "9" * 16,
        "1" * 17,
        "9" * 19,
        "9" * 20,
        "٣",
        "²",
        "1,s:2",
        "1,2",
        ",",
        "1,",
        ",1",
    )
)
NAMES = st.builds("{}{}{}".format, st.sampled_from(("s", "s:s", "t", "", "1")),
                  st.sampled_from((":", "", "::")), NUMBERS)  # fmt: skip


def outcome(read, *asked):
    """What came of it; of what was refused only that it was."""
    try:
        return read(*asked)
    except UNREADABLE:
        return "refused"


@over(st.lists(NAMES))
def test_many_names_are_read_as_each_is(names: list[str]) -> None:
    one_by_one = outcome(lambda: [Partition.parse(name) for name in names])
    assert outcome(lambda: list(Places.parse(names))) == one_by_one


@over(st.lists(st.builds(Partition, st.sampled_from("st"), st.integers(-2, 2**64))))
def test_partitions_of_several_streams_keep_their_order(partitions: list[Partition]) -> None:
    places = Places.of(partitions)
    assert list(places) == partitions
    index = Index("s", 3)
    at = index.at(places)
    assert list(index.places(at)) == partitions
    assert [n < 3 for n in at] == [p.stream == "s" and 0 <= p.number < 3 for p in partitions]


VALUES = st.sampled_from(
    ("5 a 9 -", "5 a 9 released", "5 a 9", "5 a 9 - -", "x a 9 -", "5 a -1 -", "", "5 a\n9 -", "\n")
)


@over(st.lists(VALUES))
def test_many_grants_are_read_as_each_is(values: list[str]) -> None:
    rows = {f"s:{number}": value for number, value in enumerate(values)}
    one_by_one = outcome(
        lambda: {Partition.parse(p): parse_grant(value) for p, value in rows.items()}
    )
    raw = [part.encode() for row in rows.items() for part in row]
    assert outcome(lambda: dict(Grants.parse(columns_of(raw)))) == one_by_one


HELD = st.sampled_from(
    ("5 running", "007 running", "5", "running 6 running", "6 restoring", "5 gone", "-5 running")
)


@over(st.lists(HELD))
def test_what_a_member_holds_is_read_as_each_is(texts: list[str]) -> None:
    owned = {f"s:{number}": text for number, text in enumerate(texts)}
    one_by_one = outcome(lambda: {Partition.parse(p): parse_held(t) for p, t in owned.items()})
    assert outcome(lambda: dict(Holdings.parse(owned))) == one_by_one


IDS = st.sampled_from(("5-1", "0-0", "05-1", "5", "5-1-1", "-5-1", f"{2**64 - 1}-1", f"{2**64}-0"))


@over(st.lists(IDS))
def test_offsets_are_read_as_each_is(texts: list[str]) -> None:
    rows = {f"s:{number}": text for number, text in enumerate(texts)}
    one_by_one = outcome(lambda: {Partition.parse(p): Offset.parse(t) for p, t in rows.items()})
    raw = [part.encode() for row in rows.items() for part in row]
    assert outcome(lambda: dict(Offsets.parse(columns_of(raw)))) == one_by_one


def test_what_was_applied() -> None:
    found = AppliedRows.parse(columns_of([b"s:0", b"7 9", b"t:1", b"8 10"]))
    assert found == {Partition("s", 0): Applied(7, 9), Partition("t", 1): Applied(8, 10)}


def test_whole_numbers_are_written_in_one_way() -> None:
    found = whole_numbers("0,10,9999999999999999", 3)
    assert found is not None and found.tolist() == [0, 10, 10**16 - 1]
    wrong = (
        "",
        ",",
        "1,",
        ",1",
        "1,,2",
        "1,2,3",
        "1",
        "01,2",
        "1,+2",
        "1,-2",
        "1, 2",
        "1,٣",
        "1,²",
    )
    for text in (*wrong, "1,2_0", "1,2.0", "1,1e3", *(f"1,{'9' * n}" for n in (17, 18, 19, 20))):
        assert whole_numbers(text, 2) is None, text


@over(st.lists(st.tuples(st.one_of(st.binary(max_size=3), st.text(max_size=2)), st.integers())))
def test_names_and_values_are_those_of_each_row(rows: list[tuple[bytes | str, int]]) -> None:
    def text(name: bytes | str) -> str:
        return name.decode() if isinstance(name, bytes) else name

    one_by_one = outcome(lambda: [(text(name), b"%d" % value) for name, value in rows])
    raw = [each for name, value in rows for each in (name, b"%d" % value)]
    found = outcome(lambda: list(zip(*columns_of(raw), strict=True)))
    assert found == one_by_one


def test_no_rows_are_no_parts() -> None:
    assert fields_of([], 2) == [[], []]


def test_locks_come_in_the_order_of_the_grants() -> None:
    raw = [b"s:0", b"5 a 9 -", b"s:1", b"6 b 7 released", b"t:2", b"8 b 12 -"]
    found = Locks.parse([b"a/5", None, b"b/8"], Grants.parse(columns_of(raw)), 10)
    assert found == {Partition("s", 0): Lock("a", 5, 0), Partition("t", 2): Lock("b", 8, 2)}


def test_rows_are_mappings() -> None:
    held = Holdings.parse({"s:1": "5 running", "t:0": "6 revoked"})
    one = Held(fence=5, state=HeldState.RUNNING)
    assert (held[Partition("s", 1)], held.get(Partition("s", 0))) == (one, None)
    assert Partition("t", 0) in held
    assert Fences.of({Partition("s", 1): 5}) == {Partition("s", 1): 5}


def test_owners_by_name() -> None:
    owners = Owners("s", ("a", "b"), np.array([1, NOBODY, 1, 0]))
    assert owners == {Partition("s", 0): "b", Partition("s", 2): "b", Partition("s", 3): "a"}
    assert owners.sets([Partition("s", n) for n in range(4)]) == {
        "a": frozenset({Partition("s", 3)}),
        "b": frozenset({Partition("s", 0), Partition("s", 2)}),
    }


def test_a_fence_beyond_64_bits_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidInput, match=r"fence|within"):
        Holdings.parse({"s:0": f"{2**64} running"})
