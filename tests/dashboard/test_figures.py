"""What a change of the group did, on small histories written by hand."""

from dataclasses import replace

from dashboard.evaluation import agent_logs, figures
from dashboard.evaluation.figures import Change, Commit, History, Interval, Takeover

CHANGE = Change(
    name="add",
    quiet_ms=0,
    stirred_ms=1_000,
    began_ms=1_000,
    ended_ms=3_000,
    converged=True,
    loads={"a": 2, "b": 1},
)


def commits(partition: str, fence: int, *times: int) -> list[Commit]:
    return [Commit(at, partition, fence) for at in times]


def interval(partition: str, member: str, fence: int, started_ms: int) -> Interval:
    return Interval(partition=partition, member=member, fence=fence, started_ms=started_ms)


def of_change(history: History, change: Change, *others: Change) -> dict[str, object]:
    return figures.of_changes(history, [change, *others])[0]


STAYS = commits("s:0", 1, *range(0, 4_000, 100))
MOVES = commits("s:1", 1, *range(0, 1_500, 100)) + commits("s:1", 2, *range(1_850, 4_000, 100))
INTERVALS = [
    interval("s:0", "a", 1, -100),
    interval("s:1", "a", 1, -100),
    interval("s:1", "b", 2, 1_600),
]
HISTORY = History(INTERVALS, STAYS + MOVES, [500, 1_000, 1_200, 3_000], [])


def test_pause_is_from_the_last_commit_of_one_owner_to_the_first_of_the_next() -> None:
    found = of_change(HISTORY, CHANGE)
    assert found["pause_ms"] == {"median": 450, "p95": 450, "max": 450, "count": 1}
    assert (found["moved"], found["unaffected"], found["rounds"]) == (1, 1, 2)
    assert (found["max_minus_min"], found["converged"], found["took_ms"]) == (1, True, 2_000)


def test_pause_is_told_by_its_parts() -> None:
    held = [replace(INTERVALS[1], ended_ms=1_550), INTERVALS[2]]
    history = History(held, MOVES, [], [takeover("b", 2, 1_601, 1_640)])
    found = of_change(history, CHANGE)
    assert found["parts_ms"] == {"let_go": 150, "acquire": 50, "restore": 40, "commit": 210}
    found = of_change(History(held, MOVES, [], []), CHANGE)
    assert set(found["parts_ms"].values()) == {None}  # type: ignore[attr-defined]


def test_pause_that_ends_after_the_change_is_not_of_it() -> None:
    found = of_change(HISTORY, replace(CHANGE, ended_ms=1_850))
    assert found["pause_ms"] == {"median": None, "p95": None, "max": None, "count": 0}


def test_partition_that_goes_through_two_hands_paused_twice() -> None:
    again = [*STAYS, *MOVES, *commits("s:1", 3, 4_600)]
    history = replace_commits(again)
    found = of_change(history, replace(CHANGE, ended_ms=5_000))
    assert found["pause_ms"] == {"median": 550.0, "p95": 650, "max": 650, "count": 2}


def replace_commits(found: list[Commit]) -> History:
    return History(INTERVALS, sorted(found, key=lambda c: c.at_ms), HISTORY.rounds_ms, [])


def test_partition_that_nobody_touched_does_not_pause() -> None:
    found = of_change(HISTORY, CHANGE)
    assert (found["unaffected_paused"], found["gap_before_ms"], found["gap_during_ms"]) == (
        0.0,
        100,
        100,
    )
    assert found["limit_ms"] == 400


def test_gap_above_two_micro_batches_and_a_little_is_a_pause() -> None:
    def with_gap(gap_ms: int) -> History:
        late = [c for c in STAYS if not 1_500 < c.at_ms < 1_500 + gap_ms]
        return replace_commits([*late, *MOVES, *commits("s:0", 1, 1_500 + gap_ms)])

    assert of_change(with_gap(400), CHANGE)["unaffected_paused"] == 0.0
    found = of_change(with_gap(401), CHANGE)
    assert (found["unaffected_paused"], found["gap_during_ms"]) == (1.0, 401)


def test_pause_that_begins_before_the_change_or_ends_after_it_counts_whole() -> None:
    late = [c for c in STAYS if not 800 < c.at_ms < 1_700]
    quiet = replace(CHANGE, stirred_ms=700)
    found = of_change(replace_commits([*late, *MOVES]), quiet)
    assert (found["unaffected_paused"], found["gap_during_ms"]) == (1.0, 900)
    late = [c for c in STAYS if not 2_800 < c.at_ms < 3_800]
    found = of_change(replace_commits([*late, *MOVES]), CHANGE)
    assert (found["unaffected_paused"], found["gap_during_ms"]) == (1.0, 1_000)


