"""The partitions of a group as they are shown: one array a column, and a row where one is asked
for (dashboard.md 1).

Pure. Desired is the target, reported is what locks and agents say; a partition's state follows from
both. What is not known is None or "unknown", never 0.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from assignment.pauses import Pause, Pauses
from assignment.scripts.group_read import GroupRead
from assignment.scripts.held import STATES
from assignment.troubles import Halted
from assignment.types import HeldState, Partition
from dashboard.live import reported
from dashboard.live.group_state import STUCK_MS
from dashboard.live.heard import Claims, Told
from dashboard.live.ownership import NOBODY, Flags, Index, Ownership, Whole
from dashboard.live.progress import UNKNOWN, Progress

PARTITION_STATES = (
    *("owned", "acquiring", "releasing", "unowned", "conflict", "unknown", "restoring"),
    *("halted", "unserved", "pausing", "paused"),
)
STATE_INDEX = {state: i for i, state in enumerate(PARTITION_STATES)}
_STATE_OF_HELD = {
    HeldState.RESTORING: "restoring",
    HeldState.RUNNING: "owned",
    HeldState.REVOKING: "releasing",
    HeldState.REVOKED: "releasing",
}
_SHOWN = np.array([STATE_INDEX[_STATE_OF_HELD[state]] for state in STATES], np.uint8)
_WORKS = np.array([state in (HeldState.RUNNING, HeldState.REVOKING) for state in STATES])
States = NDArray[np.uint8]
KEPT_MS = 30_000  # lag that was read longer ago is not known
NOT_NAMED = NOBODY - 1  # as a number of names: nobody that there is


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePartition:
    partition: str  # stream:number
    number: int
    owner: str | None
    fence: str | None  # as text: JavaScript keeps 53 bits only in whole numbers it does not touch
    state: str  # of PARTITION_STATES
    since_ms: int | None  # when this fence was granted
    target: str | None  # who should have it
    offset: str | None  # committed
    committed_at_ms: int | None  # its last commit
    lag_records: int | None
    waiting_ms: int | None = None  # so long an event waits, and its owner has committed nothing
    progress_age_ms: int = 0  # so long ago lag, offset and commit were read
    standbys: tuple[reported.LiveReplica, ...] = ()
    learner: reported.LiveReplica | None = None
    halt: Halted | None = None  # it stands still there until a person does something
    unserved: tuple[reported.LiveUnserved, ...] = ()  # by these members for now
    pause: Pause | None = None  # by a person; the state says whether its owner has confirmed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells(Sequence[LivePartition]):
    """`owner` and `target` are numbers of `names`, or NOBODY. 0 of `fence`, `since` and
    `committed_ms`, and UNKNOWN of `lag` and `first_ms`, are None in a row. `read_ms`: when these
    were read, by the clock of Redis.
    """

    stream: str
    now_ms: int
    names: Sequence[str]
    owner: Index
    fence: Whole
    since: Whole
    state: States  # indexes of PARTITION_STATES
    target: Index
    lag: Whole
    first_ms: Whole  # when the first event came that is not committed
    committed_ms: Whole
    read_ms: Whole
    offsets: NDArray[np.object_]
    paused: Flags  # by people
    pausing: Flags  # of these, whose owner has not confirmed
    pauses: Pauses
    replicas: reported.Replicas
    troubles: reported.Troubles

    def __len__(self) -> int:
        return len(self.owner)

    @overload
    def __getitem__(self, at: int) -> LivePartition: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[LivePartition]: ...
    def __getitem__(self, at: int | slice) -> LivePartition | Sequence[LivePartition]:
        if isinstance(at, slice):
            return tuple(map(self._row, range(len(self))[at]))
        return self._row(range(len(self))[at])

    def _row(self, n: int) -> LivePartition:
        partition, owner = Partition(self.stream, n), self._name(self.owner[n])
        replicas = self.replicas.get(n, reported.NO_REPLICAS)
        since_ms, committed_ms = int(self.since[n]) or None, int(self.committed_ms[n]) or None
        waits = self.first_ms[n] != UNKNOWN and since_ms is not None
        return LivePartition(
            partition=str(partition),
            number=n,
            owner=owner,
            fence=None if owner is None else str(self.fence[n]),
            state=PARTITION_STATES[self.state[n]],
            since_ms=since_ms,
            target=self._name(self.target[n]),
            offset=self.offsets[n],
            committed_at_ms=committed_ms,
            lag_records=None if self.lag[n] == UNKNOWN else int(self.lag[n]),
            waiting_ms=int(self.waiting_ms[n]) if waits else None,
            progress_age_ms=self.age_ms(n),
            standbys=replicas.standbys,
            learner=replicas.learner,
            halt=self.troubles.halt(partition, owner),
            unserved=tuple(self.troubles.unserved.get(partition, {}).values()),
            pause=self.pauses.of(partition),
        )

    def _name(self, index: np.int32) -> str | None:
        return None if index == NOBODY else self.names[int(index)]

    def age_ms(self, n: int) -> int:
        """Of lag, offset and commit of one."""
        return max(0, self.now_ms - int(self.read_ms[n]))

    def read_again(self, progress: Progress, numbers: Sequence[int]) -> "Cells":
        """`progress`: of these partitions, in their order."""
        columns = {}
        for name, found in _of(progress, self.now_ms).items():
            columns[name] = getattr(self, name).copy()
            columns[name][list(numbers)] = found
        return replace(self, **columns)

    @property
    def waiting_ms(self) -> Whole:
        """Of those where an event waits; as of when it was read."""
        began = np.maximum(np.maximum(self.first_ms, self.since), self.committed_ms)
        waiting: Whole = np.maximum(0, self.read_ms - began)
        return waiting

    @property
    def stuck(self) -> Flags:
        waits = (self.first_ms != UNKNOWN) & (self.since > 0) & (self.waiting_ms > STUCK_MS)
        late = waits & (self.state == STATE_INDEX["owned"])
        found: Flags = late | (self.state == STATE_INDEX["halted"])
        return found

    def of(self, owner: str, state: str) -> list[int]:
        """Numbers of those that fit. "": any."""
        fits = self._in(state)
        if owner:
            fits &= self.owner == (self.names.index(owner) if owner in self.names else NOT_NAMED)
        return np.flatnonzero(fits).tolist()

    def _in(self, state: str) -> Flags:
        if not state:
            return np.ones(len(self), np.bool_)
        fits: Flags = self.state == STATE_INDEX[state]
        return fits

    def found(self, text: str, state: str) -> list[int]:
        """Numbers of those that fit. A number is that partition; other text is a part of the
        owner's id. "": any.
        """
        fits = self._in(state)
        if text.isdecimal():
            fits &= np.arange(len(self)) == int(text)
        elif text:
            owners = [i for i, name in enumerate(self.names) if text in name]
            named = np.isin(self.owner, owners)
            stream, _, number = text.rpartition(":")
            if stream == self.stream and number.isdecimal() and int(number) < len(self):
                named[int(number)] = text == f"{stream}:{int(number)}"
            fits &= named
        return np.flatnonzero(fits).tolist()


# --- from what was read ---------------------------------------------------------------------------


class Said(NamedTuple):
    """All members' claims in one table; `member`: a number of the names."""

    number: Index
    member: Index
    fence: Whole
    state: States
    at_ms: Whole  # of the report


