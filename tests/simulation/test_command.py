"""`manage.py simulate` as a person calls it."""

import json
import re
from contextlib import nullcontext
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from tests.simulation import planting


def said(*, broken: bool = False, **options: Any) -> str:
    out = StringIO()
    with pytest.raises(SystemExit, match="1") if broken else nullcontext():
        call_command("simulate", stdout=out, **options)
    return out.getvalue()


def test_it_counts_what_passed() -> None:
    text = said(seeds=3)
    assert "3 runs: 3 passed, 0 vacuous, 0 failed" in text
    total = re.search(r"; (\d+) faults, ", text)
    drawn = re.findall(r"[a-z ]+ (\d+)", text.partition("faults drawn: ")[2])
    assert total and sum(map(int, drawn)) == int(total[1]) > 0
    assert " per second of CPU" in text


def test_it_counts_the_planted_bugs_that_it_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    bugs = {
        name: planting.BUGS[name] for name in ("incarnation_is_set_and_not_raised", "never_departs")
    }
    missed = replace(bugs["never_departs"], seeds=())
    monkeypatch.setattr(planting, "BUGS", bugs | {"never_departs": missed})
    assert "planted bugs found: 1 of 2 never_departs" in said(seeds=1, planted=True, broken=True)


def test_it_answers_in_json() -> None:
    found = json.loads(said(seeds=2, first=5, json=True))
    assert (found["runs"], found["passed"], found["broken"]) == (2, 2, None)
    assert sum(found["faults"].values()) > 0
    assert found["steps"] > 0


def test_the_first_failing_seed_is_told_with_its_last_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planting.BUGS["commit_without_offset_check"].plant(monkeypatch)
    text = said(seeds=150, broken=True)
    assert "1 failed" in text
    assert "acquired why=assigned" in text
    assert "replay it: python3 manage.py simulate --seed " in text


def test_one_seed_is_replayed_with_every_call() -> None:
    text = said(seed=3)
    assert "seed 3: Scenario(seed=3" in text
    assert " redis    renew " in text
    assert text.rstrip().endswith("passed")


def test_seeds_over_two_processes_give_the_same_sums() -> None:
    one, two = (json.loads(said(seeds=4, jobs=n, json=True)) for n in (1, 2))
    for found in (one, two):
        for name in ("cpu_ms", "wall_s", "runs_per_s", "runs_per_cpu_s"):
            assert found.pop(name) > 0
    assert one == two


@pytest.mark.parametrize(
    "why", ["--seeds 0 is not within 1", "--first -1 is below 0", "--jobs 0 is not within 1"]
)
def test_wrong_arguments_are_named(why: str) -> None:
    option, value, *_ = why.split()
    with pytest.raises(CommandError, match=why):
        said(**{option.removeprefix("--"): int(value)})


def test_how_it_grows_is_told_and_kept(tmp_path: Path) -> None:
    text = said(growth=True, members=8, groups=4, out=tmp_path / "growth.json")
    assert "more groups, steady, ticks: 1.00" in text
    beats = re.search(r"more groups, steady, heartbeat: (\S+)\n", text)
    assert beats is not None
    assert 0.7 < float(beats[1]) < 1.1, "one at the edge of the window makes a tenth of so few"
    kept = json.loads((tmp_path / "growth.json").read_text())
    assert kept["more groups"]["runs"][-1]["groups"] == 4
    with pytest.raises(CommandError, match="two members a group"):
        said(growth=True, members=8, groups=5)
