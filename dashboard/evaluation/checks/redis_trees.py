"""The steps of redis_check and the trees they run in: one that they share, as long as it recovers,
and one for `up` itself.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dashboard.evaluation.checks import redis_steps
from dashboard.evaluation.checks.redis_judge import ENDS_ALL, Step
from dashboard.evaluation.checks.redis_run import NamedDemo, RedisRun
from dashboard.evaluation.checks.redis_steps import RedisSteps
from dashboard.evaluation.checks.up_killed import up_killed
from dashboard.evaluation.redis_servers import Postgres
from dashboard.evaluation.system import FLIGHTS_IN_ALL, own_run, speed_for
from dashboard.management.arguments import say

STEPS = (*redis_steps.STEPS, ENDS_ALL)
NEEDS_POSTGRES = "database_away"
FLOW_S = 3_600.0  # all flights of the year take so long, which is longer than the steps


def steps_of(names: Sequence[str], seed: int, out: Path | None) -> Iterator[Step]:
    """Each as soon as it is judged. Raises Refused, TreeFailed, Stopped."""
    left = [(n, fault) for n in names if n != ENDS_ALL for fault in redis_steps.STEPS[n]]
    number = 0
    while left:
        number += 1
        with database(needed=any(name == NEEDS_POSTGRES for name, _ in left)) as postgres:
            yield from in_one_tree(left, seed, postgres, kept(out, f"tree-{number}"))
    if ENDS_ALL in names:
        with database(needed=False):
            yield up_killed(say, kept(out, ENDS_ALL))


def in_one_tree(
    left: list[tuple[str, redis_steps.Fault]],
    seed: int,
    postgres: Postgres | None,
    logs: Path | None,
) -> Iterator[Step]:
    """Takes out of `left` what was judged, until one leaves the tree unfit for another."""
    speed = speed_for(FLIGHTS_IN_ALL, FLOW_S)
    with own_run(say, seed, make=NamedDemo, speed=speed) as run:
        try:
            run.start()
            steps = RedisSteps(RedisRun(run), postgres)
            while left and steps.is_sound:
                step = steps.one(*left[0])
                if step is not None:
                    left.pop(0)
                    yield step
        finally:
            if logs is not None:
                shutil.copytree(run.demo.options.data / "logs", logs, dirs_exist_ok=True)


def kept(out: Path | None, name: str) -> Path | None:
    return None if out is None else out / name


@contextmanager
def database(*, needed: bool) -> Iterator[Postgres | None]:
    """PostgreSQL as the trees' database, where a step needs one that can be stopped."""
    before = {name: os.environ.pop(name, None) for name in ("DATABASE_URL", "REDIS_URL")}
    postgres = Postgres() if needed else None
    try:
        if postgres is not None:
            os.environ["DATABASE_URL"] = postgres.url
        yield postgres
    finally:
        os.environ.pop("DATABASE_URL", None)
        os.environ.update({name: value for name, value in before.items() if value is not None})
        if postgres is not None:
            postgres.close()
