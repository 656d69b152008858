"""Steps of scaling_check on a real tree, with tiny consumers in Spark's place.

Everything else is real: agents that learn, dashboard, Celery, Redis, the command, history.
"""

from collections import Counter
from typing import Any

import pytest

from agent.pipelines import load
from agent.producer.library import partition_of
from dashboard.demo import requests
from dashboard.evaluation.checks import scaling, scaling_runs
from dashboard.evaluation.checks.scaling import STEPS, Scaling
from tests.agent.tiny_demo import flowing, tiny_run


@pytest.fixture(scope="module")
def judged() -> dict[str, Any]:
    """What the evaluation says; by the way the page gets its consumer."""
    with pytest.MonkeyPatch.context() as patch, tiny_run() as run:
        patch.setattr(scaling, "QUIET_S", 2.0)
        with flowing(run):
            steps = Scaling(run, keys=0)
            steps.all(["drain_named"])
            assert len(run.demo.consumers) == 2, "who left is not started again"
            requests.serve(run.demo.options.data)
            requests.ask_to_add(run.demo.options.data, "ann")
            run.demo.serve_requests()
            run.demo.wait_settled()
            assert len(run.demo.consumers) == 3
            steps.all(["timeout"])
            assert len(run.demo.consumers) == 2
        run.acknowledged.write_text("")
        found = run.evaluate_times("--changes", steps.changes)
    assert steps.problems == []
    return dict(found)


@pytest.mark.slow
def test_member_that_is_told_to_leave_pauses_only_what_it_had(judged: dict[str, Any]) -> None:
    step, _ = judged["changes"]
    assert scaling_runs.faults_of(step) == []
    assert step["name"] == "drain_named"
    assert step["converged"]
    assert step["moved"] in (1, 2)
    assert step["pause_ms"]["count"] == step["moved"]
    assert step["unaffected"] == 4 - step["moved"]
    assert step["rounds"] >= 2, "one that lets learn, one that hands over"
    assert len(judged["learned_ms"]) >= step["moved"]
    assert judged["overlap_ms"] == 0


@pytest.mark.slow
def test_member_whose_time_is_over_goes_at_once(judged: dict[str, Any]) -> None:
    """However quick the learners were: `judged` has seen that there are no problems."""
    _, step = judged["changes"]
    assert (step["name"], step["converged"]) == ("timeout", True)
    assert scaling_runs.faults_of(step) == []


def test_steps_have_the_names_of_the_options() -> None:
    assert list(STEPS) == [
        *("add", "drain_named", "drain_half", "kill_leaving"),
        *("kill_learner", "kill_celery", "kill_web", "timeout"),
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lost": 1}, ["add: lost is 1"]),
        ({"doubled": 2}, ["add: doubled is 2"]),
        ({"max_minus_min": 2}, ["add: max_minus_min is 2"]),
        ({"max_minus_min": None}, ["add: max_minus_min is None"]),
        ({}, []),
    ],
)
def test_step_with_a_wrong_number_is_named(change: dict[str, Any], said: list[str]) -> None:
    right = {"name": "add", "lost": 0, "doubled": 0, "max_minus_min": 1}
    assert scaling_runs.faults_of({**right, **change}) == said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, []),
        ({"unaffected_paused": 0.1}, ["add: unaffected_paused is 0.1"]),
        ({"pause_ms": {"max": 901}}, ["add: pause_ms max is 901, above 900"]),
        ({"pause_ms": {"max": None}}, ["add: pause_ms max is None, above 900"]),
        ({"name": "kill_leaving", "pause_ms": {"max": 9_000}}, []),
    ],
)
def test_pause_that_is_too_long_is_named(change: dict[str, Any], said: list[str]) -> None:
    right = {"name": "add", "unaffected_paused": 0.0, "pause_ms": {"max": 900}, "limit_ms": 900}
    assert scaling_runs.pauses_of({**right, **change}, moved=True) == said
    few = [text for text in said if "pause_ms" not in text]
    assert scaling_runs.pauses_of({**right, **change}, moved=False) == few


@pytest.mark.parametrize(("each", "partitions"), [(16_667, 12), (1, 12), (50, 3), (100_000, 2)])
def test_every_partition_gets_as_many_keys_as_are_asked_for(each: int, partitions: int) -> None:
    keys = scaling.keys_in_all(each, partitions)
    found = Counter(partition_of(load.key(n), partitions) for n in range(keys))
    assert min(found[n] for n in range(partitions)) >= each


def test_ratio_is_of_medians() -> None:
    assert scaling_runs.warm_over_cold([10.0, 20.0, 90.0], [200.0, 400.0]) == 0.0667
    assert scaling_runs.warm_over_cold([], [200.0]) is None
    assert scaling_runs.warm_over_cold([1.0], []) is None
