"""Two coordinators that compute one group's target at once, each in a process of its own: both have
read and decided before either stores. The first has the group's run; the second goes past it, as
one does that lost its lease while its machine stood still.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assignment.coordinator import rebalance as rebalancing
from assignment.coordinator.effects import Effect, SetTarget
from assignment.coordinator.effects import run as run_steps
from assignment.scripts.dashboard_side import request_rebalance
from assignment.types import Coordination, Reason
from dashboard.coordinator import carrying
from dashboard.live import queue
from dashboard.live.scripts import run
from dashboard.models import Group

FIRST = "first"
ROUNDS_MAX = 5  # another one may have stored a target before the two could read
MEET_S = 60.0
LOOK_EVERY_S = 0.01


@dataclass(frozen=True, slots=True)
class Meeting:
    """Of two, each of whom notes in the folder where it has got to."""

    folder: Path
    me: str

    def note(self, what: str) -> None:
        (self.folder / f"{what}.{self.me}").touch()

    def others(self) -> set[str]:
        found = (path.name.rpartition(".") for path in self.folder.iterdir())
        return {what for what, _, who in found if who != self.me}

    def wait(self, *what: str) -> None:
        """Until the other one has noted one of these. Raises TimeoutError."""
        until_s = time.monotonic() + MEET_S
        while not self.others() & set(what):
            if time.monotonic() > until_s:
                raise TimeoutError(f"the other one did not get to {what[0]}")
            time.sleep(LOOK_EVERY_S)


def compute_at_once(group: Group, meeting: Meeting) -> dict[str, bool]:
    """`met`: the other one had computed too before one of them stored; `stored`: it was this."""
    with having_run(group.name) if meeting.me == FIRST else nullcontext():
        for number in range(ROUNDS_MAX):
            asked, computed, ended = (f"{number}-{what}" for what in ("asked", "computed", "ended"))
            if meeting.me == FIRST:
                run(request_rebalance(Reason.MANUAL), group.name)
            meeting.note(asked)
            meeting.wait(asked)

            def meet(computed: str = computed, ended: str = ended) -> None:
                meeting.note(computed)
                meeting.wait(computed, ended)

            stored = compute(group, meet)
            meeting.note(ended)
            meeting.wait(ended)
            if stored is not None and computed in meeting.others():
                return {"met": True, "stored": stored}
    return {"met": False, "stored": False}


def compute(group: Group, meet: Callable[[], None]) -> bool | None:
    """Whether its target was stored; None: none was due. `meet` comes just before."""
    here, stored = carrying.Here(group.name, group), list[bool]()

    def perform(effect: Effect[Any]) -> Any:
        if not isinstance(effect, SetTarget):
            return carrying.perform(here, effect)
        meet()
        refused = carrying.perform(here, effect)
        stored.append(refused is None)
        return refused

    run_steps(rebalancing.rebalance(Coordination.SERVER), perform)
    return stored[-1] if stored else None


@contextmanager
def having_run(name: str) -> Iterator[None]:
    """No worker of Celery computes meanwhile. Raises TimeoutError."""
    until_s = time.monotonic() + MEET_S
    while time.monotonic() < until_s:
        with queue.running(name) as mine:
            if mine:
                yield
                return
        time.sleep(LOOK_EVERY_S)
    raise TimeoutError("another run has it")
