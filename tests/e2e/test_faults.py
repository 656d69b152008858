"""Two steps of fault_check on a real tree, with tiny consumers in Spark's place.

Everything else is real: agents, dashboard, Celery, Redis, signals, history.
"""

import json
from dataclasses import asdict
from typing import Any

import pytest

from dashboard.evaluation import faults
from tests.agent.tiny_demo import flowing, tiny_run


@pytest.fixture(scope="module")
def judged() -> dict[str, Any]:
    """The steps' numbers by name."""
    with pytest.MonkeyPatch.context() as patch, tiny_run() as run:
        patch.setattr(faults, "QUIET_S", 2.0)
        with flowing(run):
            steps = faults.Faults(run)
            steps.kill_consumer()
            steps.term()
        run.acknowledged.write_text("")
        windows = run.demo.options.data / "steps.json"
        windows.write_text(json.dumps([asdict(window) for window in steps.windows]))
        found = run.evaluate("--acknowledged", str(run.acknowledged), "--steps", str(windows))
    assert steps.problems == []
    assert found["overlap_ms"] == 0
    return {step["name"]: step for step in found["steps"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kill_consumer", "term"])
def test_step_recovers_and_leaves_the_others_alone(judged: dict[str, Any], name: str) -> None:
    step = judged[name]
    assert faults.faults_of(step) == []
    assert 0 < step["recovered_ms"] <= step["bound_ms"]
    assert (step["others_fences_changed"], step["expired_leases"]) == (0, 0)
    assert 0 < step["others_commit_gap_during_ms"] < faults.TIMINGS.lease_ms


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"recovered_ms": None}, "recovered_ms None"),
        ({"recovered_ms": 12_001, "bound_ms": 12_000}, "recovered_ms 12001 is not within 12000"),
        ({"others_fences_changed": 1}, "others_fences_changed is 1"),
        ({"others_commit_gap_during_ms": 10_000}, "is not below the lease"),
        ({"lost": 1}, "lost is 1"),
        ({"doubled": 2}, "doubled is 2"),
        ({"name": "term", "expired_leases": 1}, "expired_leases is 1"),
        ({"name": "suspend", "refused_commits": 0}, "the run is void"),
    ],
)
def test_step_with_a_wrong_number_is_named(change: dict[str, Any], said: str) -> None:
    right = {
        "name": "kill",
        "recovered_ms": 10_000,
        "bound_ms": 12_000,
        "others_fences_changed": 0,
        "others_commit_gap_before_ms": 300,
        "others_commit_gap_during_ms": 400,
        "expired_leases": 4,
        "refused_commits": 1,
        "lost": 0,
        "doubled": 0,
    }
    assert faults.faults_of(right) == []
    (wrong,) = faults.faults_of({**right, **change})
    assert said in wrong
