"""Effects of a batch that go to a sink: what the driver does in the place of a partition's state.

The sink first, Redis after it: a crash in between leaves Redis behind, and the next tenure, or the
next plan, brings it there. Keeps no state.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from agent.spark import sql_sink
from agent.spark.commit import Effects, LeaseOver, PartitionChanges, Prepared
from agent.spark.reading import Counted
from assignment.scripts.offsets import EffectsIn
from assignment.types import Offset, Range

TRY_AGAIN_S = 0.2
PATIENCE_S = 30.0  # for a database that is away; then the consumer ends and is started anew


@dataclass(frozen=True)
class SqlEffects(Effects):
    """Exactly once. What the sink refuses is planned again from where the sink stands."""

    kind = EffectsIn.SQL_SINK
    door: sql_sink.SinkDoor
    may_process: Callable[[], bool]
    clock: Callable[[], float] = time.monotonic

    def prepare(
        self, one: Range, count: Counted, committed: Offset, changes: PartitionChanges
    ) -> Prepared | None:
        """In the sink when this returns. Redis' offset is not asked: the sink's is the truth.

        Raises SinkUnavailable and LeaseOver.
        """
        match self._applied(_delivery(one, count, changes)):
            case sql_sink.SinkResult.APPLIED | sql_sink.SinkResult.ALREADY:
                return Prepared(one, count, changelog=False)
            case sql_sink.SinkResult.MOVED | sql_sink.SinkResult.FENCED:
                return None

    def close(self) -> None:
        self.door.close()

    def _applied(self, delivery: sql_sink.Delivery) -> sql_sink.SinkResult:
        """Asked again with the same delivery: what became of the one before is seen by the sink."""
        give_up = self.clock() + PATIENCE_S
        while True:
            if not self.may_process():
                raise LeaseOver(f"the lease ended before the sink had {delivery.partition}")
            try:
                return self.door.apply(delivery)
            except sql_sink.SinkUnavailable:
                if self.clock() >= give_up:
                    raise
                time.sleep(TRY_AGAIN_S)


@dataclass(frozen=True)
class DeliveredEffects(Effects):
    """At least once: delivered before the commit in Redis, which alone knows how far it got."""

    kind = EffectsIn.SINK
    sink: sql_sink.AtLeastOnceSink

    def prepare(
        self, one: Range, count: Counted, committed: Offset, changes: PartitionChanges
    ) -> Prepared | None:
        if committed != one.from_offset:
            return None
        self.sink.deliver(_delivery(one, count, changes))
        return Prepared(one, count, changelog=False)


def sink_effects(sink: sql_sink.Sink, group: str, may_process: Callable[[], bool]) -> Effects:
    if isinstance(sink, sql_sink.SqlSink):
        return SqlEffects(sql_sink.SinkDoor(sink, group), may_process)
    return DeliveredEffects(sink)


def _delivery(one: Range, count: Counted, changes: PartitionChanges) -> sql_sink.Delivery:
    return sql_sink.Delivery(
        partition=one.partition,
        fence=one.fence,
        from_offset=one.from_offset,
        to_offset=count.end,
        events=count.events,
        changes=changes.changes,
        dead=count.dead,
    )
