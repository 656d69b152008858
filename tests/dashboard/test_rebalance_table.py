"""`rebalance_table` refuses what it cannot do; its rows, its test and its figures as values."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.management import call_command

from assignment.scripts.lock_events import LockEvent
from dashboard.demo.tree import TreeFailed
from dashboard.evaluation.chaos.history import History
from dashboard.evaluation.judge import Commits, Content
from dashboard.evaluation.table import ROWS, Measured, Row, Wanted, made, measured, result
from dashboard.evaluation.table_report import lines
from tests.dashboard.chaos_histories import FENCE, ONE, P0, P1, TWO, commit, happened

STICKY = Row(coordination="server", strategy="sticky", rebalances=1)
AVERAGELY = Row(coordination="client", strategy="averagely", rebalances=1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--messages", "999"), "messages 999 is not within 1000 and"),
        (("--messages", "many"), "invalid int value"),
        (("--repeat", "0"), "repeat 0 is not within 1 and 100"),
        (("--consumer", "storm"), "there is no consumer 'storm': choose from light, spark"),
        (("--rows", "11"), "rows '11' is no list of numbers from 1 to 10"),
        (("--rows", "first"), "is no list of numbers"),
        (("--nonsense",), "unrecognized arguments"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        call_command("rebalance_table", *arguments)
    assert ended.value.code == 3
    said = [line for line in capsys.readouterr().err.splitlines() if "evenkeel" in line]
    assert len(said) == 1 and sentence in said[0]


def test_every_row_is_there_with_one_rebalance_and_with_two() -> None:
    ways = {
        ("server", "sticky", False),
        ("server", "averagely", False),
        ("server", "sticky", True),
        ("client", "averagely", False),
        ("client", "sticky", False),
    }
    assert {(r.coordination, r.strategy, r.learners, r.rebalances) for r in ROWS} == {
        (*way, count) for way in ways for count in (1, 2)
    }
    assert all(Wanted().asked(row).settings["stateful"] == row.learners for row in ROWS)


def test_the_rows_take_turns_and_each_turn_has_another_victim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[tuple[Row, int]] = []

    def run(wanted: Wanted, row: Row, number: int) -> Measured:
        order.append((row, number))
        return Measured(
            took_ms=1, rebalances=row.rebalances, partitions_moved=1, paused_partition_ms=1
        )

    monkeypatch.setattr("dashboard.evaluation.table.one_run", run)
    made(Wanted(repeat=2), (STICKY, AVERAGELY), lambda line: None)
    assert order == [(STICKY, 0), (AVERAGELY, 0), (STICKY, 1), (AVERAGELY, 1)]


def test_a_run_whose_messages_ended_before_it_rebalanced_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved = iter([0, 1, 0, 0, 0])

    def run(wanted: Wanted, row: Row, number: int) -> Measured:
        return Measured(
            took_ms=1, rebalances=next(moved), partitions_moved=3, paused_partition_ms=1
        )

    monkeypatch.setattr("dashboard.evaluation.table.one_run", run)
    said: list[str] = []
    found = made(Wanted(repeat=1), (STICKY,), said.append)
    assert found["rows"][0]["partitions_moved"] == 3
    assert "0 rebalances before the last message" in said[0]
    with pytest.raises(TreeFailed, match="1000 messages end before"):
        made(Wanted(messages=1_000, repeat=1), (STICKY,), said.append)


def test_runs_that_were_measured_outlive_one_that_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The second run of the second row fails."""

    def run(wanted: Wanted, row: Row, number: int) -> Measured:
        if (row.strategy, number) == ("averagely", 1):
            raise TreeFailed("the messages were not produced")
        return Measured(
            took_ms=7, rebalances=row.rebalances, partitions_moved=1, paused_partition_ms=1
        )

    monkeypatch.setattr("dashboard.evaluation.table.one_run", run)
    with pytest.raises(SystemExit) as ended:
        call_command(
            "rebalance_table", "--rows", "1,2", "--repeat", "2", "--json", "--out", str(tmp_path)
        )
    assert ended.value.code == 3
    said = json.loads(capsys.readouterr().out)
    assert said["error"] == "the messages were not produced"
    stored = json.loads((tmp_path / "rebalance_table.json").read_text())
    assert [row["runs_ms"] for row in stored["rows"]] == [[7, 7], [7]]
    assert said["rows"] == stored["rows"]


def test_a_row_has_the_median_and_the_spread_of_its_runs() -> None:
    def runs(*times: int) -> list[Measured]:
        return [
            Measured(took_ms=t, rebalances=1, partitions_moved=1, paused_partition_ms=2 * t)
            for t in times
        ]

    found = result({STICKY: runs(900, 1_100, 1_000), AVERAGELY: runs(1_000, 1_300, 1_100)}, "light")
    assert found["rows"][0] == {
        "coordination": "server",
        "strategy": "sticky",
        "consumer": "light",
        "learners": False,
        "rebalances": 1,
        "runs_ms": [900, 1_100, 1_000],
        "median_ms": 1_000,
        "min_ms": 900,
        "max_ms": 1_100,
        "partitions_moved": 1,
        "paused_partition_ms": 2_000,
    }
    once = found["test"]["once_ms"]
    assert (once["pairs"], once["median_difference"], once["p"]) == (3, -100, 0.25)
    assert found["test"]["twice_ms"]["pairs"] == 0
    assert found["test"]["all_as_share"]["median_difference"] == pytest.approx(-0.1)
    assert len([*lines(found)]) == 2 + len(found["test"])


def ran(row: Row, events: list[LockEvent], commits: Commits) -> History:
    """From 10 s to 13 s."""
    return History(
        asked=Wanted().asked(row),
        began_ms=10_000,
        struck_ms=10_000,
        healed_ms=None,
        ended_ms=13_000,
        faults=(),
        eras=(Content(stream={}, commits=commits, events=events),),
        acknowledged=frozenset(),
    )


def test_the_clock_ends_with_the_last_commit_and_pauses_are_between_two_owners() -> None:
    """light-1 releases partition 0 at 12 s; light-2 has committed in it 700 ms after light-1."""
    events = [
        happened("acquired", 1_000, ONE, FENCE),
        happened("acquired", 1_000, TWO, FENCE, P1),
        happened("released", 12_000, ONE, FENCE),
        happened("acquired", 12_100, TWO, FENCE + 1),
    ]
    commits = {
        P0: [commit(11_900, FENCE, 0, 1), commit(12_600, FENCE + 1, 1, 2)],
        P1: [commit(12_000, FENCE, 0, 1), commit(13_000, FENCE, 1, 2)],
    }
    history = ran(STICKY, events, commits)
    found = Measured(took_ms=3_000, rebalances=1, partitions_moved=1, paused_partition_ms=700)
    assert measured(history, "light-1") == found
    assert measured(replace(history, struck_ms=12_200), "light-1").partitions_moved == 0


def test_one_who_comes_back_after_the_last_message_has_not_rebalanced_twice() -> None:
    """light-1 leaves, and averagely moves both partitions; it is back at 14 s."""
    events = [
        happened("acquired", 1_000, ONE, FENCE),
        happened("acquired", 1_000, TWO, FENCE, P1),
        happened("acquired", 12_100, TWO, FENCE + 1),
        happened("acquired", 12_100, "light-3-cccccc", FENCE + 1, P1),
        happened("acquired", 14_000, "light-1-dddddd", FENCE + 2),
    ]
    history = ran(AVERAGELY, events, {})
    assert measured(history, "light-1").rebalances == 1
    assert measured(replace(history, ended_ms=14_500), "light-1").rebalances == 2
