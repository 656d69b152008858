"""The file of constants: what was measured, by which code, and what came out of it."""

import importlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from assignment.errors import InvalidInput
from dashboard.evaluation.capacity import measuring
from dashboard.evaluation.capacity.formulas import (
    FORMULAS,
    NOT_JUDGED,
    Constants,
    at_pace,
    fitted,
    predicted,
    sampled,
)
from dashboard.evaluation.capacity.measuring import Found
from dashboard.evaluation.capacity.sizing import PARTS, Each
from dashboard.evaluation.setting import setting, today
from dashboard.management.commands.bench import PACKAGE

FILE = Path(__file__).with_name("constants.json")
GROWTH = Path(__file__).with_name("growth.json")  # of `simulate --growth --out`
COMMAND = "python3 manage.py capacity --measure"
# Of `manage.py bench`: what load_check does not play.
BENCHES = ("agent_connections", "event_cost", "database_writes")
# Figure -> term -> row of these, and how many of its unit are one of the figure's.
OF_EVENTS: Mapping[str, Mapping[str, tuple[str, float]]] = {
    "redis_event_s": {"event": ("redis_event_us", 1e6), "commit": ("redis_commit_us", 1e6)},
    "redis_event_ops": {
        "event": ("redis_event_commands", 1.0), "commit": ("redis_commit_commands", 1.0),
    },
    "redis_event_bytes": {"event": ("redis_event_bytes", 1.0)},
}  # fmt: skip
KIB_A_MIB = 1024
DIGITS = 6  # of a constant: more than a measurement has
TOLERANCE = 0.3  # of a prediction
# Beyond these it is not the hour: one machine was seen to take half as much again, hour by hour.
PACES = (0.5, 2.0)


def read(path: Path | None = None) -> dict[str, Any]:
    """Raises InvalidInput."""
    path = path or FILE
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path.name} cannot be read, {COMMAND} writes it: {error}") from error
    terms = {name: tuple(of) for name, of in found["constants"].items()}
    if terms != {name: formula.terms for name, formula in FORMULAS.items()}:
        raise InvalidInput(f"{path.name} has constants of other formulas, {COMMAND} sets them anew")
    return found


def kept() -> dict[str, Any] | None:
    """None: nothing was measured yet. Raises InvalidInput."""
    return read() if FILE.exists() else None


def read_growth(path: Path = GROWTH) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def made(runs: Sequence[Found], benches: Mapping[str, float]) -> dict[str, Any]:
    """What the file says of these runs. `benches`: as `benched` found."""
    constants = fitted(measuring.measured(runs)) | {
        figure: {term: benches[name] / units for term, (name, units) in of.items()}
        for figure, of in OF_EVENTS.items()
    }
    return {
        "command": COMMAND,
        "day": today(),
        "commit": measuring.commit(),
        "setting": setting(),
        "benches": dict(benches),
        "constants": {
            figure: {term: float(f"{value:.{DIGITS}g}") for term, value in of.items()}
            for figure, of in constants.items()
        },
        "fits": compared(constants, runs),
        "repeats": repeats(runs),
        "runs": list(runs),
    }


def write(content: Mapping[str, Any], path: Path | None = None) -> None:
    (path or FILE).write_text(json.dumps(content, indent=1) + "\n")


def benched() -> dict[str, float]:
    """Figure of BENCHES -> value."""
    modules = (importlib.import_module(f"{PACKAGE}.{name}") for name in BENCHES)
    return {row["name"]: row["value"] for module in modules for row in module.rows()}


def each_of(content: Mapping[str, Any]) -> Each:
    return Each(
        connections=content["benches"]["agent_redis_connections"],
        connection_mib=content["benches"]["redis_connection_kib"] / KIB_A_MIB,
        rows=content["benches"]["database_rows_per_second"],
        dashboard=max(
            run["costs"]["end"]["redis_clients"] - measuring.own_clients(run)
            for run in content["runs"]
        ),
    )


# --- predictions beside what was measured


def compared(constants: Constants, runs: Sequence[Found]) -> list[dict[str, Any]]:
    """A row for each figure of each run. `ratio`: predicted to measured; None: nothing was."""
    return [row for run in runs for row in _compared(constants, run)]


def _compared(constants: Constants, run: Found) -> Iterator[dict[str, Any]]:
    """How many samples are taken is predicted, too."""
    (at, steady), (happened, changes) = measuring.steady(run), measuring.changes(run)
    expected = sampled(constants, at)
    for load, of in ((expected, steady), (happened, changes)):
        for figure, value in of.items():
            unit = FORMULAS[figure].unit
            yield _row(run, figure, unit, predicted(constants, figure, load), value)
    yield _row(run, "samples", "1/s", expected.samples, at.samples)


def _row(run: Found, figure: str, unit: str, expected: float, value: float) -> dict[str, Any]:
    return {
        "size": size_of(run),
        "figure": figure,
        "unit": unit,
        "predicted": float(f"{expected:.{DIGITS}g}"),
        "measured": float(f"{value:.{DIGITS}g}"),
        "ratio": round(expected / value, 3) if value > 0 else None,
    }


def checked(content: Mapping[str, Any], runs: Sequence[Found], again: Sequence[Found]) -> Found:
    """For the file: predictions beside runs that set no constant, at the pace of those at
    PACE_SIZES again.
    """
    now = pace(again, content["runs"])
    rows = compared(at_pace(content["constants"], now), runs)
    return {"day": today(), "commit": measuring.commit(), "pace": round(now, 3), "rows": rows}


def pace(again: Sequence[Found], runs: Sequence[Found]) -> float:
    """CPU of the same sizes while nothing changes, to that of the runs which set the constants: how
    fast a virtual machine is differs from hour to hour. Each size counts as much as any other.
    """
    then = {size: fmean(map(_cores, several)) for size, several in _by_size(runs).items()}
    return fmean(_cores(run) / then[size_of(run)] for run in again)


def _cores(run: Found) -> float:
    return sum(measuring.steady(run)[1][f"{part}_cores"] for part in PARTS)


def size_of(run: Found) -> str:
    return f"{run['members']} / {run['groups']} / {run['partitions']}"


def missed(found: Mapping[str, Any]) -> list[str]:
    """What of `checked` is wrong."""
    least, most, now = *PACES, found["pace"]
    of_others = f"pace {now:g}: constants of another machine or other code, {COMMAND}"
    return outside(found["rows"]) + [of_others] * (not least <= now <= most)


def outside(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Predictions that are judged and further from what was measured than TOLERANCE of it."""
    return [
        f"{row['figure']} of {row['size']}: predicted {row['predicted']:g} {row['unit']},"
        f" measured {row['measured']:g}"
        for row in judged(rows)
        if row["ratio"] is None or abs(row["ratio"] - 1) > TOLERANCE
    ]


def judged(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["figure"] not in NOT_JUDGED]


def repeats(runs: Sequence[Found]) -> dict[str, float]:
    """Figure -> largest to smallest value of one size that was measured more than once: what other
    work on the machine does to it.
    """
    found: dict[str, float] = {}
    for same in _by_size(runs).values():
        several = [measuring.steady(run)[1] for run in same]
        for figure in several[0] if len(several) > 1 else ():
            values = [one[figure] for one in several if one[figure] > 0]
            if values:
                found[figure] = round(max(values) / min(values), 3)
    return found


def _by_size(runs: Sequence[Found]) -> dict[str, list[Found]]:
    found = defaultdict(list)
    for run in runs:
        found[size_of(run)].append(run)
    return found
