"""capacity: constants come out of runs, figures out of constants, and limits out of figures."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from django.core.management import call_command

from assignment.errors import InvalidInput
from dashboard.celery import app
from dashboard.coordinator.sampling import AT_ONCE, SAMPLES
from dashboard.evaluation.capacity import curves, measuring, pages, sizing, stored
from dashboard.evaluation.capacity.curves import Chart, Curve
from dashboard.evaluation.capacity.formulas import (
    ENOUGH,
    FORMULAS,
    GATHER_S,
    GATHERED_MAX,
    NOT_JUDGED,
    OF_RUNS,
    SAMPLING,
    TRIP_S,
    Constants,
    Load,
    Sampling,
    fitted,
    predicted,
    sampled,
    waited_s,
)
from dashboard.evaluation.capacity.sizing import Asked, Each, Limit
from dashboard.live import batch

NOTHING = {figure: dict.fromkeys(of.terms, 0.0) for figure, of in FORMULAS.items()}
ROWS = (
    *("agent_redis_connections", "redis_connection_kib", "database_rows_per_second"),
    *(name for of in stored.OF_EVENTS.values() for name, _ in of.values()),
)
EVERY_S = app.conf.beat_schedule["sample"]["schedule"]
EACH = Each(connections=2, connection_mib=0.03, dashboard=40, rows=1_000)
ASKED = Asked(
    agents=1_000, groups=10, partitions=5_000, beat_s=3.0, rebalances_a_day=24.0, moved=0.1,
    cores=4, memory_gib=16,
)  # fmt: skip


def load(members: int, groups: int, partitions: int) -> Load:
    return Load(
        members=members, groups=groups, with_members=min(members, groups), partitions=partitions,
        beat_s=3.0,
    )  # fmt: skip


LOADS = [load(*size) for size in measuring.SIZES]


def constants(**of: dict[str, float]) -> dict[str, dict[str, float]]:
    return {figure: {**terms, **of.get(figure, {})} for figure, terms in NOTHING.items()}


def run(**changes: Any) -> dict[str, Any]:
    """As load_check tells it: 10 s without a change after 20 s of joining."""

    def costs(at_s: float, cpu_s: float, **more: float) -> dict[str, Any]:
        parts = dict.fromkeys(sizing.PARTS, cpu_s)
        rest = {"redis_mib": 3.0, "redis_clients": 50, "rebalances": 0, "samples": 0}
        rest |= {"redis_commands": 0, "database_bytes": 0, "rows": 0}
        return {"began_s": at_s - 1, "at_s": at_s, "cpu_s": parts, "mib": parts, **rest, **more}

    moments = {
        "quiet": costs(0.0, 1.0),
        "steady": costs(20.0, 8.0),
        "end": costs(
            30.0, 9.0, redis_commands=500, database_bytes=9_000, rows=7, rebalances=3, samples=4
        ),
    }
    sizes = {
        "members": 6,
        "groups": 2,
        "partitions": 8,
        "moves": 4,
        "others_cores": 0.1,
    }
    went = {"join_steady_s": 20.0, "timeouts": 0, "errors": 0}
    return {**sizes, **went, "costs": moments, **changes}


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


def test_each_size_that_tells_the_pace_counts_as_much(content: Any) -> None:
    many, few = (taking(content["constants"], size) for size in measuring.PACE_SIZES)
    many["costs"]["end"]["cpu_s"] = {
        part: 8.0 + 3 * (spent_s - 8.0) for part, spent_s in many["costs"]["end"]["cpu_s"].items()
    }
    assert stored.pace((many, few), content["runs"]) == pytest.approx(2, abs=0.01)


def taking(of: Constants, size: measuring.Size, factor: float = 1.0) -> dict[str, Any]:
    """A run that takes so many times what is predicted of it."""
    members, groups, partitions = size
    one = run(members=members, groups=groups, partitions=partitions, moves=0)
    at = sampled(of, measuring.load_of(one))

    def value(figure: str, load: Load = at) -> float:
        return factor * predicted(of, figure, load)

    before, end = one["costs"]["steady"], one["costs"]["end"]
    end["cpu_s"] = {p: before["cpu_s"][p] + 10 * value(f"{p}_cores") for p in sizing.PARTS}
    end["mib"] = {part: value(f"{part}_mib") for part in ("web", "worker")}
    end |= {"redis_commands": 10 * value("redis_ops"), "redis_mib": value("redis_mib")}
    end |= {"samples": 10 * at.samples}
    happened, _ = measuring.changes(one)
    end["database_bytes"] = value("database_bytes", happened)
    end["rows"] = value("database_rows", happened)
    return one


@pytest.fixture
def content() -> dict[str, Any]:
    """As --measure makes it of runs that take what these constants say."""
    made = {
        figure: {term: 1e-3 if term == "one" else 1e-5 for term in of.terms}
        for figure, of in OF_RUNS.items()
    }
    runs = [taking(made, size) for size in measuring.MEASURED_SIZES]
    return stored.made(runs, dict.fromkeys(ROWS, 2.0))


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


# --- what it takes


def test_machines_follow_from_the_part_that_needs_most_of_them() -> None:
    of = constants(web_cores={"beat a second": 0.003}, redis_mib={"owned partition": 0.001})
    needs = sizing.sized(of, EACH, ASKED)["needs"]
    assert (needs["web_processes"], needs["cores"]["web"]) == (2, 1.0)
    assert needs["redis_nodes_by"] == {"cpu": 0, "memory": 1, "connections": 1}
    assert needs["mib"]["redis"] == pytest.approx(5.0 + 60.0)
    many = sizing.sized(of, EACH, replace(ASKED, agents=20_000))["needs"]
    assert many["redis_nodes_by"]["connections"] == many["redis_nodes"] == 5


def test_beats_that_come_together_share_a_trip_and_each_web_process_makes_its_own() -> None:
    few, many = (replace(load(800, 4, 1_600), members=members) for members in (3, 300_000))
    assert few.trips == pytest.approx(1, abs=0.01)
    assert many.trips == pytest.approx(1 / (TRIP_S + batch.GATHER_S), rel=0.01)
    assert replace(many, web_processes=2).trips == pytest.approx(2 * many.trips, rel=0.01)
    assert (GATHER_S, GATHERED_MAX, ENOUGH) == (batch.GATHER_S, batch.GATHERED_MAX, batch.ENOUGH)
    some = replace(few, members=3_000)
    assert 1_000 / some.trips == pytest.approx(ENOUGH, rel=0.1), "as many as are gathered"
    assert waited_s(0.0) == GATHER_S
    of = constants(web_cores={"one": 0.01, "trip a second": 0.002})
    needs = sizing.sized(of, EACH, replace(ASKED, agents=3_000))["needs"]
    assert (needs["web_processes"], needs["cores"]["web"]) == (1, pytest.approx(0.102, abs=0.001))


def test_a_commit_has_the_events_that_came_while_it_waited_for_them() -> None:
    at = replace(load(800, 4, 1_600), events=1_600.0, goal_s=0.0)
    assert at.commits == 1_600
    assert replace(at, goal_s=1.0).commits == 800
    assert replace(at, members=0, with_members=0).commits == 0


def test_what_groups_without_members_have_is_not_owned() -> None:
    half = replace(ASKED, empty_groups=5)
    at = half.load(NOTHING, 10.0)
    assert (at.with_members, at.owned, at.members_a_group) == (5, 2_500, 200)
    assert at.samples == pytest.approx(10 * (5 / 5 + 5 * 1.386 / 300), rel=0.01)


def test_samples_are_as_many_as_their_share_of_a_processor_allows() -> None:
    assert Sampling(
        period_s=SAMPLES.period_ms / 1e3, quiet_s=SAMPLES.quiet_ms / 1e3,
        share=SAMPLES.share_s / EVERY_S, late_s=SAMPLES.late_ms / 1e3,
        late_share=SAMPLES.late_share_s / EVERY_S, at_least=AT_ONCE / EVERY_S,
    ) == SAMPLING  # fmt: skip

    def of(groups: int, **terms: float) -> float:
        one = load(members=10 * groups, groups=groups, partitions=100 * groups)
        return sampled(constants(worker_cores=terms), one).samples

    assert of(1_000) == 200  # each 5 s
    assert of(100, sample=0.001) == 20
    assert of(300, sample=0.001) == 30  # three hundredths of a processor
    assert of(3_000, sample=0.001) == 100  # but each 30 s
    assert of(30_000, **{"partition of a sample": 1e-5}) == 800  # of a whole processor at most
    assert of(100, **{"member of a sample": 1.0}) == 10  # at least some


def test_events_take_memory_until_they_are_trimmed_and_cpu_of_redis() -> None:
    of = constants(redis_event_bytes={"event": 2**20}, redis_event_s={"event": 1e-4})
    found = sizing.sized(of, replace(EACH, connection_mib=0), replace(ASKED, events=1_000))
    assert found["needs"]["mib"]["redis"] == 11_000  # 10 s until they are trimmed, 1 s of waiting
    assert found["needs"]["cores"]["redis"] == pytest.approx(0.1)


def test_the_first_limit_is_the_one_of_which_most_is_used() -> None:
    of = constants(redis_cores={"one": 0.1, "member": 2e-4})
    found = sizing.sized(of, EACH, ASKED)
    assert found["first_limit"]["name"] == "CPU of one Redis"
    assert found["first_limit"]["used"] == 0.5
    assert found["first_limit"]["times"] == 2.5
    used = [one["used"] for one in found["limits"]]
    assert used == sorted(used, reverse=True)


@pytest.mark.parametrize(
    ("name", "value", "changes"),
    [
        ("CPU of one web process", 1.0, {"web_cores": {"member": 0.001}}),
        ("CPU of one ticker", 1.0, {"worker_cores": {"group": 0.1, "sample": 9.0}}),
        ("samples each 30 s, one at a time", 3.0, {"worker_cores": {"group": 0.1, "sample": 9.0}}),
        ("cores of one machine", 1.5, {"worker_change_s": {"rebalance": 540.0}}),
        ("writes to the database", 1_000.0, {"database_rows": {"join": 360_000.0}}),
        ("memory of one Redis", 10_060.0, {"redis_mib": {"member": 10.0}}),
        ("connections of one Redis", 2_040.0, {}),
    ],
)  # fmt: skip
def test_each_limit_is_of_its_own_figure(name: str, value: float, changes: Any) -> None:
    found = {one["name"]: one for one in sizing.sized(constants(**changes), EACH, ASKED)["limits"]}
    assert found[name]["value"] == pytest.approx(value)
    assert found[name]["used"] == pytest.approx(value / found[name]["limit"], rel=1e-3)


def test_what_does_not_grow_is_never_met() -> None:
    assert Limit(name="", value=1.0, most=2.0, unit="", beyond="", at_nothing=1.0).times is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"partitions": 9}, "less than one for each of 10 groups"),
        ({"partitions": 2_000_000}, "more than 100000 for each group"),
        ({"agents": 20_000, "partitions": 10}, "for each group of 1 partitions"),
        ({"empty_groups": 10}, "leaves no group for 1000 agents"),
    ],
)
def test_what_no_group_could_be_is_refused(changes: dict[str, int], why: str) -> None:
    assert why in sizing.refusal_of(replace(ASKED, **changes))
    assert not sizing.refusal_of(ASKED)


@pytest.mark.parametrize("options", [("--groups", "20", "--partitions", "9"), ("--agents", "x")])
def test_bad_input_is_one_sentence(options: tuple[str, ...], capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        call_command("capacity", *options)
    assert ended.value.code == 3
    told = capsys.readouterr()
    assert not told.out and len(told.err.splitlines()) == 1


def test_the_command_tells_each_figure_with_its_terms(
    content: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(stored, "read", lambda: content)
    sizes = ("--agents", "50000", "--groups", "2000", "--partitions", "1000000")
    with pytest.raises(SystemExit) as ended:
        call_command("capacity", *sizes, "--json")
    assert ended.value.code == 0
    found = json.loads(capsys.readouterr().out)
    for figure in found["figures"].values():
        assert sum(figure["terms"].values()) == pytest.approx(figure["value"])
    with pytest.raises(SystemExit):
        call_command("capacity", *sizes)
    text = capsys.readouterr().out
    assert f"first limit: {found['first_limit']['name']}" in text
    assert all(name in text for name in FORMULAS)


# --- the page


def test_the_page_and_its_pictures_are_of_what_was_measured() -> None:
    """Else: python3 manage.py capacity --write"""
    content, page = stored.read(), pages.PAGE.read_text()
    assert {run["groups"] for run in content["runs"]} == {
        groups for _, groups, _ in measuring.SIZES
    }
    assert pages.put(page, pages.tables(content)) == page
    drawn = pages.pictures(content) | pages.growth_pictures(stored.read_growth())
    for name, text in drawn.items():
        assert (pages.IMAGES / name).read_text() == text
        assert f"(img/{name})" in page


def test_measuring_writes_constants_that_come_out_of_its_runs_and_the_page(
    content: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, page = content["constants"], tmp_path / "capacity.md"
    monkeypatch.setattr(measuring, "run", lambda size, *_: taking(of, size))
    monkeypatch.setattr(stored, "benched", lambda: content["benches"])
    monkeypatch.setattr(stored, "FILE", tmp_path / "constants.json")
    page.write_text(pages.PAGE.read_text())
    monkeypatch.setattr(pages, "PAGE", page)
    monkeypatch.setattr(pages, "IMAGES", tmp_path)
    with pytest.raises(SystemExit) as ended:
        call_command("capacity", "--measure")
    assert ended.value.code == 0
    for row in stored.judged(stored.read()["fits"]):
        assert row["ratio"] is None or row["ratio"] == pytest.approx(1, abs=0.02), row
    assert all(f"| `{figure}` |" in page.read_text() for figure in FORMULAS)
    assert (tmp_path / "capacity_cpu.svg").read_text().startswith("<svg")


def test_what_grows_in_proportion_is_straight_and_names_are_escaped() -> None:
    places, values = [1, 10, 100], [2.0, 20.0, 200.0]
    drawn = curves.drawn(Chart("a < b", "x", "y", places, [Curve("one & two", values)]))
    line = ElementTree.fromstring(drawn).find(".//{*}polyline")
    assert line is not None
    (x1, y1), (x2, y2), (x3, y3) = (map(float, p.split(",")) for p in line.attrib["points"].split())
    assert (x2 - x1, y2 - y1) == pytest.approx((x3 - x2, y3 - y2), abs=0.2)
