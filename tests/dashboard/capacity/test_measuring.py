"""capacity: constants come out of runs, and a check compares predictions with others."""

import json
from typing import Any

import pytest
from django.core.management import call_command

from assignment.errors import InvalidInput
from dashboard.evaluation.capacity import measuring, sizing, stored
from dashboard.evaluation.capacity.formulas import NOT_JUDGED, OF_RUNS, at_pace, fitted, predicted
from tests.dashboard.capacity.runs import NOTHING, ROWS, constants, load, run, taking

LOADS = [load(*size) for size in measuring.SIZES]


# --- formulas


def test_the_constants_that_made_the_figures_are_found_again() -> None:
    made = constants(redis_mib={"one": 0.05, "group": 0.002, "owned partition": 7e-5})
    found = fitted([(one, {"redis_mib": predicted(made, "redis_mib", one)}) for one in LOADS])
    assert found["redis_mib"] == pytest.approx(made["redis_mib"])


def test_no_constant_is_below_0_whatever_was_measured() -> None:
    falls = [(one, {"redis_mib": 10.0 - n}) for n, one in enumerate(LOADS)]
    assert all(value >= 0 for value in fitted(falls)["redis_mib"].values())


def test_what_nobody_measured_costs_nothing() -> None:
    assert fitted([(LOADS[0], {"web_cores": 0.0})]) == {name: NOTHING[name] for name in OF_RUNS}


def test_a_run_tells_rates_while_nothing_changes_and_what_joining_cost_beyond_them() -> None:
    at, steady = measuring.steady(run())
    assert (at.members, at.groups, at.partitions) == (6, 2, 8)
    assert (steady["web_cores"], steady["redis_ops"]) == (0.1, 50.0)
    happened, changed = measuring.changes(run())
    assert (happened.joins, happened.grants, happened.rebalances, happened.samples) == (6, 12, 3, 4)
    assert changed["worker_change_s"] == pytest.approx(7.0 - 20 * 0.1)
    assert (changed["database_bytes"], changed["database_rows"]) == (9_000, 7)
    assert at.samples == 0.4


