"""What of a stream may go."""

from assignment.coordinator import trimming
from assignment.coordinator.trimming import Kept
from assignment.types import GroupSettings, Offset


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


def test_a_stream_keeps_what_any_of_its_groups_wants() -> None:
    long = GroupSettings(stream="s", partitions=4, events_kept_seconds=9, events_kept_bytes=400)
    large = GroupSettings(stream="s", partitions=4, events_kept_seconds=1, events_kept_bytes=4_000)
    assert trimming.kept([long, large]) == Kept(ms=9_000, partition_bytes=1_000)
    assert trimming.kept([]) == Kept()
