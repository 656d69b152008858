"""What demo_check does: at random moments agents are killed with their consumers, and one consumer
is added; then the pipeline's result is compared with pandas, and effects are counted by event.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dashboard.demo.tree import Process
from dashboard.evaluation.judge import HELD, VIOLATED
from dashboard.evaluation.system import Run, own_run, speed_for
from dashboard.management.arguments import say

CONSUMERS = 3
QUIET_S = 10.0  # of events before the first and after the last disturbance
PER_DISTURBANCE_S = 25.0  # one may fall into the work that the one before it caused
REJOIN_S = 300.0
MEASURED = (
    *("equal", "lost", "doubled", "refused_commits", "rebalances", "overlap_ms", "unowned_ms"),
)


def exit_code(found: dict[str, Any]) -> int:
    wrong = any(found[name] for name in ("lost", "doubled", "overlap_ms"))
    return HELD if found["equal"] is True and not wrong else VIOLATED


def check(flights: int, kills: int, out: Path | None, seed: int) -> dict[str, Any]:
    """The answer. Raises Refused, TreeFailed, Stopped."""
    seconds = 2 * QUIET_S + PER_DISTURBANCE_S * (kills + 1)
    speed = speed_for(flights, seconds)
    with own_run(say, seed, consumers=CONSUMERS, flights=flights, speed=speed) as run:
        run.start()
        began = time.monotonic()
        for at, strike in disturbances(run, kills, seconds):
            run.pass_time(at - (time.monotonic() - began))
            strike()
        run.wait(run.produced, seconds + REJOIN_S, "the producer did not come to its end")
        run.wait_processed(flights)
        took = time.monotonic() - began
        run.demo.wait_settled()
        where = ("--out", str(out)) if out else ()
        found = run.evaluate("--flights", str(flights), *where)
        return {
            "flights": flights,
            "kills": run.kills,
            "added": len(run.demo.consumers) - CONSUMERS,
            **{name: found[name] for name in MEASURED},
            "events_per_second": round(flights / took, 1),
        }


def disturbances(run: Run, kills: int, seconds: float) -> list[tuple[float, Callable[[], object]]]:
    """Moments (seconds after the first event) and what happens then, in order."""
    strikes: list[Callable[[], object]] = [*[lambda: kill_one(run)] * kills, lambda: add_one(run)]
    run.dice.shuffle(strikes)
    moments = sorted(run.dice.uniform(QUIET_S, seconds - QUIET_S) for _ in strikes)
    return list(zip(moments, strikes, strict=True))


def kill_one(run: Run) -> None:
    """Of those that are ready at that moment; waits for one when all are still starting."""
    run.wait(lambda: bool(ready(run)), REJOIN_S, "no consumer is ready")
    run.kill(run.dice.choice(ready(run)))


def ready(run: Run) -> list[Process]:
    return [c for c in run.demo.consumers if c.pid and run.demo.is_ready(f"{c.name}-")]


def add_one(run: Run) -> None:
    run.say("adding a consumer")
    run.demo.start_consumer(wait=False)
