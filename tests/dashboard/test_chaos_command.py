"""`chaos` refuses what it cannot do with one sentence and exit code 3; who is struck is drawn."""

import argparse
import json
import random
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.core.management import call_command

from assignment.errors import InvalidInput
from dashboard.demo import processes
from dashboard.demo.tree import Process, TreeFailed
from dashboard.evaluation.chaos import asked as asked_module
from dashboard.evaluation.chaos import run  # noqa: F401  (all faults are known)
from dashboard.evaluation.chaos.asked import FAULTS, Asked
from dashboard.evaluation.chaos.history import save
from dashboard.evaluation.chaos.strikes import KNOWN, drawn, strike, unscoped
from dashboard.evaluation.chaos.world import World
from dashboard.management.commands import chaos
from tests.dashboard.chaos_histories import Scene

NAMES = ("light-1", "light-2", "light-3", "light-4", "light-5")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("--fault", "minor-kil"),
            "no fault 'minor-kil': 'minor-kill' perhaps; chaos --help names them",
        ),
        (("--fault", "minor-kill+nonsense"), "there is no fault 'nonsense'"),
        ((), "no fault is named"),
        (("--fault", "minor-kill", "--agents", "0"), "agents 0 is not within 1 and 100"),
        (("--fault", "minor-kill", "--agents", "many"), "invalid int value"),
        (("--fault", "minor-kill", "--strategy", "best"), "there is no strategy 'best'"),
        (("--fault", "minor-kill", "--nonsense"), "unrecognized arguments"),
        (("--fault", "fixed-kill"), "needs --victims"),
        (("--fault", "drain-half", "--agents", "1"), "needs two agents at least"),
        (("--fault", "fixed-kill", "--victims", "light-9"), "there is no agent 'light-9'"),
        (("replay", "nowhere"), "nowhere holds no run"),
        (("matrix",), "chaos matrix needs a file"),
        (("matrix", "nowhere"), "No such file or directory: 'nowhere'"),
        (("matrix", "docs/matrix.txt", "--seeds", "0"), "seeds 0 is not within 1 and"),
        (("matrix", "docs/matrix.txt", "--parallel", "0"), "parallel 0 is not within 1 and"),
    ],
)
def test_bad_input_is_one_sentence(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        call_command("chaos", *arguments)
    assert ended.value.code == 3
    said = [line for line in capsys.readouterr().err.splitlines() if "evenkeel" in line]
    assert len(said) == 1 and sentence in said[0]


def test_what_is_not_on_this_machine_is_never_struck(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://redis.example.com:6379/0")
    with pytest.raises(SystemExit) as ended:
        call_command("chaos", "--fault", "minor-kill")
    assert ended.value.code == 3
    assert "'redis.example.com' is not loopback" in capsys.readouterr().err


def test_an_address_that_is_no_url_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://:secret@[::1")
    said = refused(capsys, "--fault", "minor-kill")
    assert said == "evenkeel: an address of this environment is no URL: Invalid IPv6 URL"


def test_a_matrix_that_is_no_text_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "matrix").write_bytes(b"--fault minor-kill # \xff")
    assert "matrix is no text in UTF-8" in refused(capsys, "matrix", str(tmp_path / "matrix"))


def test_a_run_without_an_era_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(Scene().history(eras=()), tmp_path)
    assert "holds no run: nothing that Redis held" in refused(capsys, "replay", str(tmp_path))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        call_command("chaos", *arguments)
    assert ended.value.code == 3
    said = capsys.readouterr().err.strip()
    assert "Traceback" not in said and said.count("\n") == 0, said
    return said


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("redis://127.0.0.1:6379/0", None),
        ("unix:///run/redis.sock", None),
        ("sqlite:////data/evenkeel.sqlite3", None),
        ("postgresql://postgres:@/postgres?host=/run/pg", None),
        ("postgresql://ann@localhost/evenkeel?host=127.0.0.1", None),
        ("postgresql://ann@localhost/evenkeel?host=db.example.com", "db.example.com"),
        ("postgresql://ann@/evenkeel?host=/run/pg,db.example.com", "db.example.com"),
        ("postgresql://ann@/evenkeel", ""),
        ("redis.example.com:6379", ""),
    ],
)
def test_a_socket_of_this_machine_is_as_near_as_loopback(address: str, host: str | None) -> None:
    if host is None:
        asked_module.check_loopback([address])
        return
    with pytest.raises(InvalidInput, match=f"'{host}' is not loopback"):
        asked_module.check_loopback([address])


