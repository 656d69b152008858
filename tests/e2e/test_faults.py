"""Three steps of fault_check on a real tree, with tiny consumers in Spark's place.

Everything else is real: agents, dashboard, Celery, Redis, signals, history.
"""

from typing import Any

import pytest

from dashboard.evaluation.checks import faults
from tests.agent.tiny_demo import PARTITIONS, flowing, tiny_run


@pytest.fixture(scope="module")
def judged() -> dict[str, Any]:
    """The steps' numbers by name."""
    with pytest.MonkeyPatch.context() as patch, tiny_run() as run:
        patch.setattr(faults, "QUIET_S", 2.0)
        with flowing(run):
            steps = faults.Faults(run)
            steps.kill_consumer()
            steps.term()
            steps.redis_restart()
        run.acknowledged.write_text("")
        found = run.evaluate_times("--steps", steps.windows)
    assert steps.problems == []
    assert found["overlap_ms"] == 0
    return {step["name"]: step for step in found["steps"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kill_consumer", "term"])
def test_step_recovers_and_leaves_the_others_alone(judged: dict[str, Any], name: str) -> None:
    step = judged[name]
    assert faults.faults_of(step) == []
    assert 0 < step["recovered_ms"] <= step["bound_ms"]
    assert (step["others_owners_changed"], step["others_fences_changed"]) == (0, 0)
    assert (step["incarnation_raised"], step["expired_leases"]) == (False, 0)
    assert 0 < step["others_commit_gap_during_ms"] < faults.TIMINGS.lease_ms


@pytest.mark.slow
def test_redis_that_was_restarted_changes_every_fence_and_no_owner(judged: dict[str, Any]) -> None:
    step = judged["redis_restart"]
    assert faults.faults_of(step) == []
    assert step["incarnation_raised"]
    assert (step["others_owners_changed"], step["others_fences_changed"]) == (0, PARTITIONS)


RIGHT = {
    "name": "kill",
    "recovered_ms": 10_000,
    "bound_ms": 12_000,
    "incarnation_raised": False,
    "others_owners_changed": 0,
    "others_fences_changed": 0,
    "others_commit_gap_before_ms": 300,
    "others_commit_gap_during_ms": 400,
    "expired_leases": 4,
    "refused_commits": 1,
    "lost": 0,
    "doubled": 0,
}
RESTARTED = {
    "name": "redis_restart",
    "incarnation_raised": True,
    "others_fences_changed": 12,
    "expired_leases": 0,
}


@pytest.mark.parametrize("change", [{}, RESTARTED, {**RESTARTED, "others_fences_changed": 0}])
def test_step_is_right_whose_fences_changed_by_a_raised_incarnation_alone(
    change: dict[str, Any],
) -> None:
    assert faults.faults_of({**RIGHT, **change}) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"recovered_ms": None}, "recovered_ms None"),
        ({"recovered_ms": 12_001, "bound_ms": 12_000}, "recovered_ms 12001 is not within 12000"),
        ({"others_fences_changed": 1}, "others_fences_changed is 1"),
        ({**RESTARTED, "incarnation_raised": False}, "others_fences_changed is 12"),
        ({**RESTARTED, "others_owners_changed": 1}, "others_owners_changed is 1"),
        ({"incarnation_raised": True}, "the incarnation was raised"),
        ({**RESTARTED, "name": "stream_slot"}, "the incarnation was raised"),
        ({**RESTARTED, "name": "group_slot", "expired_leases": 1}, "expired_leases is 1"),
        ({"others_commit_gap_during_ms": 10_000}, "is not below the lease"),
        ({"lost": 1}, "lost is 1"),
        ({"doubled": 2}, "doubled is 2"),
        ({"name": "term", "expired_leases": 1}, "expired_leases is 1"),
        ({"name": "suspend", "refused_commits": 0}, "the run is void"),
    ],
)
def test_step_with_a_wrong_number_is_named(change: dict[str, Any], said: str) -> None:
    (wrong,) = faults.faults_of({**RIGHT, **change})
    assert said in wrong
