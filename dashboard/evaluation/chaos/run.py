"""One run, from the start of its system to the history of what happened."""

import json
import random
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from dashboard.demo.tree import TreeFailed
from dashboard.evaluation.chaos.asked import Asked
from dashboard.evaluation.chaos.eye import NOTHING, Sample
from dashboard.evaluation.chaos.history import Answer, History, Target
from dashboard.evaluation.chaos.judge import is_even
from dashboard.evaluation.chaos.strikes import Strike, strike, struck
from dashboard.evaluation.chaos.world import SETTLE_S, World
from dashboard.evaluation.inspecting import acknowledged
from dashboard.evaluation.system import now_ms

QUIET_LEASES = 2.0  # of a run before it is struck, and after it has recovered
LATE_FACTOR = 3  # so many bounds are waited for, to tell how late it was
CAUGHT_UP_S = 30.0
STRIKE_GAP_S = (0.0, 1.0)  # between one fault and the next
for _room in ("processes", "network", "redis", "members"):
    import_module(f"dashboard.evaluation.chaos.on_{_room}")  # notes its faults


@dataclass(slots=True)
class Run:
    world: World
    dice: random.Random
    strikes: list[Strike]
    began_ms: int = 0
    struck_ms: int = 0
    healed_ms: int | None = None
    ended_ms: int = 0
    problem: str = ""  # why it could not be healed

    def go(self) -> None:
        """Raises what ends a run before it is struck; what comes later is told in `problem`."""
        world, asked = self.world, self.world.asked
        world.start()
        world.start_flow()
        world.say("waiting until all is owned and processed")
        world.wait(lambda: is_settled(world), SETTLE_S, "the group did not settle")
        self.began_ms = now_ms()
        quiet_s = QUIET_LEASES * asked.timings.lease_ms / 1_000
        world.pass_time(quiet_s)
        self.struck_ms = now_ms()
        try:
            self.strike_all()
            self.healed_ms = now_ms()
            self.recover(quiet_s)
        except TreeFailed as error:
            self.problem = str(error)
            world.say(f"not healed: {error}")

    def strike_all(self) -> None:
        with ExitStack() as healing:
            for one in self.strikes:
                healing.enter_context(struck(one))
                self.world.pass_time(self.dice.uniform(*STRIKE_GAP_S))
            last_s = self.world.asked.seconds - (now_ms() - self.struck_ms) / 1_000
            if not all(one.is_over for one in self.strikes):
                self.world.pass_time(max(0.0, last_s))

    def recover(self, quiet_s: float) -> None:
        world = self.world
        world.say("waiting until the group is even again")
        limit_s = LATE_FACTOR * world.asked.bound_ms / 1_000
        world.happens(lambda: is_settled(world), limit_s)
        world.pass_time(quiet_s)
        world.end_flow()
        world.say("waiting until every event is processed")
        world.happens(lambda: self.is_caught_up(world.eye.last), CAUGHT_UP_S)
        world.pass_time(0.5)

    def is_caught_up(self, sample: Sample) -> bool:
        return sample.lag == 0

    def history(self) -> History:
        world = self.world
        world.eye.check()
        self.ended_ms = now_ms()
        now = world.eye.server.content()
        return History(
            asked=world.asked,
            began_ms=self.began_ms,
            struck_ms=self.struck_ms,
            healed_ms=self.healed_ms,
            ended_ms=self.ended_ms,
            faults=tuple(one.noted() for one in self.strikes),
            eras=(*world.eras, now),
            acknowledged=frozenset(acknowledged(world.acknowledged)),
            samples=tuple(world.eye.samples),
            answers=answers_in(world.effects),
            targets=targets_of(world),
            ended=tuple(world.ended),
            stalls=tuple(world.eye.stalls),
        )


def is_settled(world: World) -> bool:
    """All are able, and what they hold is even and what the newest target says."""
    sample = world.eye.last
    return (
        sample is not NOTHING
        and world.eye.is_fresh
        and len([m for m, able in sample.members.items() if able]) >= world.asked.agents
        and is_even(sample, world.asked)
    )


def answers_in(folder: Path) -> tuple[Answer, ...]:
    """A line that was being written when its process was killed is none."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            try:
                values: dict[str, Any] = json.loads(line)
            except ValueError:
                continue
            found.append(Answer(**{name: values[name] for name in Answer.__slots__}))
    return tuple(sorted(found, key=lambda one: one.asked_ms))


def targets_of(world: World) -> tuple[Target, ...] | None:
    try:
        rows = world.ask("targets")
    except (TreeFailed, subprocess.TimeoutExpired) as error:
        world.say(f"the database does not tell of its targets: {error}")
        return None
    return tuple(Target(**{**row, "owners": tuple(row["owners"])}) for row in rows)


def run(asked: Asked, folder: Path, say: Callable[[str], None]) -> History:
    """Raises TreeFailed, Refused, Stopped, InvalidInput."""
    world = World(asked, folder, say)
    try:
        dice = random.Random(asked.seed)
        made = Run(world, dice, [strike(name, world, dice) for name in asked.faults])
        made.go()
        return made.history()
    finally:
        world.close()
