"""What a check run came to, read from Redis and the database after everything is processed.

    python -m dashboard.evaluation.evaluate GROUP --acknowledged FILE
        [--flights N] [--out DIR] [--steps FILE] [--changes FILE --logs DIR]

Prints one JSON object. Details of what is wrong go to standard error.
"""

import argparse
import csv
import json
import os
import sys
from bisect import bisect_right
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django

if TYPE_CHECKING:
    from dashboard.evaluation.reading import Record

DETAILS_MAX = 20


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    django.setup()
    parser = argparse.ArgumentParser()
    parser.add_argument("group")
    parser.add_argument("--acknowledged", type=Path, required=True)
    parser.add_argument("--flights", type=int, help="compare the result with pandas over so many")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--steps", type=Path, help="windows of faults, to be judged one by one")
    parser.add_argument("--changes", type=Path, help="changes of the group, likewise")
    parser.add_argument("--logs", type=Path, help="folder of the agents' logs, in JSON")
    print(json.dumps(evaluate(parser.parse_args())))


def evaluate(options: argparse.Namespace) -> dict[str, Any]:
    from dashboard.evaluation import figures, reading
    from dashboard.evaluation.inspecting import acknowledged
    from dashboard.evaluation.judge import effects

    record = reading.read(options.group)
    counted = effects(acknowledged(options.acknowledged), record.content)
    tell(counted.faults)
    found: dict[str, Any] = {
        "lost": len(counted.lost),
        "doubled": len(counted.doubled),
        "refused_commits": record.refused_commits,
        "rebalances": record.rebalances,
        **figures.run_coverage(record.intervals, record.now_ms)._asdict(),
    }
    if options.flights is not None:
        # A commit whose ids and range differ makes the result wrong, whatever its sums say.
        found["equal"] = is_equal(record, options.flights, options.out) and not counted.faults
    if options.steps is not None:
        found["steps"] = judged(record, counted.lost, counted.doubled, options.steps)
        found["faults"] = list(counted.faults)
    if options.changes is not None:
        found |= changed(record, counted.lost, counted.doubled, options.changes, options.logs)
        found["faults"] = list(counted.faults)
    if options.out is not None:
        write_applied(record, options.out)
    return found


def is_equal(record: "Record", flights: int, out: Path | None) -> bool:
    """Whether the merged rows are those of pandas; with `out` as they stand in the file."""
    from dashboard.evaluation import flights_check, result

    frame = result.merged(record.content.commits)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        frame.to_csv(out / "result.csv", index=False)
        frame = flights_check.read_result(out / "result.csv")
    differences = flights_check.compare(frame, flights_check.expected(flights))
    tell(differences)
    return not differences


def judged(
    record: "Record", lost: tuple[int, ...], doubled: tuple[int, ...], path: Path
) -> list[dict[str, Any]]:
    """Each step's numbers, in their order."""
    from dashboard.evaluation import figures, steps

    commits = figures.commits_of([record.content])
    windows = [steps.Window(**values) for values in json.loads(path.read_text())]
    wrong = per_step(record, lost, doubled, [window.began_ms for window in windows])
    return [
        {**steps.of_step(record.intervals, commits, window), **counts}
        for window, counts in zip(windows, wrong, strict=True)
    ]


def changed(
    record: "Record", lost: tuple[int, ...], doubled: tuple[int, ...], path: Path, logs: Path
) -> dict[str, Any]:
    """The numbers of each change, in their order; then how long it took from acquire to the
    committed offset in all of them: of what was learned, and of what was restored by a member that
    never had the partition before.
    """
    from dashboard.evaluation import agent_logs, figures, result

    changes = [figures.Change(**values) for values in json.loads(path.read_text())]
    wrong = per_step(record, lost, doubled, [change.began_ms for change in changes])
    history = figures.History(
        record.intervals,
        figures.commits_of([record.content]),
        record.rounds_ms,
        agent_logs.takeovers(sorted(logs.glob("consumer-*.log"))),
    )
    taken = [one for change in changes for one in figures.takeovers_in(history, change)]
    first = figures.from_another(history, taken)
    keys = [result.keys_of(entries) for entries in record.content.commits.values()]
    return {
        "keys": {"least": min(keys, default=0), "in_all": sum(keys)},
        "changes": [
            {**numbers, **counts}
            for numbers, counts in zip(figures.of_changes(history, changes), wrong, strict=True)
        ],
        "learned_ms": [one.took_ms for one in taken if one.learned],
        "restored_ms": [one.took_ms for one in first if not one.learned],
    }


def per_step(
    record: "Record", lost: tuple[int, ...], doubled: tuple[int, ...], begun: list[int]
) -> list[dict[str, int]]:
    """Lost and doubled of each step.

    A lost event belongs to the step after whose begin it was appended, a doubled one to the step
    after whose begin it was committed again; what was before every step to the first.
    """
    appended, committed = record.appended_ms(), record.last_committed_ms()
    lost_at = Counter(step_at(begun, appended.get(event, 0)) for event in lost)
    doubled_at = Counter(step_at(begun, committed.get(event, 0)) for event in doubled)
    return [{"lost": lost_at[n], "doubled": doubled_at[n]} for n in range(len(begun))]


def step_at(begun: list[int], at_ms: int) -> int:
    return max(0, bisect_right(begun, at_ms) - 1)


def write_applied(record: "Record", out: Path) -> None:
    """One row per accepted commit, in the order of its partition."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "applied.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("partition", "fence", "from", "to", "events"))
        for partition, entries in sorted(record.content.commits.items()):
            rows.writerows(
                (partition, e.fence, e.from_offset, e.to_offset, e.events) for e in entries
            )


def tell(sentences: "tuple[str, ...] | list[str]") -> None:
    for sentence in sentences[:DETAILS_MAX]:
        print(f"wrong: {sentence}", file=sys.stderr)
    if len(sentences) > DETAILS_MAX:
        print(f"wrong: and {len(sentences) - DETAILS_MAX} more", file=sys.stderr)


if __name__ == "__main__":
    main()
