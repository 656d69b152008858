"""The system that is photographed: a dashboard, a Redis and agents with light consumers, all real,
in a folder of their own, and what happens in it before anybody looks.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dashboard.demo import requests
from dashboard.demo.options import GROUP, LIGHT, LIGHT_MIB
from dashboard.demo.tree import Process
from dashboard.evaluation.runner import tell
from dashboard.evaluation.screenshots import deeds
from dashboard.evaluation.system import Run, ask, load, own_run

CONSUMERS, PARTITIONS, STANDBYS = 4, 24, 1
KEYS, RATE = 500, 200.0
SEED = 1
SOME_BATCHES = 20
CHAOS = ("chaos", "--fault", "minor-kill", "--fast", "--json")
CHAOS_TIMEOUT_S = 300.0
LEFT_S = 90.0
REMEMBERED_S = 30.0  # until samples and attention tell what happened
FOREIGN = ("REDIS_URL", "DATABASE_URL", "SECRET_KEY")


class Scene:
    """Methods may raise TreeFailed, Refused, Stopped."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.demo = run.demo

    def start(self) -> None:
        self.demo.start_dashboard()
        requests.serve(self.demo.options.data)
        flow = load(self.demo.parts, GROUP, KEYS, RATE, self.run.acknowledged, "--form", "lines")
        self.demo.tree.start(flow)
        self.demo.start_consumers()

    def deed(self, name: str) -> Any:
        tell(f"deed: {name}")
        return ask(name, self.demo.parts.environment, deeds.__name__, name, GROUP)

    def happen(self) -> None:
        """A consumer is killed and comes back, another one leaves by a plan that was approved;
        something needs attention, an evaluation runs, a further plan waits.
        """
        self.deed("people")
        self.run.wait_at_work(SOME_BATCHES)
        self.lose(self.demo.consumers[0])
        self.deed("propose")
        self.deed("approve")
        self.run.wait(
            lambda: len(self.demo.consumers) < CONSUMERS, LEFT_S, "the drained member did not leave"
        )
        self.deed("limits")
        tell("an evaluation")
        ask(
            "the evaluation",
            self.demo.parts.environment,
            "django",
            *CHAOS,
            timeout_s=CHAOS_TIMEOUT_S,
        )
        self.demo.wait_settled()
        self.deed("propose")
        self.run.pass_time(REMEMBERED_S)

    def lose(self, consumer: Process) -> None:
        """Killed; its successor owns what it owned, or others do."""
        member = self.run.member_of(consumer)
        self.run.kill(consumer)
        self.run.wait(
            lambda: member not in self.demo.status()["members"],
            LEFT_S,
            f"{member} was still a member",
        )
        self.demo.wait_settled()


@contextmanager
def scene() -> Iterator[Scene]:
    """Whatever this installation is set to: nothing of it is touched."""
    for name in [n for n in os.environ if n in FOREIGN or n.startswith("EVENKEEL_")]:
        del os.environ[name]
    with own_run(
        tell,
        SEED,
        consumers=CONSUMERS,
        partitions=PARTITIONS,
        standbys=STANDBYS,
        pipeline=LIGHT,
        consumer_mib=LIGHT_MIB,
    ) as run:
        yield Scene(run)
