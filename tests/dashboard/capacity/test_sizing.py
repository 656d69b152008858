"""capacity: figures come out of constants, machines and limits out of figures."""

import json
from dataclasses import replace
from typing import Any

import pytest
from django.core.management import call_command

from dashboard.celery import app
from dashboard.coordinator.sampling import AT_ONCE, SAMPLES
from dashboard.evaluation.capacity import sizing, stored
from dashboard.evaluation.capacity.formulas import (
    ENOUGH,
    FORMULAS,
    GATHER_S,
    GATHERED_MAX,
    SAMPLING,
    TRIP_S,
    Sampling,
    sampled,
    waited_s,
)
from dashboard.evaluation.capacity.sizing import Asked, Each, Limit
from dashboard.live import batch
from tests.dashboard.capacity.runs import NOTHING, constants, load

EVERY_S = app.conf.beat_schedule["sample"]["schedule"]
EACH = Each(connections=2, connection_mib=0.03, dashboard=40, rows=1_000)
ASKED = Asked(
    agents=1_000, groups=10, partitions=5_000, beat_s=3.0, rebalances_a_day=24.0, moved=0.1,
    cores=4, memory_gib=16,
)  # fmt: skip


def test_machines_follow_from_the_part_that_needs_most_of_them() -> None:
    of = constants(web_cores={"beat a second": 0.003}, redis_mib={"owned partition": 0.001})
    needs = sizing.sized(of, EACH, ASKED)["needs"]
    assert (needs["web_processes"], needs["cores"]["web"]) == (2, 1.0)
    assert needs["redis_nodes_by"] == {"cpu": 0, "memory": 1, "connections": 1}
    assert needs["mib"]["redis"] == pytest.approx(5.0 + 60.0)
    many = sizing.sized(of, EACH, replace(ASKED, agents=20_000))["needs"]
    assert many["redis_nodes_by"]["connections"] == many["redis_nodes"] == 5


def test_limits_and_gathering_are_those_of_the_web_process(settings: Any) -> None:
    assert sizing.AGENT_RATE == settings.AGENT_RATE_PER_SECOND
    assert (GATHER_S, GATHERED_MAX, ENOUGH) == (batch.GATHER_S, batch.GATHERED_MAX, batch.ENOUGH)


def test_beats_that_come_together_share_a_trip_and_each_web_process_makes_its_own() -> None:
    few, many = (replace(load(800, 4, 1_600), members=members) for members in (3, 300_000))
    assert few.trips == pytest.approx(1, abs=0.01)
    assert many.trips == pytest.approx(1 / (TRIP_S + batch.GATHER_S), rel=0.01)
    assert replace(many, web_processes=2).trips == pytest.approx(2 * many.trips, rel=0.01)
    some = replace(few, members=6_000)
    assert 2_000 / some.trips == pytest.approx(ENOUGH, rel=0.1), "as many as are gathered"
    assert waited_s(0.0) == GATHER_S
    of = constants(web_cores={"one": 0.01, "trip a second": 0.002})
    needs = sizing.sized(of, EACH, replace(ASKED, agents=3_600))["needs"]
    assert (needs["web_processes"], needs["cores"]["web"]) == (1, pytest.approx(0.058, abs=0.001))


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
