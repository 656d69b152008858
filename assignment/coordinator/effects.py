"""What the rules ask of the world: to read, to change Redis, to keep a record.

A rule is a generator of effects; whoever runs it (`run`, a simulation) answers each. So the order
of steps stands once, and another process may come between any two of them. An effect on records may
be answered with RecordsAway: nothing that safety needs is behind it.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar, dataclass_transform

from assignment.coordinator import facts
from assignment.errors import EvenkeelError
from assignment.scripts.agent_side import SnapshotRecord
from assignment.scripts.group_read import GroupRead, Purpose
from assignment.scripts.rows import Applied
from assignment.scripts.values import Call
from assignment.types import Coordination, Epoch, GroupSettings, Offset, Partition, Reason

T = TypeVar("T")


class RecordsAway(EvenkeelError):
    """The database does not answer, or refuses: what is recorded is made up for later."""


@dataclass_transform(frozen_default=True)
class Effect(Generic[T]):
    """`answer = yield from effect`, with the answer's type. Each kind is a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    def __iter__(self) -> "Steps[T]":
        answer: T = yield self
        return answer


Steps = Generator[Effect[Any], Any, T]


def run(steps: Steps[T], perform: Callable[[Effect[Any]], Any]) -> T:
    """Carries it all out. That records are away is told to the rule, which may go on."""
    try:
        effect = next(steps)
        while True:
            try:
                answer = perform(effect)
            except RecordsAway as error:
                effect = steps.throw(error)
            else:
                effect = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


def over(steps: Steps[T], note: Callable[[Effect[Any], Any], None]) -> Steps[T]:
    """The same steps. `note` hears of each with its answer, or with the RecordsAway that it met."""
    try:
        effect = next(steps)
        while True:
            try:
                answer = yield effect
            except RecordsAway as error:
                note(effect, error)
                effect = steps.throw(error)
            else:
                note(effect, answer)
                effect = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result


# --- Redis ----------------------------------------------------------------------------------------


class Read(Effect[GroupRead]):
    purpose: Purpose


class ReadSettings(Effect[tuple[GroupSettings | None, int]]):
    """As Redis has them, with their epoch; None when it does not know the group."""


class ReadRecord(Effect[facts.GroupRecord]):
    """As the database has it at this moment."""


class ReadHints(Effect[tuple[facts.Hint, ...]]):
    """Those that `control` keeps, oldest first."""


class ReadNow(Effect[int]):
    """Redis' clock."""


class Run(Effect[T]):
    """A script, which needs nothing of whoever carries it out."""

    call: Call[T]


class Configure(Effect[None]):
    """Only while Redis has the settings of that epoch. Also notes the group as a reader of its
    stream.
    """

    settings: GroupSettings
    over_epoch: int
    reason: Reason
    rebalance_due: bool
    coordination: Coordination  # of a group that is made by this


class Hold(Effect[None]):
    """Nothing is granted for so long: old owners may still be at work."""

    lease_ms: int


class ReadHeld(Effect[bool]):
    """Whether a Hold lasts."""


class LiftStreams(Effect[Mapping[Partition, facts.Lifted]]):
    """Entries' ids go on above these offsets. Too early came what lies at or below the offset from
    which the group goes on.
    """

    offsets: Mapping[Partition, Offset]
    restored: Mapping[Partition, Offset]


class RaiseIncarnation(Effect[bool]):
    """`known`: the highest known of the numbers that are lifted with it. False: it was stale."""

    incarnation: int
    run_id: str
    known: Mapping[str, int]


class WantRebalance(Effect[None]):
    """One run of `rebalance` soon; any number of these are one."""


class SetTarget(Effect[str | None]):
    """The script appends the record to the group's outbox in the same step. Why it was refused."""

    view: GroupRead  # from which the target was made
    record: facts.TargetRecord
    left_out: frozenset[str]  # see reading.without_lock
    raises: bool = False  # the group_epoch to that of the target, in the same step; see approved


# --- records --------------------------------------------------------------------------------------


