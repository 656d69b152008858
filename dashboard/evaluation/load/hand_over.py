"""One large group beside the others, all of whose partitions change hands, while it is followed how
far apart the others' ticks are.

First half of them go over, to as many members that join; then the other half, as those that were
there before are killed.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dashboard.evaluation.load.aims import Sizes
from dashboard.evaluation.load.told import Latencies
from dashboard.management.arguments import say

if TYPE_CHECKING:
    from dashboard.evaluation.load.check import Crowd, Scene

GROUP = "large"
MEMBERS = 100  # that have all partitions before, and as many others afterwards
SPREAD_S = 0.2  # of the joins: all are started at once, as by a deployment
WITHIN_S = 60.0  # of each step
NOTHING = {"hand_over_s": None, "hand_over_tick_gap_ms": None, "hand_over_p99_ms": None}


def partitions_of(asked: Sizes) -> Mapping[str, int]:
    """By group; none when nothing is to change hands."""
    return {GROUP: asked.hand_over} if asked.hand_over else {}


def sizes_of(asked: Sizes) -> Sizes:
    """Of its clients: the first plays those that give, the second those that take."""
    return replace(asked, members=2 * MEMBERS, groups=1, partitions=asked.hand_over, processes=2)


@dataclass(slots=True)
class HandOver:
    """`givers`, `takers`: one client each."""

    scene: "Scene"
    givers: "Crowd"
    takers: "Crowd"

    def run(self) -> dict[str, Any]:
        """Seconds until all had gone over (None: they never had), and what others met meanwhile.
        Raises TreeFailed, Stopped.
        """
        scene = self.scene
        self.givers.ask("join")
        if not self._is_steady_soon(self.givers):
            return dict(NOTHING)
        scene.crowd.ask("anew")
        scene.watch.anew()
        began_s = time.monotonic()
        self.takers.ask("join")
        is_done = self._is_steady_soon(self.givers, self.takers)
        if is_done:
            say(f"{GROUP}: {self.givers.status().held} partitions lose their owners")
            self.givers.programs[0].kill()
            is_done = self._is_steady_soon(self.takers)
        return {
            "hand_over_s": round(time.monotonic() - began_s, 1) if is_done else None,
            "hand_over_tick_gap_ms": scene.watch.gaps.longest_ms,
            "hand_over_p99_ms": Latencies(scene.crowd.status().latencies).share_ms(99),
        }

    def _is_steady_soon(self, *alive: "Crowd") -> bool:
        def is_steady() -> bool:
            of = [crowd.status() for crowd in alive]
            held = [status.held for status in of]
            self.scene.say_now_and_then(lambda: f"{GROUP}: {held} partitions held")
            are_settled = all(status.joined == status.settled == MEMBERS for status in of)
            return are_settled and all(held) and sum(held) == self.scene.asked.hand_over

        if self.scene.run.happens(is_steady, WITHIN_S):
            return True
        for status in [crowd.status() for crowd in alive]:  # why not, for whoever runs it
            say(f"{GROUP}: {status.settled} of {status.joined} settled, {dict(status.count)}")
            for kind, text in status.why.items():
                say(f"{GROUP}: the first of {kind}: {text}")
        return False
