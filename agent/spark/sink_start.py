"""Where the tenure of a partition starts when a SQL sink keeps its offset (pipeline.md section 3).

Runs in the planner process: opens the sink under each new fence, begins at the sink's offset, and
brings Redis there by commits without changes, with the dead letters that the sink has. A partition
of which Redis is ahead of the sink is left out, and so is everything while the database is away;
`troubles` says so.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from pyspark import cloudpickle

from agent.spark.shared import Troubles
from agent.spark.sql_sink import LettersOf, Position, Sink, SinkDoor, SinkUnavailable, SqlSink
from agent.store.group import GroupStore
from assignment.errors import Fenced
from assignment.scripts import agent_side
from assignment.scripts.agent_side import BatchStart, CommitRequest
from assignment.troubles import Halted, HaltReason
from assignment.types import Partition

SINK_FILE = "sink"
LOOK_AGAIN_S = 2.0  # while something is wrong with the sink; a look is one query


def hand_over(sink: Sink | None, folder: Path) -> None:
    """For the planner process, which shares nothing but the folder with the driver."""
    if isinstance(sink, SqlSink):
        (folder / SINK_FILE).write_bytes(cloudpickle.dumps(sink))  # type: ignore[no-untyped-call]


@dataclass(slots=True)
class SinkStart:
    """`troubles`: what the last look found."""

    door: SinkDoor
    groups: GroupStore
    member_id: str
    clock: Callable[[], float] = time.monotonic
    troubles: Troubles = field(default_factory=Troubles)
    _asked: tuple[int, frozenset[BatchStart]] | None = None
    _begun: list[BatchStart] = field(default_factory=list)
    _look_again: float = 0.0

    @classmethod
    def handed_over(cls, folder: Path, groups: GroupStore, member_id: str) -> Self | None:
        """None: this pipeline has no SQL sink."""
        file = folder / SINK_FILE
        if not file.exists():
            return None
        door = SinkDoor(cloudpickle.loads(file.read_bytes()), groups.group)
        return cls(door, groups, member_id)

    def begin(self, planned: Sequence[BatchStart], finished: int) -> list[BatchStart]:
        """Those that may be read, from the sink's offset on. The sink is asked once after each
        finished batch, not while nothing happens. Raises StoreUnavailable.
        """
        asked = (finished, frozenset(planned))
        if asked == self._asked and not (any(self.troubles) and self.clock() >= self._look_again):
            return self._begun
        self._asked = None  # until this look is over
        found: list[str | Halted] = []
        try:
            positions = self.door.positions() if planned else {}
            begun = [b for p in planned if (b := self._begin(p, positions, found)) is not None]
        except SinkUnavailable as error:
            begun, found = [], [str(error)]
        self.troubles = Troubles(
            tuple(one for one in found if isinstance(one, str)),
            tuple(one for one in found if isinstance(one, Halted)),
        )
        self._asked, self._begun = asked, begun
        self._look_again = self.clock() + LOOK_AGAIN_S
        return begun

    def _begin(
        self,
        planned: BatchStart,
        positions: Mapping[Partition, Position],
        found: list[str | Halted],
    ) -> BatchStart | None:
        position = positions.get(planned.partition)
        if position is None or position.fence != planned.fence:
            try:
                position = self.door.open(planned.partition, planned.fence)
            except Fenced as error:
                found.append(str(error))
                return None
        if position.offset < planned.committed:
            why = f"Redis is at {planned.committed}, ahead of its sink at {position.offset}"
            reason = HaltReason.SINK
            found.append(Halted(partition=planned.partition, reason=reason, why=why))
            return None
        if position.offset > planned.committed:
            if not self._bring_redis(planned, position):
                return None
            planned = replace(planned, replays=None)  # they may be among what was brought
        return replace(planned, committed=position.offset, total=position.events)

    def _bring_redis(self, planned: BatchStart, position: Position) -> bool:
        """Effects are in the sink and Redis does not know: a crash, or a Redis that lost writes.
        One step for each batch with dead letters; who dies between two goes on behind the first.
        """
        at, end = planned.committed, position.offset
        steps = self.door.letters(planned.partition, at, end)
        if not steps or steps[-1].reached < end:
            steps.append(LettersOf(end, planned.fence, ()))
        for step in steps:
            request = CommitRequest(
                partition=planned.partition,
                member_id=self.member_id,
                fence=planned.fence,
                from_offset=at,
                to_offset=step.reached,
                events=max(0, position.events - planned.total) if step.reached == end else 0,
                changelog=False,
                sink_fence=step.fence,
                replication_id=planned.replication_id,
                dead=step.dead,
            )
            if not self.groups.run(agent_side.commit(request)).applied:
                return False
            at = step.reached
        return True
