"""A matrix names its runs briefly, goes on where it was ended, and leaves nothing running."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.core.management import load_command_class

from assignment.errors import InvalidInput
from dashboard.demo.files import lock_file
from dashboard.demo.tree import Stopped
from dashboard.evaluation.chaos import asked as asking
from dashboard.evaluation.chaos import matrix
from dashboard.evaluation.chaos.asked import COORDINATIONS, FAULTS, Asked
from dashboard.evaluation.chaos.matrix import LOCK, Matrix, Row, Times, runs_of, shown

OF_DOCS = Path(__file__).resolve().parents[2] / "docs/matrix.txt"
# Instead of `chaos`: seed 1 holds, 2 fails, 3 hangs with a child of its own, 4 waits for seed 5, 7
# is killed once its result is written.
RUN = """
import json, pathlib, signal, subprocess, sys, time
words = sys.argv[1:]
seed, out = (words[words.index(name) + 1] for name in ("--seed", "--out"))
out = pathlib.Path(out)
with (out.parent / "order").open("a") as order:
    order.write(seed + " ")
if seed == "2":
    sys.exit("no disk")
if seed == "3":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (out / "child").write_text(str(child.pid))
    time.sleep(600)
until = time.monotonic() + 30
while seed == "4" and "5" not in (out.parent / "order").read_text():
    assert time.monotonic() < until, "nobody ran beside it"
    time.sleep(0.01)
result = {"faults": [{"name": "flap"}], "violations": [], "recovered_ms": 7}
(out / "result.json").write_text(json.dumps(result))
if seed == "7":
    signal.raise_signal(signal.SIGKILL)
