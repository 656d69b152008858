"""What `python3 manage.py bench_assign` says: the eight rows, or one case and its arrays."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assignment.errors import InvalidInput
from tests.bench.assign import peers, work
from tests.bench.assign.measure import YARDSTICK, figures, names_ms
from tests.bench.assign.work import Work

CASE_ROUNDS = 5
COLUMNS = ("best_ms", "median_ms", "ratio", "peak_mib", "moves", "least_moves", "max_minus_min")


def table(*, quick: bool) -> dict[str, Any]:
    """All rows. Quick: without what names cost and without peers, which take most of the time."""
    works = {name: make() for name, make in work.ROWS.items()}
    _say(f"measuring {', '.join(works)}")
    found = figures(works)
    for row in found["rows"]:
        name = row["name"]
        row["names_ms"] = row["peer"] = None
        if not quick:
            _say(f"measuring {name} with names, and its peers")
            row["names_ms"] = names_ms(works[name])
            row["peer"] = peers.beside(name, works[name])
    return rounded(found)


def case(words: Sequence[str], dump: str | None) -> dict[str, Any]:
    """One row. dump: a file for `previous` and `owners`, int32 by number of the member, -1 nobody.

    InvalidInput names what cannot be measured, and a file that cannot be written.
    """
    name, chosen = work.case(words)
    if dump is not None:
        _dump(chosen, dump)
    return rounded(figures({name: chosen}, CASE_ROUNDS))


def _dump(chosen: Work, path: str) -> None:
    try:
        with open(path, "wb") as file:
            np.savez(file, previous=chosen.previous, owners=chosen.numbered(chosen.run()))
    except OSError as error:
        raise InvalidInput(f"{path!r} cannot be written: {error.strerror}") from error


def rounded(value: Any) -> Any:
    """To six digits: beyond them is noise."""
    match value:
        case float():
            return float(f"{value:.6g}")
        case dict():
            return {name: rounded(v) for name, v in value.items()}
        case list():
            return [rounded(v) for v in value]
    return value


def as_text(found: Mapping[str, Any]) -> str:
    lines = [f"yardstick {found['yardstick_ms']:.1f} ms of CPU: {YARDSTICK}", ""]
    width = max(len(row["name"]) for row in found["rows"])
    lines.append(" " * width + "".join(f"{column:>14}" for column in COLUMNS))
    for row in found["rows"]:
        numbers = "".join(f"{_number(row[column]):>14}" for column in COLUMNS)
        lines += [f"{row['name']:<{width}}{numbers}", *_further(row)]
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.3f}" if isinstance(value, float) else f"{value}"


def _further(row: Mapping[str, Any]) -> list[str]:
    """Indented lines below a row."""
    lines = [] if row["most_even"] else ["  loads could be more even"]
    if row.get("names_ms") is not None:
        lines.append(f"  names at the edges: {row['names_ms']:.1f} ms more")
    for library, peer in (row.get("peer") or {}).items():
        said = peer.get("skipped") or (
            f"{peer['best_ms']:.1f} ms, moves {peer['moves']}, max - min {peer['max_minus_min']}"
        )
        lines.append(f"  {library} {peer['assignor']}: {said}")
    return lines


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
