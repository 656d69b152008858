"""A step of redis_check on a real tree, with tiny consumers in Spark's place."""

import pytest

from dashboard.evaluation.checks import redis_run, redis_steps
from dashboard.evaluation.checks.redis_run import NamedDemo, RedisRun
from dashboard.evaluation.checks.redis_steps import RedisSteps
from tests.agent.tiny_demo import flowing, tiny_run

HUNG_S = 2.0  # far below the lease: nothing may change hands


@pytest.mark.slow
def test_redis_that_hung_for_a_moment_cost_nothing() -> None:
    with pytest.MonkeyPatch.context() as patch, tiny_run(NamedDemo) as run:
        patch.setattr(redis_steps, "HUNG_S", HUNG_S)
        patch.setattr(redis_run, "WARM_BATCHES", 1)
        run.acknowledged.write_text("")
        with flowing(run):
            step = RedisSteps(RedisRun(run)).one("redis_hung", RedisSteps.redis_hung)
    assert step is not None
    assert step.error == ""
    assert step.recovered_ms is not None
    assert 0 < step.recovered_ms <= step.bound_ms
    assert (step.lost, step.doubled, step.moves_without_cause, step.agents_ended) == (0, 0, 0, 0)
    assert step.history_complete
