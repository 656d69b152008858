"""Looks at the group in Redis several times a second, in a thread of its own: who holds what, who
should, who is here, what is behind, and which invariants of the moment do not hold.

What cannot be read is no sample: nobody knows then.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from assignment import invariants
from assignment.errors import GroupMissing
from assignment.lua import script
from assignment.scripts.group_read import GroupRead, Purpose, read_group
from assignment.types import START, Offset
from dashboard.evaluation.chaos.starving import Starving
from dashboard.evaluation.inspecting import Server
from dashboard.evaluation.system import now_ms
from dashboard.live.connection import StoreUnavailable, reaching_redis

LOOK_EVERY_S = 0.1
LAG_EVERY = 3  # looks
FRESH_S = 1.0
STALL_MS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """`at_ms`: by this machine's clock, also when that of Redis was set back.

    `locks`: partition -> [member, fence]; `target`: partition -> member; `members`: member ->
    whether it is able; `faults`: what does not hold at this moment (assignment.invariants);
    `starved`: ms that an agent or its consumer, Redis or the harness had no CPU so far.
    """

    at_ms: int
    run_id: str = ""
    incarnation: int = 0
    coordination: str = "server"
    mode_epoch: int = 0
    epochs: tuple[int, int] = (0, 0)  # of the group, of the target
    locks: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    target: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, bool] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    refused: int = 0  # commits since this Redis began
    lag: int | None = None  # events appended and not applied
    starved: Mapping[str, int] = field(default_factory=dict)

    @property
    def owners(self) -> dict[str, str]:
        return {partition: member for partition, (member, _) in self.locks.items()}


NOTHING = Sample(at_ms=0)


class Eye:
    """`pids`: of whom the group lives by, by name."""

    def __init__(
        self, url: str, group: str, partitions: int, pids: Callable[[], Mapping[str, int | None]]
    ) -> None:
        self._group, self._partitions = group, partitions
        self.last: Sample = NOTHING
        self.samples: list[Sample] = []
        self.stalls: list[tuple[int, int]] = []  # when this thread was not let run, for how long
        self._error: Exception | None = None
        self._seen_s = 0.0
        self._looks = 0
        self._starving = Starving(pids)
        self._over = threading.Event()
        self.server = self.at(url)
        self._thread = threading.Thread(target=self._run, name="eye", daemon=True)
        self._thread.start()

    def at(self, url: str) -> Server:
        """The same group in another server."""
        return Server(url, self._group, self._group, self._partitions)

    def switch(self, url: str) -> None:
        """From now on it looks at that server."""
        self.server = self.at(url)

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self._seen_s < FRESH_S

    def check(self) -> None:
        """Raises what ended it early: nobody looked from then on."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._look_on()
        except Exception as error:  # raised again by `check`
            self._error = error

    def _look_on(self) -> None:
        until_s = time.monotonic()
        while not self._over.is_set():
            late_ms = round((time.monotonic() - until_s) * 1_000)
            if late_ms > STALL_MS:
                self.stalls.append((time.time_ns() // 1_000_000, late_ms))
            self._look(late_ms)
            until_s = time.monotonic() + LOOK_EVERY_S
            self._over.wait(LOOK_EVERY_S)

    def _look(self, late_ms: int) -> None:
        starved = self._starving.look(late_ms)
        try:
            read = look(self.server)
            self._looks += 1
            lag = lag_of(self.server, read) if self._looks % LAG_EVERY == 0 else None
            self.last = replace(sample_of(read, lag), starved=starved)
        except (StoreUnavailable, GroupMissing, ValueError):  # a wiped one has no group at first
            return
        self.samples.append(self.last)
        self._seen_s = time.monotonic()

    def close(self) -> None:
        self._over.set()
        self._thread.join(10)


def look(server: Server) -> GroupRead:
    call = read_group(Purpose.LOOK)
    with reaching_redis():
        known = server.client.register_script(script(call.script))
        return call.read(known(keys=[server.keys.meta], args=call.args))


def lag_of(server: Server, read: GroupRead) -> int:
    """Events behind what is committed. After a wipe a stream counts anew while totals may be put
    back: whether a partition is behind is told by its offsets alone.
    """
    with reaching_redis(), server.client.pipeline(transaction=False) as pipe:
        for partition in server.partitions:
            pipe.hget(server.stream.producers(partition.number), ":events")
            pipe.xrevrange(server.stream.entries(partition.number), count=1)
        answers = pipe.execute()
    lag = 0
    for partition, count, last in zip(server.partitions, answers[::2], answers[1::2], strict=True):
        committed, applied = read.offsets.get(partition, START), read.applied.get(partition)
        if last and Offset.parse(last[0][0].decode()) > committed:
            lag += max(1, int(count or 0) - (applied.total if applied else 0))
    return lag


def sample_of(read: GroupRead, lag: int | None = None) -> Sample:
    meta = read.meta
    return Sample(
        at_ms=now_ms(),
        run_id=read.run_id,
        incarnation=meta.incarnation,
        coordination=meta.coordination,
        mode_epoch=meta.mode_epoch,
        epochs=(meta.group_epoch, meta.target_epoch),
        locks={str(p): (lock.member_id, lock.fence) for p, lock in sorted(read.locks.items())},
        target={str(p): m for m, row in sorted(read.target.items()) for p in sorted(row.active)},
        members={m: row.able for m, row in sorted(read.members.items())},
        faults=tuple(f"{fault.kind}: {fault.text}" for fault in invariants.faults(read)),
        refused=meta.refused_commits,
        lag=lag,
    )


def sample_line(sample: Sample) -> str:
    return json.dumps(asdict(sample))


def read_sample(line: str) -> Sample:
    values: dict[str, Any] = json.loads(line)
    locks = {p: (str(m), int(f)) for p, (m, f) in values.pop("locks").items()}
    epochs = tuple(values.pop("epochs"))
    faults = tuple(values.pop("faults"))
    return Sample(locks=locks, epochs=(epochs[0], epochs[1]), faults=faults, **values)