def test_a_pause_that_begins_in_the_quiet_time_is_no_measure_of_itself() -> None:
    late = [c for c in STAYS if not 900 < c.at_ms < 2_500]
    found = of_change(replace_commits([*late, *MOVES]), CHANGE)
    assert (found["unaffected_paused"], found["gap_before_ms"]) == (1.0, 100)


def test_a_micro_batch_is_the_longest_in_any_quiet_time_of_the_run() -> None:
    slow = [c for c in STAYS if not 1_500 < c.at_ms < 1_950]
    later = commits("s:0", 1, 4_000, 4_220, 4_400)
    other = replace(CHANGE, quiet_ms=4_000, stirred_ms=4_400, began_ms=4_400, ended_ms=4_500)
    history = replace_commits([*slow, *MOVES, *later])
    assert of_change(history, CHANGE)["unaffected_paused"] == 1.0
    found = of_change(history, CHANGE, other)
    assert (found["unaffected_paused"], found["gap_before_ms"]) == (0.0, 220)


def test_where_everything_moved_nobody_was_unaffected() -> None:
    history = History(INTERVALS[1:], [c for c in MOVES if c.partition == "s:1"], [], [])
    found = of_change(history, CHANGE)
    assert (found["unaffected"], found["unaffected_paused"]) == (0, 0.0)


def test_time_from_acquire_is_of_takeovers_in_the_change() -> None:
    taken = [takeover("b", 2, 1_600, 1_640), takeover("b", 2, 3_000, 3_900)]
    found = of_change(History(INTERVALS, [], [], taken), CHANGE)
    assert found["restore_ms"] == {"median": 40, "p95": 40, "max": 40, "count": 1}


def takeover(member: str, fence: int, acquired_ms: float, running_ms: float) -> Takeover:
    return Takeover(
        member=member,
        partition="s:1",
        fence=fence,
        acquired_ms=acquired_ms,
        running_ms=running_ms,
        learned=False,
    )


def test_only_who_never_had_a_partition_restores_it_from_nothing() -> None:
    held = [*INTERVALS, interval("s:1", "a", 3, 2_000)]
    taken = [takeover("a", 1, 0, 1), takeover("b", 2, 1, 2), takeover("a", 3, 2, 3)]
    found = figures.from_another(History(held, [], [], taken), taken)
    assert [one.fence for one in found] == [2]


def test_95th_percentile_is_by_nearest_rank() -> None:
    assert figures.summary(range(1, 21))["p95"] == 19
    assert figures.summary(range(1, 22))["p95"] == 20
    assert figures.summary([7])["p95"] == 7


# --- what agents wrote ----------------------------------------------------------------------------


def said(event: str, at_ms: int, **values: object) -> str:
    fields = {"event": event, "member": "b", "partition": "s:1", **values}
    text = ", ".join(
        f'"{k}": {v if isinstance(v, int) else chr(34) + str(v) + chr(34)}'
        for k, v in fields.items()
    )
    return f'{{{text}, "timestamp": "1970-01-01T00:00:00.{at_ms:03}000Z"}}'


def test_takeover_is_from_acquired_to_running_of_one_fence() -> None:
    lines = [
        "Setting default log level",
        "{broken",
        '{"event": "not ours"}',
        said("replica wanted", 1, role="learner"),
        said("replica caught up", 5, role="learner"),
        said("acquired", 10, fence=2),
        said("running", 52, fence=2),
        said("running", 60, fence=2),
        said("acquired", 100, fence=4),
        said("acquired", 200, fence=6),
        said("running", 250, fence=6),
    ]
    learned, restored = agent_logs.takeovers_of(agent_logs.entries(lines))
    assert (learned.fence, learned.learned, round(learned.took_ms, 3)) == (2, True, 42)
    assert (restored.fence, restored.learned, round(restored.took_ms, 3)) == (6, False, 50)


def test_standby_that_caught_up_is_as_good_as_a_learner() -> None:
    lines = [
        said("replica caught up", 5, role="standby"),
        said("replica wanted", 6, role="learner"),
        said("acquired", 10, fence=2),
        said("running", 52, fence=2),
    ]
    (one,) = agent_logs.takeovers_of(agent_logs.entries(lines))
    assert one.learned