class KeepOutbox(Effect[bool]):
    """The oldest that the outbox has become records, in order; then they are dropped there. Whether
    there were any: more may wait.
    """


class WantHistory(Effect[bool]):
    """The locks' events become history soon, and nobody waits for it. Whether those up to the
    number `event_seq` are by now. `awaited`: a rebalance is over, and its record needs them.
    """

    event_seq: int
    awaited: bool


class KeepIncarnation(Effect[bool]):
    """False: the database has that one or a higher already, and keeps it."""

    incarnation: int


class ModeKept(StrEnum):
    KNOWN = "known"  # nothing new, or only its number
    SWITCHED = "switched"  # another one coordinated so far, as the database has it
    UNKNOWN = "unknown"  # nobody was asked: the database keeps what it has, and Redis is put right


class KeepMode(Effect[ModeKept]):
    """Who coordinates. `note`: of whoever switched to it, by which the database knows who that was;
    Redis itself may say what anybody wrote there.
    """

    mode: Epoch
    coordination: Coordination
    note: str


class KeepLoss(Effect[None]):
    """That Redis forgot the group, or its last writes; what was put back, and what is gone."""

    wiped: bool
    offsets: Mapping[Partition, Offset]  # as Redis had them
    applied: Mapping[Partition, Applied]
    moved: Mapping[Partition, SnapshotRecord]  # to which it was moved forward
    lifted: Mapping[Partition, facts.Lifted]


class KeepFaults(Effect[None]):
    """What should never be, as it is now: audited when it was not there before."""

    faults: tuple[tuple[str, str], ...]  # FaultKind, sentence


class ReadMirror(Effect[facts.Mirror]):
    pass


class ReadStays(Effect[tuple[facts.Stay, ...]]):
    """Those without an end."""


class KeepStays(Effect[None]):
    """Whoever was recorded under the same member and time already is changed."""

    stays: tuple[facts.Stay, ...]


class KeepForced(Effect[None]):
    """The member's stay that ended then ended by force."""

    member: str
    left_at_ms: int


class ReadScaleDowns(Effect[facts.ScaleDowns]):
    """The running one, and those that ended since; the newest first. `was_told`: Redis was told of
    one, now or ever.
    """

    ended_since_ms: int
    was_told: bool


class KeepScaleDowns(Effect[bool]):
    """False, and nothing is changed: another process changed one since `version` was read."""

    version: int
    changed: tuple[facts.ScaleDown, ...]
    next_version: int
    notes: tuple[facts.Note, ...]


class ReadRequests(Effect[tuple[facts.Request, ...]]):
    """Those that nobody answered, oldest first."""


class RefuseRequest(Effect[None]):
    request: int
    why: str


class TakeRequest(Effect[bool]):
    """To be asked before the target of a plan is stored: from then on the plan cannot be cancelled.
    False: it was.
    """

    request: facts.Request


class AdvancePlans(Effect[None]):
    """Plans whose time is up expire; one that runs ends when all that it began has ended."""


class KeepRefusal(Effect[None]):
    """The group's own strategy does not fit it. Once for each state of the group."""

    strategy: str
    group_epoch: int
    why: str


class ReadRound(Effect[facts.Round | None]):
    """The newest one that is under way or done."""


class ReadTenures(Effect[facts.Tenures]):
    since_ms: int


class ReadOpen(Effect[tuple[facts.Open, ...]]):
    """The rebalances that have not ended, oldest first."""


class Complete(Effect[None]):
    """What is held equals the target of a round; `ended`: the rebalances that are over by that."""

    pk: int
    moments: facts.Moments
    total_ms: int
    ownership_gap_ms: int
    ended: tuple[facts.Ended, ...]


class ReadFinished(Effect[tuple[facts.Finished, ...]]):
    """Rebalances after which no commit was seen yet."""

    since_ms: int


class KeepFirstEffect(Effect[None]):
    pk: int
    after_ms: int


class Push(Effect[None]):
    """Tells browsers what changed: ownership, target, members, settings or history."""

    what: str
