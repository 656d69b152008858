"""What a run's Redis shows of it, read beside the system: ticks, epochs, locks and targets."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assignment import wire
from assignment.types import Partition
from assignment.wire import GroupKeys
from dashboard.coordinator import at_rest
from dashboard.live import health, queue
from dashboard.live.connection import StoreUnavailable, client_of, ms_of, own_key, reaching_redis

SAMPLE_S = 0.1  # a tenth of a tick
SAMPLED_GROUPS = 20  # whose own ticks are followed, evenly over all, the last among them
AT_ONCE = 1_000
# Groups that a tick finds unchanged, and so looks at no further: only the tick itself is stamped.


@dataclass(slots=True)
class Gaps:
    """The longest time between two stamps, also of one that is still awaited. While `rests` a group
    needs none.
    """

    last: dict[str, int] = field(default_factory=dict)
    longest_ms: int = 0

    def saw(self, name: str, stamp_ms: int, now_ms: int, *, rests: bool = False) -> None:
        """`stamp_ms` 0: never yet."""
        if rests:
            self.last[name] = now_ms
        if rests or not stamp_ms:
            return
        before_ms = self.last.get(name, stamp_ms)
        stamp_ms = max(stamp_ms, before_ms)
        self.longest_ms = max(self.longest_ms, stamp_ms - before_ms, now_ms - stamp_ms)
        self.last[name] = stamp_ms


class Watch:
    """Follows the ticks in a thread of its own; everything else is read when asked."""

    def __init__(self, url: str, groups: Sequence[str]) -> None:
        self.client: Any = client_of(url)
        self.groups = groups
        step = max(1, len(groups) // SAMPLED_GROUPS)
        self.sampled = groups[::-1][::step][:SAMPLED_GROUPS]
        self.gaps = Gaps()
        self.asked = 0  # commands of it and of who uses its connection
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="ticks", daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.client.close()

    def anew(self) -> None:
        """What was seen until now counts no more."""
        self.gaps = Gaps()

    def _follow(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            pipe = self.client.pipeline(transaction=False)
            pipe.time().get(health.sign_key(health.Sign.TICK))
            for group in self.sampled:
                pipe.hget(GroupKeys(group).meta, "tick_ms")
                pipe.hexists(own_key("rests"), group)
            gaps = self.gaps
            try:
                with reaching_redis():
                    now, ticked, *found = self._answers(pipe)
            except StoreUnavailable:
                continue  # the next answer tells how long it was
            gaps.saw("", int(ticked or 0), ms_of(*now))
            of_groups = zip(self.sampled, found[::2], found[1::2], strict=True)
            for name, stamp, rests in of_groups:
                gaps.saw(name, int(stamp or 0), ms_of(*now), rests=bool(rests))

    def _answers(self, pipe: Any) -> list[Any]:
        self.asked += len(pipe)
        answers: list[Any] = pipe.execute()
        return answers

    # --- when asked

    def epochs(self) -> list[tuple[int, int]]:
        """(group_epoch, target_epoch) of each group, 0 where it has none."""
        pipe = self.client.pipeline(transaction=False)
        for group in self.groups:
            pipe.hmget(GroupKeys(group).meta, "group_epoch", "target_epoch")
        return [(int(one or 0), int(other or 0)) for one, other in self._answers(pipe)]

    def resting(self) -> int:
        """Groups that a tick found as they are to be."""
        return int(self.client.hlen(own_key("rests")))

    def is_at_work(self) -> bool:
        """Whether history is being stored, or somebody wishes for it, or a group waits for others:
        it may wish for its history when it is looked at next.
        """
        pipe = self.client.pipeline(transaction=False)
        pipe.exists(queue.of_history("wanted"), queue.of_history("running"))
        pipe.hvals(own_key("rests"))
        found, rests = self._answers(pipe)
        return bool(found) or any(kept.waits for kept in map(at_rest.read, rests) if kept)

    def configured(self) -> int:
        """Groups whose settings are in Redis."""
        pipe = self.client.pipeline(transaction=False)
        for group in self.groups:
            pipe.hexists(GroupKeys(group).meta, "settings")
        return sum(self._answers(pipe))

    def targets(self, group: str) -> dict[Partition, str]:
        """Partition -> the member that should own it."""
        rows = self.client.hgetall(GroupKeys(group).target)
        return {
            partition: member.decode()
            for member, row in rows.items()
            for partition in wire.parse_target(row.decode()).active
        }

    def locks(self, group: str, partitions: int) -> dict[Partition, tuple[str, int]]:
        """Partition -> (member, fence) of the locks that are there."""
        keys, names = GroupKeys(group), [Partition(group, n) for n in range(partitions)]
        found = dict[Partition, tuple[str, int]]()
        for first in range(0, partitions, AT_ONCE):
            some = names[first : first + AT_ONCE]
            values = self.client.mget([keys.lock(partition) for partition in some])
            held = zip(some, values, strict=True)
            found |= {partition: wire.parse_lock(v.decode()) for partition, v in held if v}
        return found

    def all_locks(self, partitions: Mapping[str, int]) -> dict[Partition, tuple[str, int]]:
        return {k: v for group, n in partitions.items() for k, v in self.locks(group, n).items()}

    def differing(self, partitions: Mapping[str, int]) -> int:
        """Partitions whose lock is not its target's, or that have neither."""
        count = 0
        for group, number in partitions.items():
            targets, locks = self.targets(group), self.locks(group, number)
            owners = {partition: member for partition, (member, _) in locks.items()}
            count += number - sum(targets.get(p) == member for p, member in owners.items())
        return count
