"""What of a stream may go."""

from assignment.coordinator import trimming
from assignment.types import Offset


def test_whoever_knows_a_reader_its_offsets_count() -> None:
    known = {"kept": True, "forgotten by redis": True}
    found = trimming.readers(known, {"kept", "only in redis"})
    assert found == ["forgotten by redis", "kept", "only in redis"]


def test_one_group_that_wants_everything_kept_is_enough() -> None:
    assert trimming.readers({"a": True, "b": False}, {"a", "b"}) == []
    assert trimming.lowest([]) == {}


def test_entries_go_as_far_as_every_reader_has_got() -> None:
    committed = [["9-1", "7-0", "3-0"], ["10-0", "6-5", "0-0"]]
    assert trimming.lowest(committed) == {0: Offset(9, 1), 1: Offset(6, 5)}
