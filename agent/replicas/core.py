"""All replicas of one agent as one value: what is wanted, what comes next, what became of it.

Each transition takes the value and gives the next one with the news of it; a late or repeated one
changes nothing. Many replicas share few turns: first what was acquired, the others one after the
other. Whoever is not wanted any more keeps its file for a while, in case it comes back. Knows no
clock, no disk, no threads.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from agent.replicas.replica import Place, Replica, ReplicaNews
from agent.state.restore import Progress
from assignment.member.messages import RestoreEnded
from assignment.member.replicas import Wanted, ready_learners
from assignment.types import Claim, Offset, Partition, ReplicaReport, Role

News = tuple[RestoreEnded | ReplicaNews, ...]
OPEN_MAX = 256  # files at once, two each for LMDB; of more replicas each is open for its turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    keep_unwanted_ms: int
    wanted: Wanted = field(default_factory=Wanted)
    of: Mapping[Partition, Replica] = field(default_factory=dict)
    acquired: tuple[Partition, ...] = ()  # waiting for a turn
    others: tuple[Partition, ...] = ()

    @property
    def is_waiting(self) -> bool:
        return bool(self.acquired or self.others)

    @property
    def is_resting(self) -> bool:
        """Nobody works on any of them, or is to."""
        return not self.is_waiting and not any(one.running for one in self.of.values())

    def tailed(self) -> dict[Partition, str]:
        """Those that have nothing to do, and after which entry something new comes."""
        return {p: s.place.changelog_id for p, s in self.of.items() if s.is_tailed and s.place}

    def elsewhere(self, committed: Mapping[Partition, Offset]) -> set[Partition]:
        """Those that stand at another offset than the committed one."""
        places = ((p, self.of[p].place) for p in committed.keys() & self.of.keys())
        return {p for p, place in places if place and place.offset != committed[p]}

    def due_ms(self) -> int | None:
        """When `due` has something to do; None: not before there is news."""
        dues = [s.retry_ms for s in self.of.values() if s.retry_ms is not None]
        dues += [
            s.unwanted_since_ms + self.keep_unwanted_ms
            for s in self.of.values()
            if s.unwanted_since_ms is not None
        ]
        return min(dues, default=None)

    def reports(self, now_ms: int) -> dict[Partition, ReplicaReport]:
        said = ((p, s.report(now_ms)) for p, s in sorted(self.of.items()) if s.role)
        return {partition: report for partition, report in said if report}


class Action(Enum):
    GO_ON = auto()
    REST = auto()  # close the file
    REMOVE = auto()
    NOTHING = auto()  # it is held: it goes on from here as soon as it is ordered


@dataclass(frozen=True, slots=True)
class Turn:
    partition: Partition
    action: Action
    claim: Claim | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """`state`: of the replica itself, not of the way to Redis. `full`: the disk refused."""

    why: str
    state: bool
    full: bool


# --- what the loop says -------------------------------------------------------------------------


def order(all_: Replicas, claim: Claim) -> Replicas:
    """To be brought to what is committed from now on."""
    replica = _replica(all_, claim.partition)
    return _enqueued(all_, replace(replica, claim=claim, retry_ms=None, unwanted_since_ms=None))


def want(all_: Replicas, wanted: Wanted, now_ms: int) -> Replicas:
    all_ = replace(all_, wanted=wanted)
    for partition, role in wanted.replicas.items():
        before = _replica(all_, partition)
        replica = before.wanted_as(role, stateful=wanted.stateful)
        # One that lacked a state until now was handed over: it is new as one without a role is.
        is_new = before.role is None or (before.stateless and wanted.stateful)
        put = _enqueued if wanted.stateful and is_new else _with
        all_ = put(all_, replica)
    for partition in sorted(wanted.held):
        replica = _replica(all_, partition)
        all_ = _with(all_, replace(replica, role=None, held=True, unwanted_since_ms=None))
    unwanted = all_.of.keys() - wanted.replicas.keys() - wanted.held
    return _called(set_aside(all_, sorted(unwanted), now_ms))


def set_aside(all_: Replicas, partitions: Iterable[Partition], now_ms: int) -> Replicas:
    """Not wanted now, or of an agent before this one: of use when wanted soon."""
    for partition in partitions:
        replica = _replica(all_, partition)
        if replica.unwanted_since_ms is None:
            replica = replace(replica.handed_over(), held=False, unwanted_since_ms=now_ms)
            all_ = _enqueued(all_, replica)
    return all_


# --- turns --------------------------------------------------------------------------------------


def take_turn(all_: Replicas) -> tuple[Replicas, Turn | None]:
    """The next one is running from now on; what it was asked to do is done once."""
    if not all_.is_waiting:
        return all_, None
    partition, *_ = (*all_.acquired, *all_.others)
    replica = all_.of[partition]
    running = replace(replica, queued=False, running=True, to_be_removed=False)
    return _with(_unqueued(all_, partition), running), Turn(
        partition, _action(replica), replica.claim
    )


def _action(replica: Replica) -> Action:
    if replica.is_needed:
        return Action.GO_ON
    if replica.held:
        return Action.NOTHING
    return Action.REMOVE if replica.to_be_removed else Action.REST


def note(
    all_: Replicas, partition: Partition, progress: Progress, now_ms: int
) -> tuple[Replicas, News]:
    """Unwanted in the middle of a turn: nothing of it may count when it is wanted again."""
    before = all_.of[partition]
    if not before.is_needed:
        return all_, ()
    after = before.after(progress, all_.wanted.acceptable_lag_records, now_ms)
    return _told(all_, before, after)


def arrive(
    all_: Replicas, partition: Partition, place: Place, serves: Claim | None, now_ms: int
) -> tuple[Replicas, News]:
    """At the committed offset. `serves`: the claim that was ordered before the way there began."""
    before = all_.of[partition]
    news: News = ()
    if before.is_needed:
        all_, news = _told(all_, before, before.arrived(place, now_ms))
    claim = before.claim
    if claim is None or serves != claim:
        return all_, news
    handed_over = replace(all_.of[partition].handed_over(), held=True)
    return _with(all_, handed_over), (*news, RestoreEnded(claim))


def fail(
    all_: Replicas, partition: Partition, failure: Failure, now_ms: int
) -> tuple[Replicas, News]:
    if failure.full:
        all_ = _with_room(all_, now_ms)
    before = all_.of[partition]
    if not before.is_needed:
        return all_, ()
    replica = before.failed(failure.why, now_ms)
    replica = replica.behind() if failure.state else replica
    if claim := replica.claim:
        ended = RestoreEnded(claim, failure.why, is_of_here=failure.state)
        return _with(all_, replace(replica, claim=None)), (ended,)
    all_ = _with(all_, replica)
    if replica.role is None or before.why == failure.why:
        return all_, ()
    return all_, (ReplicaNews(partition, str(replica.role), failure.why),)


def forget(all_: Replicas, partition: Partition) -> Replicas:
    """Its file is gone for good."""
    replica = all_.of[partition]
    if replica.is_needed or replica.held or replica.asked_again:
        return all_
    of = {p: s for p, s in all_.of.items() if p != partition}
    return replace(_unqueued(all_, partition), of=of)


def end_turn(all_: Replicas, partition: Partition) -> Replicas:
    replica = all_.of.get(partition)
    if replica is not None:
        again = replica.asked_again or replica.is_under_way
        replica = replace(replica, running=False, asked_again=False)
        all_ = (_enqueued if again else _with)(all_, replica)
    return _called(all_)


# --- what time and others bring -----------------------------------------------------------------


def follow(all_: Replicas, changed: Iterable[Partition]) -> Replicas:
    """Something new came after what they have."""
    for partition in sorted(changed):
        if partition in all_.of and all_.of[partition].is_tailed:
            all_ = _enqueued(all_, all_.of[partition])
    return all_


def due(all_: Replicas, now_ms: int) -> Replicas:
    """What failed is tried again; what was not wanted for long enough is removed."""
    for partition, replica in tuple(all_.of.items()):
        if replica.retry_ms is not None and now_ms >= replica.retry_ms:
            again = _enqueued if replica.is_needed else _with
            all_ = again(all_, replace(replica, retry_ms=None))
        since_ms = replica.unwanted_since_ms
        if since_ms is not None and now_ms - since_ms >= all_.keep_unwanted_ms:
            # Once more after as long again, should it fail.
            old = replace(all_.of[partition], unwanted_since_ms=now_ms, to_be_removed=True)
            all_ = _enqueued(all_, old)
    return all_


# --- parts --------------------------------------------------------------------------------------


def _replica(all_: Replicas, partition: Partition) -> Replica:
    return all_.of.get(partition) or Replica(partition=partition)


def _with(all_: Replicas, replica: Replica) -> Replicas:
    return replace(all_, of={**all_.of, replica.partition: replica})


def _enqueued(all_: Replicas, replica: Replica) -> Replicas:
    if replica.running:
        return _with(all_, replace(replica, asked_again=True))
    all_ = _with(all_, replace(replica, queued=True))
    partition = replica.partition
    if partition in all_.acquired or (partition in all_.others and not replica.claim):
        return all_
    all_ = _unqueued(all_, partition)
    if replica.claim:
        return replace(all_, acquired=(*all_.acquired, partition))
    return replace(all_, others=(*all_.others, partition))


def _unqueued(all_: Replicas, partition: Partition) -> Replicas:
    return replace(
        all_,
        acquired=tuple(p for p in all_.acquired if p != partition),
        others=tuple(p for p in all_.others if p != partition),
    )


def _with_room(all_: Replicas, now_ms: int) -> Replicas:
    """The disk refused: what nobody wants goes at once."""
    long_ago_ms = now_ms - all_.keep_unwanted_ms
    for replica in tuple(all_.of.values()):
        if replica.unwanted_since_ms is not None:
            all_ = _with(all_, replace(replica, unwanted_since_ms=long_ago_ms))
    return all_


def _told(all_: Replicas, before: Replica, after: Replica) -> tuple[Replicas, News]:
    """With the news that it caught up by this step."""
    all_ = _with(all_, after)
    if before.caught_up or not after.caught_up:
        return all_, ()
    role = after.role
    news = (ReplicaNews(after.partition, str(role)),) if role is not None else ()
    return _called(all_), news


def _called(all_: Replicas) -> Replicas:
    """Which learners are ready as far as others are concerned."""
    learners = {p: s for p, s in all_.of.items() if s.role is Role.LEARNER}
    called = ready_learners(
        {p: s.caught_up for p, s in learners.items()},
        {p for p, s in learners.items() if s.called},
        eager=all_.wanted.eager,
    )
    for partition, replica in learners.items():
        if replica.called != (partition in called):
            all_ = _with(all_, replace(replica, called=partition in called))
    return all_
