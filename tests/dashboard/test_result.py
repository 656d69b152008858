"""Rows from changelogs: partitions are merged, the last value of a key counts."""

from typing import Any

from assignment.types import Offset, Partition
from assignment.wire import ChangelogEntry, pack_changes
from dashboard.evaluation import result


def commit(number: int, changes: dict[str, Any]) -> ChangelogEntry:
    return ChangelogEntry(
        entry_id=f"{number}-0",
        from_offset=Offset(number - 1, 0),
        to_offset=Offset(number, 0),
        fence=1,
        total=number,
        events=1,
        changes=pack_changes(changes),
        ids=b"",
    )


def value(flights: int, delays: dict[str, int]) -> dict[str, Any]:
    return {
        "flights": flights,
        "cancelled": flights - sum(delays.values()),
        "diverted": 0,
        "delay_count": sum(delays.values()),
        "delay_sum": sum(int(minutes) * count for minutes, count in delays.items()),
        "seats_flown": 100 * flights,
        "wet_departures": 1,
        "delays": delays,
        "airline": "United",
        "origin_name": "Newark",
        "dest_name": "unknown",
    }


def test_partitions_are_merged_and_the_last_value_counts() -> None:
    route = "route|UA|EWR|IAH"
    first = [commit(1, {route: value(1, {"5": 1})}), commit(2, {route: value(3, {"5": 1, "9": 1})})]
    second = [commit(1, {route: value(1, {"-3": 1}), "aircraft|N1|EWR|IAH": [1, 1, 1]})]
    frame = result.merged({Partition("flights", 0): first, Partition("flights", 1): second})
    (row,) = frame.to_dict("records")
    assert (row["carrier"], row["origin"], row["dest"]) == ("UA", "EWR", "IAH")
    assert (row["flights"], row["cancelled"], row["delay_count"]) == (4, 1, 3)
    assert (row["delay_sum"], row["delay_p95"], row["seats_flown"]) == (11, 9, 400)
    assert (row["airline"], row["dest_name"]) == ("United", "unknown")


def test_deleted_key_gives_no_row() -> None:
    route = "route|UA|EWR|IAH"
    entries = [commit(1, {route: value(1, {"5": 1})}), commit(2, {route: None})]
    assert result.merged({Partition("flights", 0): entries}).empty


def test_keys_are_those_that_are_left() -> None:
    entries = [commit(1, {"a": 1, "b": 1}), commit(2, {"a": 2, "b": None, "c": 1})]
    assert result.keys_of(entries) == 2


def test_percentile_is_the_nearest_rank() -> None:
    assert result.nearest_rank_95({}) is None
    assert result.nearest_rank_95({7: 1}) == 7
    assert result.nearest_rank_95(dict.fromkeys(range(1, 21), 1)) == 19
    assert result.nearest_rank_95(dict.fromkeys(range(1, 22), 1)) == 20