def cells_of(told: Told, held: Ownership, progress: Progress) -> Cells:
    """Of one moment: nothing in it changes when `held` and `progress` do."""
    read = told.read
    target: Index = np.full(held.size, NOBODY, np.int32)
    for member, numbers in told.targets.items():
        target[numbers] = held.names.index(member)
    troubles = reported.Troubles.of(read)
    said = _table(read, held, told.claims)
    paused = _paused(read, held)
    return Cells(
        stream=held.stream,
        now_ms=read.now_ms,
        names=held.names.texts,
        owner=held.owner.copy(),
        fence=held.fence.copy(),
        since=held.since.copy(),
        state=_states(read, held, said, troubles, paused),
        target=target,
        paused=paused.all,
        pausing=paused.unconfirmed,
        pauses=read.pauses,
        replicas=reported.Replicas(read, range(held.size), _handed_over(read, held, target)),
        troubles=troubles,
        **_of(progress, read.now_ms),
    )


def _of(progress: Progress, now_ms: int) -> dict[str, Any]:
    """Columns. Lag that is older than KEPT_MS is not known."""
    old = now_ms - progress.read_ms > KEPT_MS
    return {
        "lag": np.where(old, UNKNOWN, progress.lag()),
        "first_ms": np.where(old, UNKNOWN, progress.first_ms),
        "committed_ms": progress.committed_ms.copy(),
        "offsets": progress.offsets.copy(),
        "read_ms": progress.read_ms.copy(),
    }