def test_an_error_of_the_harness_is_no_violation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(options: dict[str, Any]) -> None:
        raise RuntimeError("what nobody thought of")

    monkeypatch.setattr(asked_module, "asked", broken)
    with pytest.raises(SystemExit) as ended:
        call_command("chaos", "--fault", "minor-kill", "--json")
    assert ended.value.code == 3
    assert "what nobody thought of" in json.loads(capsys.readouterr().out)["error"]


@pytest.mark.parametrize("started", [True, False])
def test_a_run_that_ends_early_names_its_logs_or_leaves_nothing(
    started: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def ended(wanted: Asked, folder: Path, say: object) -> None:
        if started:
            (folder / "logs").mkdir()
        raise TreeFailed("the group did not settle")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(chaos, "run", ended)
    with pytest.raises(TreeFailed):
        chaos.Command().judged(Asked(faults=("minor-kill",)), None)
    left = [str(path / "logs") for path in tmp_path.iterdir()]
    assert [f"the logs are in {path}" in capsys.readouterr().err for path in left] == [
        True
    ] * started


def test_every_fault_that_is_named_can_be_struck() -> None:
    assert {unscoped(name)[1] for name in FAULTS} == KNOWN.keys()


@pytest.mark.parametrize(
    ("scope", "counts"), [("minor", {1, 2}), ("major", {3, 4, 5}), ("random", {1, 2, 3, 4, 5})]
)
def test_a_scope_is_below_or_above_half(scope: str, counts: set[int]) -> None:
    found = [drawn(scope, NAMES, random.Random(seed), ()) for seed in range(200)]
    assert {len(victims) for victims in found} == counts
    assert all(set(victims) <= set(NAMES) for victims in found)


def test_a_single_agent_is_a_minority_too() -> None:
    assert drawn("minor", NAMES[:1], random.Random(1), ()) == ["light-1"]


def test_the_same_seed_strikes_the_same() -> None:
    asked = Asked(faults=("random-kill",), agents=5)
    world = cast(World, SimpleNamespace(asked=asked))

    def victims(seed: int) -> tuple[str, ...]:
        return strike("random-kill", world, random.Random(seed)).victims

    assert victims(7) == victims(7)
    assert len({victims(seed) for seed in range(50)}) > 10


def test_named_victims_are_those_that_are_struck() -> None:
    assert drawn("fixed", NAMES, random.Random(1), ("light-2",)) == ["light-2"]


def test_a_victim_that_is_named_twice_is_struck_once() -> None:
    parser = argparse.ArgumentParser()
    asked_module.add_options(parser)
    words = ["--fault", "fixed-kill", "--victims", "light-1,light-2,light-1"]
    assert asked_module.asked(vars(parser.parse_args(words))).victims == ("light-1", "light-2")


def test_whom_two_faults_struck_is_started_again_once(tmp_path: Path) -> None:
    part = Process(name="light-1", command=("sleep", "600"), log=tmp_path / "log")
    there = {"light-1": SimpleNamespace(part=part)}
    tree = SimpleNamespace(parts=[], left_dead=())
    world = cast(World, SimpleNamespace(agents=there, struck=set(), tree=tree))
    try:
        World.start_agents(world, ["light-1"])
        pid = part.pid
        World.start_agents(world, ["light-1"])
        assert part.pid == pid is not None
    finally:
        processes.kill(part.family)


def test_a_run_can_be_asked_for_again() -> None:
    asked = Asked(faults=("fixed-kill", "flap"), seed=9, fast=True, victims=("light-1",))
    assert asked.command() == (
        "python3 manage.py chaos --fault fixed-kill+flap --seed 9 --victims light-1 --fast"
    )


def test_the_bound_grows_where_redis_is_started_anew() -> None:
    def bound_ms(*faults: str, **more: Any) -> int:
        return Asked(faults=faults, **more).bound_ms

    assert bound_ms("flap", fast=True) == 1_500 + 1_200 + 2 * 300 + 2_000
    assert bound_ms("redis-kill") - bound_ms("flap") == 10_000
