"""`python3 manage.py demo_check --kill 2 --json`: is the result right, whatever happens on the way?

A run of its own. At random moments agents are killed with their consumers, and one consumer is
added; then the pipeline's result is compared with pandas, and effects are counted by event.
"""

import json
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from dashboard.demo.options import Refused
from dashboard.demo.tree import Stopped, TreeFailed
from dashboard.evaluation.system import FLIGHTS_IN_ALL, Run, own_run, speed_for
from dashboard.management.arguments import say, whole

CONSUMERS = 3
QUIET_S = 10.0  # of events before the first and after the last disturbance
PER_DISTURBANCE_S = 25.0  # one may fall into the work that the one before it caused
REJOIN_S = 300.0


class Command(BaseCommand):
    help = (
        "Kills consumers while flights flow, and compares the result with pandas, event by event."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--kill", type=whole(0, 20), default=2)
        parser.add_argument("--flights", type=whole(1, FLIGHTS_IN_ALL), default=60_000)
        parser.add_argument("--out", type=Path, help="folder for result.csv and applied.csv")
        parser.add_argument("--seed", type=whole(0, 2**31), help="of the random moments")
        parser.add_argument("--json", action="store_true", help="one JSON object")

    def handle(self, *_: Any, **options: Any) -> None:
        seed = secrets.randbelow(2**31) if options["seed"] is None else options["seed"]
        out = options["out"].resolve() if options["out"] else None
        try:
            found = check(options["flights"], options["kill"], out, seed)
        except Stopped:
            sys.exit("evenkeel: asked to end")
        except (Refused, TreeFailed) as error:
            sys.exit(f"evenkeel: {error}")
        lines = (f"{name}: {value}" for name, value in found.items())
        self.stdout.write(json.dumps(found) if options["json"] else "\n".join(lines))
        sys.exit(0 if is_right(found) else 1)


def is_right(found: dict[str, Any]) -> bool:
    return found["equal"] is True and not any(
        found[name] for name in ("lost", "doubled", "overlap_ms")
    )


def check(flights: int, kills: int, out: Path | None, seed: int) -> dict[str, Any]:
    """Raises Refused, TreeFailed, Stopped."""
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
        found = run.evaluate(
            "--flights", str(flights), "--acknowledged", str(run.acknowledged), *where
        )
        return {
            "flights": flights,
            "kills": run.kills,
            "added": len(run.demo.consumers) - CONSUMERS,
            **{name: found[name] for name in MEASURED},
            "events_per_second": round(flights / took, 1),
        }


MEASURED = (
    "equal",
    "lost",
    "doubled",
    "refused_commits",
    "rebalances",
    "overlap_ms",
    "unowned_ms",
)


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


def ready(run: Run) -> list[Any]:
    return [c for c in run.demo.consumers if c.pid and run.demo.is_ready(f"{c.name}-")]


def add_one(run: Run) -> None:
    run.say("adding a consumer")
    run.demo.start_consumer(wait=False)