def test_where_nobody_joined_only_the_database_grew() -> None:
    one = run(members=0)
    del one["costs"]["quiet"]
    happened, changed = measuring.changes(one)
    assert changed == {"database_bytes": 9_000, "database_rows": 7}
    assert (happened.joins, happened.grants) == (0, 0)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"others_cores": 0.31}, "other work took 0.31 cores of the machine"),
        ({"join_steady_s": None}, "never steady"),
        ({"timeouts": 2, "errors": 1}, "3 answers were late or wrong"),
    ],
)
def test_a_run_that_was_starved_is_tried_once_more_and_then_refused(
    changes: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [run(**changes), run(), run(**changes), run(**changes)]
    monkeypatch.setattr(measuring, "check", lambda sizes, seed: (runs.pop(0), []))
    assert measuring.run((6, 2, 8), 1) == run()
    with pytest.raises(measuring.Starved, match=why):
        measuring.run((6, 2, 8), 1)
    assert not runs


@pytest.mark.parametrize("option", ["--measure", "--check"])
def test_what_was_starved_is_not_written_down(
    option: str, content: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def nothing(*_: Any) -> None:
        raise AssertionError("was written")

    monkeypatch.setattr(measuring, "check", lambda sizes, seed: (run(others_cores=2.0), []))
    monkeypatch.setattr(stored, "read", lambda: content)
    monkeypatch.setattr(stored, "write", nothing)
    with pytest.raises(SystemExit) as ended:
        call_command("capacity", option)
    assert ended.value.code == 1
    assert "other work took 2.00 cores" in capsys.readouterr().err


@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (1.5, 1), (0.7, 1)])
def test_the_exit_code_says_whether_predictions_hold(
    factor: float, code: int, content: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    kept, of = list[Any](), content["constants"]
    monkeypatch.setattr(stored, "read", lambda: content)
    monkeypatch.setattr(measuring, "run", lambda size, *_: taking(of, size, factor))
    monkeypatch.setattr("dashboard.management.commands.capacity.written", kept.append)
    with pytest.raises(SystemExit) as ended:
        call_command("capacity", "--check")
    assert ended.value.code == code
    assert ("wrong: redis_ops of" in capsys.readouterr().err) == bool(code)
    assert {row["figure"] for row in stored.judged(kept[0]["checked"]["rows"])} == {
        *OF_RUNS.keys() - NOT_JUDGED, "samples",
    }  # fmt: skip


@pytest.mark.parametrize(("slow", "wrong"), [(1.6, 0), (0.6, 0), (2.5, 1), (0.4, 1)])
def test_a_machine_that_is_slow_today_has_predictions_of_its_pace(
    slow: float, wrong: int, content: Any
) -> None:
    """Its CPU is that of the constants times the pace, and all else as it was."""

    def went(size: measuring.Size) -> dict[str, Any]:
        one = taking(content["constants"], size)
        for moment in one["costs"].values():
            moment["cpu_s"] = {part: slow * spent_s for part, spent_s in moment["cpu_s"].items()}
        return one

    again, others = ([*map(went, of)] for of in (measuring.PACE_SIZES, measuring.OTHER_SIZES))
    found = stored.checked(content, others, again)
    assert found["pace"] == pytest.approx(slow, abs=0.01)
    for row in stored.judged(found["rows"]):
        assert row["ratio"] == pytest.approx(1, abs=0.01), row
    assert len(stored.missed(found)) == wrong


def test_the_pace_is_of_cpu_alone() -> None:
    of = {"web_cores": {"one": 1.0}, "redis_change_s": {"join": 2.0}, "redis_mib": {"one": 3.0}}
    slow = at_pace(constants(**of), 2)
    assert (slow["web_cores"]["one"], slow["redis_change_s"]["join"]) == (2, 4)
    assert slow["redis_mib"]["one"] == 3


def test_a_check_runs_a_size_of_its_pace_before_the_others_and_one_after_them(
    content: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    kept, ran = list[Any](), list[measuring.Size]()
    first, last = measuring.PACE_SIZES

    def went(size: measuring.Size, *_: Any) -> dict[str, Any]:
        ran.append(size)
        return taking(content["constants"], size, 3.0 if size == last else 1.0)

    monkeypatch.setattr(stored, "read", lambda: content)
    monkeypatch.setattr(measuring, "run", went)
    monkeypatch.setattr("dashboard.management.commands.capacity.written", kept.append)
    with pytest.raises(SystemExit):
        call_command("capacity", "--check", "--json")
    assert ran == [first, *measuring.OTHER_SIZES, last]
    found = json.loads(capsys.readouterr().out)
    assert found["pace"] == kept[0]["checked"]["pace"] == pytest.approx(2, abs=0.01)
    sizes = [" / ".join(map(str, size)) for size in measuring.OTHER_SIZES]
    assert {row["size"] for row in found["rows"]} == {*sizes}


def test_each_size_that_tells_the_pace_counts_as_much(content: Any) -> None:
    many, few = (taking(content["constants"], size) for size in measuring.PACE_SIZES)
    many["costs"]["end"]["cpu_s"] = {
        part: 8.0 + 3 * (spent_s - 8.0) for part, spent_s in many["costs"]["end"]["cpu_s"].items()
    }
    assert stored.pace((many, few), content["runs"]) == pytest.approx(2, abs=0.01)


def test_connections_of_load_check_are_not_those_of_a_dashboard() -> None:
    one = run(members=201, groups=2)  # 101 have two ears, 100 one
    assert measuring.own_clients(one) == 1 + 2 + 3
    assert measuring.own_clients(run(members=0, groups=9)) == 1
    content = {"runs": [one], "benches": dict.fromkeys(ROWS, 2.0)}
    assert stored.each_of(content).dashboard == 50 - 6


# --- predictions


def test_a_prediction_further_off_than_the_tolerance_is_named() -> None:
    rows = stored.compared(constants(web_cores={"one": 0.12}), [run()])
    of = {row["figure"]: row for row in rows}
    assert of["web_cores"]["ratio"] == 1.2
    missed = stored.outside(rows)
    assert not [text for text in missed if text.startswith("web_cores")]
    assert "redis_ops of 6 / 2 / 8: predicted 0 1/s, measured 50" in missed


def test_how_far_two_runs_of_a_size_are_apart_is_told() -> None:
    slower = run()
    slower["costs"]["end"]["cpu_s"] = dict.fromkeys(sizing.PARTS, 9.5)
    assert stored.repeats([run(), slower, run(members=7)])["web_cores"] == 1.5


def test_a_file_that_is_not_there_or_of_others_names_the_command_that_writes_it(
    tmp_path: Any,
) -> None:
    path = tmp_path / "constants.json"
    with pytest.raises(InvalidInput, match="cannot be read, python3 manage"):
        stored.read(path)
    stored.write({"constants": {"web_cores": {"one": 1.0}}}, path)
    with pytest.raises(InvalidInput, match="other formulas, python3 manage"):
        stored.read(path)
