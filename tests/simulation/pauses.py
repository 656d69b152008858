"""What people paused: nothing of it is planned, and nothing committed once its owner confirmed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent.store.door import ScriptCall
from assignment.pauses import WHOLE_GROUP
from tests.fakes.values import t
from tests.simulation.ledger import demand, spoken_for

if TYPE_CHECKING:
    from tests.simulation.world import World


@dataclass(slots=True)
class Pausing:
    """`stood`: partitions and fences of whoever asked for a batch when none held them."""

    world: "World"
    scopes: frozenset[str] = frozenset()
    stood: set[tuple[str, int]] = field(default_factory=set)

    def saw(self, call: ScriptCall, answer: Any) -> None:
        if see := getattr(self, f"_saw_{call.name}", None):
            see(call.args, answer)

    def rolled_back(self, scopes: frozenset[str]) -> None:
        """To what Redis had then."""
        self.scopes = scopes
        self.stood.clear()

    def _covers(self, partition: str) -> bool:
        return not self.scopes.isdisjoint((partition, WHOLE_GROUP))

    def _saw_set_pauses(self, args: Sequence[Any], answer: Any) -> None:
        if answer == b"done":
            self.scopes = frozenset(map(t, args[2::2]))
            self.stood = {one for one in self.stood if self._covers(one[0])}

    def _saw_next_batch(self, args: Sequence[Any], answer: Any) -> None:
        if answer[0] != b"ok" or not self.scopes:
            return
        for partition, *_ in answer[2:]:
            demand(not self._covers(t(partition)), f"{t(partition)} is paused and was planned")
        owned = self.world.server.hash(self.world.keys.owned(spoken_for(args)))
        for partition, value in owned.items():
            fence, state = t(value).split()
            if state == "running" and self._covers(t(partition)):
                self.stood.add((t(partition), int(fence)))

    def _saw_commit(self, args: Sequence[Any], answer: Any) -> None:
        partition, member, fence = (t(a) for a in args[:3])
        early = member in self.world.ledger.ended_early
        if answer[0] == b"done" and (partition, int(fence)) in self.stood and not early:
            demand(False, f"{partition}: commit under {fence}, which stands still")
