"""What the next batch reads, and when: decided in the planner process beside Spark's driver.

From what this member owns and what is committed, both as Redis says. Nothing of it is processed
here; the plan becomes Spark's offset (agent/spark/source.py).
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agent.consumer.control import monotonic_ms
from agent.spark import isolation
from agent.spark.isolation import Alone
from agent.spark.pace import Pace, Waiting
from agent.spark.ranges import plan_from, range_of
from agent.spark.replays import SKIPPED
from agent.spark.shared import Shared, Troubles
from agent.spark.sink_start import SinkStart
from agent.spark.warm_up import latest_ranges, tasks_of
from agent.store.door import StoreUnavailable
from agent.store.events import Bound, EventStore
from agent.store.group import GroupStore
from assignment.errors import Fenced, InvalidInput
from assignment.scripts import agent_side
from assignment.scripts import replays as replaying
from assignment.scripts.agent_side import BatchStart
from assignment.types import Offset, Partition, Range, speaker_of

EVENTS_PER_RANGE_MIN = 1_000  # one point of a stream's index
BATCH_BYTES_MAX = 64 * 2**20
PROBE_ENTRIES = 1_000  # of a stream that no producer library counted, per partition and batch
PROBE_STEPS_MAX = 8
WAIT_PARTITIONS_MAX = 256  # more streams than this are polled, not waited for
ONE_TASK_EVENTS = 20_000  # so few are faster in one task than with a shuffle between two
IDLE_WAIT_MS = 100  # a planner that waits is asked again after so long: a revoke waits no longer


class Found(NamedTuple):
    """What could be read, and how many events that is: None when nobody knows; entries where
    nobody counted their events.
    """

    ranges: Sequence[Range] = ()
    events: int | None = 0
    is_counted: bool = True


NOTHING_FOUND = Found()


class Planner:
    """Decides what the next batch reads. Asked only when the batch before it is finished."""

    def __init__(self, options: Mapping[str, str]) -> None:
        member = options["member"]
        self._speaker = speaker_of(member, options.get("process", ""))
        self._tasks = int(options["tasks"])
        self._stream = options["stream"]
        self._groups = GroupStore.connect(options["redis_url"], options["group"])
        self._events = EventStore.connect(options["redis_url"])
        folder = Path(options["folder"])
        self._shared = Shared(folder)
        self._sink = SinkStart.handed_over(folder, self._groups, member)
        self._halt = False
        self._turns = isolation.Turns()
        self._pace = Pace()
        # Events up to where a range began and up to the last bound, where they are counted.
        self._totals: dict[Partition, dict[Offset, int]] = {}
        self._ends: dict[Partition, Offset] = {}  # behind which letters are replayed first

    def next_batch(self, number: int) -> dict[str, Any] | None:
        """Spark's next offset; None when there is nothing to do, now or any more."""
        left = self._shared.get("warm_up")
        if left and not self._shared.get("stopping"):
            return self._planned(self._warm_up(number, left))
        self._pace.finished(monotonic_ms())
        self._shared.set("batch_ms", self._pace.last_ms)
        found = self._next_ranges()
        if isinstance(found, Alone):
            return self._planned(_plan_alone(number, found))
        if not found.ranges:
            return None
        self._pace.planned(found.events, monotonic_ms())
        few = found.is_counted and found.events is not None and found.events <= ONE_TASK_EVENTS
        tasks = 1 if few else self._tasks
        return self._planned(
            {**plan_from(number, found.ranges), "halt": self._halt, "tasks": tasks}
        )

    def _warm_up(self, number: int, left: int) -> dict[str, Any]:
        tasks = tasks_of(left, self._tasks)
        try:
            ranges = latest_ranges(self._events, self._stream)
        except (StoreUnavailable, InvalidInput):  # a batch without events warms up too
            ranges = []
        return {**plan_from(number, ranges), "tasks": tasks, "warm_up": left}

    def _planned(self, plan: dict[str, Any]) -> dict[str, Any]:
        self._shared.write_plan(plan["n"], plan)
        return plan

    def _next_ranges(self) -> Found | Alone:
        """What to read; waits a little for something, or for more."""
        self._shared.set("polls", self._shared.get("polls") + 1)
        if self._must_not_plan():
            return self._nothing()
        try:
            found = self._found(self._free())
            ranges = [found.one] if isinstance(found, Alone) else found.ranges
            self._events.settle({one.partition for one in ranges})
            return found
        except (StoreUnavailable, Fenced):
            self._groups.close()  # it may lead to a server that the name has left
            return self._nothing()

    def _found(self, free: Sequence[BatchStart]) -> Found | Alone:
        if (alone := isolation.skipped(free, self._events.ids)) is not None:
            return alone
        readable = self._not_held_back(free)
        rest, replays = self._without_replays(isolation.others(readable))
        found = self._bounded(rest)
        there = bool(found.ranges)
        alone = self._turns.alone(readable, self._events.ids, replays, others_have_some=there)
        if alone is not None:
            return alone
        if not there:
            self._pace.nothing_waits()
            found = self._awaited(rest)
        # Suspects, letters and the others have their turns at once.
        has_suspects = len(rest) < len(readable)
        return found if has_suspects or self._is_due(found) else NOTHING_FOUND

    def _without_replays(
        self, free: Sequence[BatchStart]
    ) -> tuple[list[BatchStart], list[BatchStart]]:
        """What may have entries in the next batch, and what may have letters replayed. Entries wait
        for letters, lest they pass the ids between them; unless those letters end consumers.
        """
        rest, replays = [], []
        self._ends.clear()
        for start in free:
            if start.replays is not None and start.replays.is_over:  # a sink was looked at (_free)
                here = range_of(start, start.committed)
                self._groups.run(replaying.narrow(here, len(start.replays.letters)))
            if start.replays is None or start.replays.is_over:
                rest.append(start)
                continue
            is_gap = self._events.is_gap_after(start.partition, start.committed)
            if is_gap:
                replays.append(start)
            else:
                self._ends[start.partition] = isolation.run_end(start, self._events.ids)
            if not is_gap or start.replays.crashes:
                rest.append(start)
        return rest, replays

    def _awaited(self, rest: Sequence[BatchStart]) -> Found:
        if not rest or len(rest) > WAIT_PARTITIONS_MAX:
            return self._nothing()
        self._events.wait([(p.partition, p.committed) for p in rest], IDLE_WAIT_MS)
        return NOTHING_FOUND if self._must_not_plan() else self._bounded(rest)

    def _is_due(self, found: Found) -> bool:
        """If not, waits for a moment only: the next call looks for revokes and pauses, too."""
        if not found.ranges:
            return False
        waiting = Waiting(
            events=found.events,
            events_max=self._shared.get("events_max"),
            goal_ms=self._shared.get("latency_goal_ms"),
            lease_end_ms=self._shared.get("lease_end_ms"),
        )
        wait_ms = self._pace.wait_ms(waiting, monotonic_ms())
        time.sleep(min(wait_ms, IDLE_WAIT_MS) / 1000)
        return wait_ms == 0

    def _must_not_plan(self) -> bool:
        if self._shared.get("stopping"):
            return True
        return monotonic_ms() >= self._shared.get("lease_end_ms")

    def _nothing(self) -> Found:
        time.sleep(IDLE_WAIT_MS / 1000)
        return NOTHING_FOUND

    def _free(self) -> list[BatchStart]:
        """What may be read, and what is held back and to be skipped. Raises Fenced."""
        planned = self._groups.run(agent_side.next_batch(self._speaker))
        self._events.demand(planned[0].replication_id if planned else "")
        skips = [p for p in planned if p.skip is not None]
        free = [*self._not_held_back(p for p in planned if p.skip is None), *skips]
        if self._sink is not None:
            free = self._sink.begin(free, self._shared.get("finished"))
        why, halted = self._sink.troubles if self._sink is not None else Troubles()
        self._shared.tell(Troubles(why, (*halted, *isolation.halted_of(planned))))
        return free

    def _not_held_back(self, planned: Iterable[BatchStart]) -> list[BatchStart]:
        held_back, dead_letters = self._shared.held_back()
        self._halt = dead_letters == "halt"
        return [p for p in planned if (str(p.partition), p.fence) not in held_back]

    def _bounded(self, free: Sequence[BatchStart]) -> Found:
        if not free:
            return NOTHING_FOUND
        events_max = max(EVENTS_PER_RANGE_MIN, self._shared.get("events_max") // len(free))
        bounds = self._events.bounds(
            [(p.partition, p.committed) for p in free], events_max, BATCH_BYTES_MAX // len(free)
        )
        ranges: list[Range] = []
        events: int | None = 0
        is_counted = True
        for planned, bound in zip(free, bounds, strict=True):
            end, counted = bound.to_offset, None
            if bound.probe and end == planned.committed:
                end, counted = self._probed(planned.partition, end, events_max)
                is_counted = is_counted and not counted
            end = min(end, self._ends.get(planned.partition, end))
            if end > planned.committed:
                ranges.append(range_of(planned, end))
                counted = counted or self._events_between(planned, bound)
                events = None if events is None or counted is None else events + counted
        return Found(ranges, events, is_counted)

    def _events_between(self, planned: BatchStart, bound: Bound) -> int | None:
        """Events from the committed offset to the bound, when both ends were counted."""
        if bound.total is None:
            return None
        before = self._totals.get(planned.partition, {}).get(planned.committed)
        known = {} if before is None else {planned.committed: before}
        self._totals[planned.partition] = {**known, bound.to_offset: bound.total}
        return None if before is None else bound.total - before

    def _probed(self, partition: Partition, start: Offset, events_max: int) -> tuple[Offset, int]:
        """A few steps over entries that are in no index, as one event each; how many there are."""
        end, entries = start, 0
        for _ in range(max(1, min(PROBE_STEPS_MAX, events_max // PROBE_ENTRIES))):
            ids = self._events.ids(partition, end, PROBE_ENTRIES)
            if not ids:
                break
            end, entries = ids[-1], entries + len(ids)
        return end, entries


def _plan_alone(number: int, alone: Alone) -> dict[str, Any]:
    skip = alone.skip
    why = f"{SKIPPED}{skip.actor}: {skip.reason}" if skip else ""
    letters = [[str(one.at), one.actor] for one in alone.letters]
    of_one = {"alone": alone.entries, "skip": why, "replay": letters}
    return {**plan_from(number, [alone.one]), **of_one}