"""


def runs(*seeds: int) -> list[Asked]:
    return [Asked(faults=("flap",), seed=seed) for seed in seeds]


class Told:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "COMMAND", ("-c", RUN))
    for name in ("POLL_S", "END_S", "CLEAN_S"):
        monkeypatch.setattr(matrix, name, 0.05)


def made(
    wanted: Sequence[Asked], out: Path, told: Told | None = None, at_once: int = 1
) -> list[Row]:
    return Matrix(wanted, out, at_once, told or Told()).run()


def order(out: Path) -> list[str]:
    return (out / "order").read_text().split()


# --- the file


def test_a_line_is_a_run_of_each_combination_seed_by_seed(tmp_path: Path) -> None:
    file = tmp_path / "matrix"
    file.write_text(
        "# two faults\n--fault flap,swap+minor-kill --coordination server,client --fast\n\n"
        "--fault flap --seed 9  # once\n--fault flap --seed 9\n"
    )
    found = runs_of(file, 2)
    faults = (("flap",), ("swap", "minor-kill"))
    assert [(a.faults, a.coordination, a.seed, a.fast) for a in found] == [
        *((names, mode, 1, True) for names in faults for mode in COORDINATIONS),
        *((names, mode, 2, True) for names in faults for mode in COORDINATIONS),
        (("flap",), "server", 9, False),
    ]


def test_a_fault_that_names_its_victims_keeps_them(tmp_path: Path) -> None:
    file = tmp_path / "matrix"
    file.write_text("--fault rolling-restart,flap --victims light-2\n")
    assert [a.victims for a in runs_of(file, 1)] == [("light-2",), ()]


def test_all_is_every_fault_with_victims_where_they_are_named(tmp_path: Path) -> None:
    file = tmp_path / "matrix"
    file.write_text("--fault all --victims light-2\n")
    found = runs_of(file, 1)
    assert [a.faults for a in found] == [(name,) for name in FAULTS]
    assert {a.victims for a in found if a.faults[0].startswith("fixed-")} == {("light-2",)}
    assert {a.victims for a in found if not a.faults[0].startswith("fixed-")} == {()}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# nothing\n", "names no run"),
        ("--fault flap\n--fault flop\n", "line 2: there is no fault 'flop'"),
        ("--seed 1\n", "line 1: no fault is named"),
        ("--fault flap --coordination ,\n", "line 1: there is no coordination ''"),
        ("--fault all\n", "line 1: a fault of scope fixed needs --victims"),
        ("--fault flap --out /elsewhere\n", "line 1: unrecognized arguments"),
        ("--fault 'flap\n", "line 1: No closing quotation"),
    ],
)
def test_what_a_file_asks_wrongly_is_refused_with_its_line(
    text: str, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "matrix").write_text(text)
    with pytest.raises(InvalidInput, match=sentence):
        runs_of(tmp_path / "matrix", 1)


def test_the_matrix_of_the_docs_names_every_fault_of_the_product() -> None:
    found = runs_of(OF_DOCS, 5)

    def seeds(fault: str, mode: str, **more: Any) -> set[int]:
        asked = [a for a in found if (a.faults, a.coordination) == ((fault,), mode)]
        return {a.seed for a in asked if all(getattr(a, n) == v for n, v in more.items())}

    for mode in COORDINATIONS:
        for fault in FAULTS:
            assert seeds(fault, mode, consumer="light", fast=True) == {1, 2, 3, 4, 5}, fault
            assert seeds(fault, mode, consumer="light", fast=False), fault
        for fault in ("minor-kill", "minor-suspend", "minor-cut-redis", "coordination-switch"):
            assert seeds(fault, mode, consumer="spark"), fault


# --- its runs


def test_a_matrix_goes_on_with_what_failed_or_is_missing(tmp_path: Path) -> None:
    first = made(runs(1, 2), tmp_path)
    assert [row["exit"] for row in first] == [0, 3]
    assert first[1]["error"] == "no disk"
    assert (first[0]["recovered_ms"], first[0]["folder"]) == (7, "fault_flap_seed_1")
    told = Told()
    second = made(runs(1, 2, 6), tmp_path, told)
    assert order(tmp_path) == ["1", "2", "2", "6"]
    assert [row["exit"] for row in second] == [0, 3, 0]
    assert told.lines[0].startswith("3 runs: 1 are skipped, this code has made them; 1 that failed")


def test_a_run_that_was_killed_after_its_verdict_has_failed_and_is_made_again(
    tmp_path: Path,
) -> None:
    (row,) = made(runs(7), tmp_path)
    assert (row["exit"], row["error"]) == (3, "it ended with -9 after its verdict")
    made(runs(7), tmp_path)
    assert order(tmp_path) == ["7", "7"]


def test_what_other_code_has_made_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(runs(1), tmp_path)
    before = matrix.setting()
    monkeypatch.setattr(matrix, "setting", lambda: {**before, "code": "other"})
    [row] = made(runs(1), tmp_path)
    assert order(tmp_path) == ["1", "1"] and row["setting"]["code"] == "other"


def test_a_run_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited, until_s = matrix.waited, time.monotonic() + 30

    def once_it_hangs(process: "subprocess.Popen[bytes]") -> int | None:
        while not any(file.read_text() for file in tmp_path.glob("*/child")):
            assert time.monotonic() < until_s, "it has no child"
            time.sleep(0.01)
        return waited(process)

    monkeypatch.setattr(matrix, "waited", once_it_hangs)
    monkeypatch.setattr(matrix, "RUN_S", {"light": -10.0})  # its fault may last 10 s
    [hung] = made(runs(3), tmp_path)
    child = int((tmp_path / hung["folder"] / "child").read_text())
    assert (hung["exit"], hung["error"]) == (3, "it did not end within 0 s")
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_a_matrix_that_is_asked_to_end_keeps_what_is_done(tmp_path: Path) -> None:
    def end(line: str) -> None:
        if line.startswith("1 of 2"):
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped):
        Matrix(runs(1, 3), tmp_path, 1, end).run()
    assert [path.parent.name for path in tmp_path.glob("*/row.json")] == ["fault_flap_seed_1"]


def test_a_folder_has_one_matrix_at_a_time(tmp_path: Path) -> None:
    lock = lock_file(tmp_path / LOCK, 0)
    assert lock is not None
    with pytest.raises(InvalidInput, match="a matrix runs in"):
        made(runs(1), tmp_path)
    os.close(lock)
    assert made(runs(1), tmp_path)[0]["exit"] == 0


def test_so_many_run_at_once_as_are_asked_for(tmp_path: Path) -> None:
    assert [row["exit"] for row in made(runs(4, 5), tmp_path, at_once=2)] == [0, 0]


def test_the_time_left_is_that_of_runs_of_the_same_kind() -> None:
    def took(seconds: float, **more: Any) -> Row:
        return {"asked": Asked(faults=("flap",), **more).values(), "took_s": seconds}

    times = Times([took(40, fast=True), took(60, fast=True), took(200)])
    rest = [Asked(faults=("swap",), fast=fast) for fast in (True, True, False)]
    assert times.of(rest) == 300
    assert times.of([Asked(faults=("swap",), consumer="spark")]) == 100
    assert [shown(s) for s in (40, 3_599, 7_260)] == [
        "about 1 min",
        "about 1 h 0 min",
        "about 2 h 1 min",
    ]


def test_a_run_is_asked_for_as_the_matrix_knows_it() -> None:
    parser = load_command_class("dashboard", "chaos").create_parser("manage.py", "chaos")
    for asked in [*runs_of(OF_DOCS, 2), Asked(faults=("flap", "swap"), seed=0, fast=True)]:
        assert asking.asked(vars(parser.parse_args(asked.options()))) == asked
    assert matrix.folder_name(asked) == "fault_flap+swap_seed_0_fast"