def _handed_over(
    read: GroupRead, held: Ownership, target: Index
) -> Iterator[tuple[Partition, str]]:
    """Replicas that are owner by the target and wait for the lock of another one."""
    for member, report in read.reports.items():
        index = held.names.index(member)
        for partition in report.replicas:
            n = partition.number
            is_own = partition.stream == held.stream and n < held.size
            if is_own and target[n] == index and held.owner[n] not in (NOBODY, index):
                yield partition, member


def _table(read: GroupRead, held: Ownership, claims: Mapping[str, Claims]) -> Said:
    spoke = {m: c for m, c in claims.items() if len(c.number)}
    sizes = [len(one.number) for one in spoke.values()]
    members = np.array([held.names.index(m) for m in spoke], np.int32)
    at_ms = np.array([read.reports[m].at_ms for m in spoke], np.int64)

    def column(name: str, kind: str) -> NDArray[Any]:
        parts = [getattr(one, name) for one in spoke.values()]
        return np.concatenate(parts) if parts else np.zeros(0, kind)

    return Said(
        column("number", "i4"),
        np.repeat(members, sizes),
        column("fence", "i8"),
        column("state", "u1"),
        np.repeat(at_ms, sizes),
    )


class Paused(NamedTuple):
    """Which people paused, and which of these have an owner that has not confirmed it."""

    all: Flags
    unconfirmed: Flags


def _paused(read: GroupRead, held: Ownership) -> Paused:
    paused: Flags = np.full(held.size, read.pauses.group is not None)
    paused[_own(held, read.pauses.partitions)] = True
    confirmed = np.zeros(held.size, np.int64)
    known = {p: fence for p, fence in read.confirmed.items() if _is_own(held, p)}
    confirmed[[p.number for p in known]] = list(known.values())
    pausing: Flags = paused & (held.owner != NOBODY) & (confirmed != held.fence)
    return Paused(paused, pausing)


def _states(
    read: GroupRead, held: Ownership, said: Said, troubles: reported.Troubles, paused: Paused
) -> States:
    has = held.owner != NOBODY
    state: States = np.where(has, STATE_INDEX["acquiring"], STATE_INDEX["unowned"]).astype("u1")
    owner_said = said.member == held.owner[said.number]
    fresh = owner_said & (said.fence == held.fence[said.number])
    state[said.number[fresh]] = _SHOWN[said.state[fresh]]
    halted = _own(held, (p for p, _ in troubles.halted if troubles.halt(p, _owner(held, p))))
    state[halted[state[halted] == STATE_INDEX["owned"]]] = STATE_INDEX["halted"]
    may_pause = (state == STATE_INDEX["owned"]) | (state == STATE_INDEX["halted"])
    stands = paused.all & may_pause
    words = np.where(paused.unconfirmed, STATE_INDEX["pausing"], STATE_INDEX["paused"])
    state[stands] = words[stands]
    state[has & _silent(read, held)] = STATE_INDEX["unknown"]
    state[_claimed_twice(held, said, owner_said)] = STATE_INDEX["conflict"]
    unserved = _own(held, (p for p in troubles.unserved if troubles.nobody_serves(p)))
    state[unserved[~has[unserved]]] = STATE_INDEX["unserved"]
    return state


def _own(held: Ownership, partitions: Iterable[Partition]) -> Index:
    """Their numbers, without those of another stream."""
    return np.array([p.number for p in partitions if _is_own(held, p)], np.int32)


def _is_own(held: Ownership, partition: Partition) -> bool:
    return partition.stream == held.stream and partition.number < held.size


def _owner(held: Ownership, partition: Partition) -> str | None:
    if not _is_own(held, partition):
        return None
    index = held.owner[partition.number]
    return None if index == NOBODY else held.names.texts[index]


def _silent(read: GroupRead, held: Ownership) -> Flags:
    """Whose owner has given no sign of life for a session."""
    settings = read.meta.settings
    session_ms = settings.session_timeout_ms if settings else 0
    beats = {held.names.index(member): beat_ms for member, beat_ms in read.beats.items()}
    late = np.ones(len(held.names.texts) + 1, np.bool_)
    late[NOBODY] = False  # the last one
    late[list(beats)] = read.now_ms - np.array(list(beats.values()), np.int64) > session_ms
    found: Flags = late[held.owner]
    return found


def _claimed_twice(held: Ownership, said: Said, owner_said: Flags) -> Index:
    """A second owner: it said so after the lock went to somebody else, and means to process."""
    since = held.since[said.number]
    others = ~owner_said & (held.owner[said.number] != NOBODY) & _WORKS[said.state]
    found: Index = said.number[others & (since > 0) & (said.at_ms > since)]
    return found
