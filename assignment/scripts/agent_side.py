"""What an agent and its consumer ask: locks, the plan of a batch, the fenced commit, snapshots."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

from assignment.errors import Fenced, InvalidInput
from assignment.scripts.crashes import Skip, Suspect, read_skip, read_suspect
from assignment.scripts.dead_letters import DeadLetter
from assignment.scripts.replays import Replays, read_replays
from assignment.scripts.values import (
    FENCE_MAX,
    INCARNATION_MAX,
    Arguments,
    Call,
    Raw,
    bytes_of,
    epoch_text,
    fence_text,
    flag,
    number_of,
    speaker_text,
    text_of,
    texts_of,
    ttl_text,
    within,
)
from assignment.types import (
    INCARNATION_STEP,
    NAME_PATTERN,
    START,
    Claim,
    Epoch,
    Held,
    HeldState,
    Offset,
    Partition,
    read_as,
    valid_name,
)

# --- acquire, renew, release ----------------------------------------------------------------------


class Refusal(StrEnum):
    """Why a whole acquire was refused; nothing was granted."""

    WRONG_MODE = "mode"  # the mode_epoch is not the current one
    NO_INCARNATION = "no_incarnation"  # Redis may have lost writes: wait until it is raised


@dataclass(frozen=True, slots=True)
class Granted:
    """Ours, new or as before; a whole lease from now."""

    partition: Partition
    fence: int
    state: HeldState


@dataclass(frozen=True, slots=True)
class HeldBy:
    """Another member's, for `left_ms` at least, unless it releases."""

    partition: Partition
    member_id: str
    left_ms: int


@dataclass(frozen=True, slots=True)
class NotTarget:
    """The stored target does not give it to this member."""

    partition: Partition


PartitionAnswer = Granted | HeldBy | NotTarget
AcquireAnswer = tuple[PartitionAnswer, ...] | Refusal


def acquire(
    speaker: str, ttl_ms: int, mode_epoch: int, incarnation: int, partitions: Iterable[Partition]
) -> Call[AcquireAnswer]:
    """One answer per partition, in their order. Raises Fenced: not a member.

    `speaker`: see speaker_of.
    """
    arguments: Arguments = [
        speaker_text(speaker),
        ttl_text(ttl_ms),
        epoch_text("mode_epoch", mode_epoch),
        within("incarnation", incarnation, 0, INCARNATION_MAX),
        *(str(p) for p in partitions),
    ]
    return Call("acquire", arguments, _acquired)


def _acquired(raw: Raw) -> AcquireAnswer:
    kind = text_of(raw[0])
    if kind == "fenced":
        raise Fenced("acquire: Redis knows no such member")
    if kind != "ok":
        return Refusal(kind)
    return tuple(_partition_answer(answer) for answer in raw[1:])


def _partition_answer(raw: Raw) -> PartitionAnswer:
    match texts_of(raw):
        case [partition, "granted", fence, state]:
            return Granted(Partition.parse(partition), int(fence), HeldState(state))
        case [partition, "held", holder, left_ms]:
            return HeldBy(Partition.parse(partition), holder, int(left_ms))
        case [partition, "not_target"]:
            return NotTarget(Partition.parse(partition))
        case answer:
            raise InvalidInput(f"acquire answered {answer}")


@dataclass(frozen=True, slots=True)
class Renewed:
    """`held`: per claim, in their order, whether its lock is still ours, a whole lease again."""

    incarnation: int
    target: Epoch
    mode_epoch: int
    held: tuple[bool, ...]


def renew(speaker: str, ttl_ms: int, claims: Iterable[Claim]) -> Call[Renewed]:
    """Also a sign of life when there are none. Raises Fenced: not a member; nothing was renewed."""
    arguments: Arguments = [speaker_text(speaker), ttl_text(ttl_ms), *_claim_texts(claims)]
    return Call("renew", arguments, _renewed)


def _renewed(raw: Raw) -> Renewed:
    if text_of(raw[0]) == "fenced":
        raise Fenced("renew: Redis knows no such member")
    target = Epoch(int(raw[2]), int(raw[3]))
    return Renewed(int(raw[1]), target, int(raw[4]), _flags(raw[5:]))


def release(member_id: str, held: Mapping[Partition, Held]) -> Call[tuple[bool, ...]]:
    """Whether it was done, per partition, in their order: only what is stored as given here."""
    arguments: Arguments = [valid_name("member", member_id)]
    for partition, one in held.items():
        arguments += [str(partition), fence_text(one.fence), one.state.value]
    return Call("release", arguments, _flags)


def _flags(raw: Raw) -> tuple[bool, ...]:
    return tuple(int(value) == 1 for value in raw)


def _claim_texts(claims: Iterable[Claim]) -> Iterable[str]:
    for partition, fence in claims:
        yield str(partition)
        yield fence_text(fence)


def claim_turn(member_id: str, lease_ms: int) -> Call[int]:
    """To compute the targets of the group, for so long; 0 gives it back. 0: the member does; above:
    another one, ask again after so many ms; -1: a dashboard.
    """
    return Call("claim_turn", [member_id, str(lease_ms)], number_of)


# --- set_state, plan ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StateChange:
    """Done only when the stored fence and state are these."""

    partition: Partition
    fence: int
    expected: HeldState
    new: HeldState


def set_state(member_id: str, changes: Iterable[StateChange]) -> Call[tuple[bool, ...]]:
    """Whether it was done, per change, in their order."""
    arguments: Arguments = [valid_name("member", member_id)]
    for change in changes:
        arguments += [str(change.partition), fence_text(change.fence)]
        arguments += [change.expected.value, change.new.value]
    return Call("set_state", arguments, _flags)


@dataclass(frozen=True, slots=True)
class BatchStart:
    """Running and locked: may be read from `committed`; `total` events were applied up to there.

    `replication_id`: of the server that said so; another one may lack what this one has.
    """

    partition: Partition
    fence: int
    committed: Offset
    total: int
    suspect: Suspect | None = None
    skip: Skip | None = None
    replication_id: str = ""
    replays: Replays | None = None


def next_batch(speaker: str) -> Call[tuple[BatchStart, ...]]:
    """What may be read now. Only when the batch before is finished: what is being revoked is
    revoked. Raises Fenced: not a member.
    """
    return Call("next_batch", [speaker_text(speaker)], _batch_starts)


def _batch_starts(raw: Raw) -> tuple[BatchStart, ...]:
    if text_of(raw[0]) == "fenced":
        raise Fenced("next_batch: Redis knows no such member")
    return tuple(
        BatchStart(
            Partition.parse(partition),
            int(fence),
            Offset.parse(committed),
            int(total),
            read_suspect(suspect),
            read_skip(skip),
            text_of(raw[1]),
            read_replays(waiting, bound),
        )
        for partition, fence, committed, total, suspect, skip, waiting, bound in map(
            texts_of, raw[2:]
        )
    )


def progress(speaker: str, values: Iterable[tuple[str, str | int | float]]) -> Call[int]:
    """0: it is no member."""
    arguments: Arguments = [speaker_text(speaker)]
    for name, value in values:
        arguments += [name, str(value)]
    return Call("progress", arguments, number_of)


# --- commit ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """Effects of the events in (from_offset, to_offset]; `events` counts malformed ones too.

    `base_total`: events applied already when Redis holds no offset (a sink that keeps its own).
    `changelog` False writes no entry: a pipeline without partition state. A commit of nothing,
    from == to, asks whether the fence still holds: answered moved or fenced. `replication_id`: of
    the server that it was planned from, "" for any. `sink_fence`: brings Redis to where its sink
    stands, which applied that under this fence; 0 for any other commit.
    """

    partition: Partition
    member_id: str
    fence: int
    from_offset: Offset
    to_offset: Offset
    events: int
    base_total: int = 0
    changelog: bool = True
    changes: bytes = b""
    ids: bytes = b""
    replication_id: str = ""
    sink_fence: int = 0
    dead: Sequence[DeadLetter] = ()


class CommitResult(StrEnum):
    DONE = "done"
    ALREADY = "already"  # this very commit, before: its reply was lost
    MOVED = "moved"  # ours still, at another offset or server: nothing was applied, plan again
    FENCED = "fenced"  # a newer fence was granted: nothing was applied, drop the partition


@dataclass(frozen=True, slots=True)
class CommitAnswer:
    """`changelog_id`: the id of this commit's entry (done, already), "" when none was written."""

    result: CommitResult
    committed: Offset | None = None  # None when fenced
    last_fence: int | None = None  # the last granted, when fenced; 0 = none
    changelog_id: str = ""

    @property
    def applied(self) -> bool:
        return self.result in (CommitResult.DONE, CommitResult.ALREADY)


def commit(request: CommitRequest) -> Call[CommitAnswer]:
    asks = request.to_offset == request.from_offset and not request.events
    if request.to_offset <= request.from_offset and not asks:
        raise InvalidInput(
            f"commit of {request.partition} from {request.from_offset} to {request.to_offset}"
            " does not go forward"
        )
    arguments: Arguments = [
        str(request.partition),
        valid_name("member", request.member_id),
        fence_text(request.fence),
        str(request.from_offset),
        str(request.to_offset),
        within("events", request.events, 0, FENCE_MAX),
        within("base_total", request.base_total, 0, FENCE_MAX),
        flag(request.changelog),
        request.changes,
        request.ids,
        request.replication_id,
        within("sink fence", request.sink_fence, 0, FENCE_MAX),
    ]
    for letter in request.dead:
        arguments += letter.fields
    return Call("commit", arguments, _committed)


def _committed(raw: Raw) -> CommitAnswer:
    match texts_of(raw):
        case ["done" | "already" as result, committed, changelog_id]:
            return CommitAnswer(
                CommitResult(result), Offset.parse(committed), changelog_id=changelog_id
            )
        case ["moved", committed]:
            return CommitAnswer(CommitResult.MOVED, Offset.parse(committed))
        case ["fenced", last_fence]:
            return CommitAnswer(CommitResult.FENCED, last_fence=int(last_fence))
        case answer:
            raise InvalidInput(f"commit answered {answer}")


# --- snapshot -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRecord:
    """Where a partition's state at `offset` lies; its changelog goes on after `changelog_id`."""

    url: str
    offset: Offset
    changelog_id: str
    total: int  # events applied in total
    fence: int

    def __post_init__(self) -> None:
        Offset.parse(self.changelog_id)

    @property
    def rank(self) -> tuple[int, Offset]:
        """(incarnation, offset): of two records the higher is the newer."""
        return self.fence // INCARNATION_STEP, self.offset


def is_snapshot_of(path: Sequence[str], group: str, partition: Partition) -> bool:
    """Whether these are the last parts of the address of such a file: group, partition, name."""
    is_name = NAME_PATTERN.fullmatch(path[-1]) is not None
    return is_name and tuple(path) == (group, str(partition), path[-1])


def record_values(record: SnapshotRecord) -> dict[str, str]:
    """As they lie in the hash `snapshots`, in a manifest and in the database."""
    return {f.name: str(getattr(record, f.name)) for f in fields(record)}


class SnapshotResult(StrEnum):
    DONE = "done"
    FENCED = "fenced"
    OLD = "old"  # not above the recorded one, or above what is committed


def snapshot(partition: Partition, record: SnapshotRecord, *, trim: bool) -> Call[SnapshotResult]:
    """Records a written file. Trims the changelog only up to the record before it."""
    if record.offset <= START:
        raise InvalidInput(f"snapshot of {partition} at {record.offset} holds nothing")
    arguments: Arguments = [
        str(partition),
        fence_text(record.fence),
        record.url,
        str(record.offset),
        record.changelog_id,
        within("total", record.total, 0, FENCE_MAX),
        flag(trim),
    ]
    return Call("snapshot", arguments, lambda raw: SnapshotResult(text_of(raw)))


def read_snapshots(raw: Raw) -> tuple[SnapshotRecord, ...]:
    """A field of the hash `snapshots`: the newest first, at most two; none for None."""
    return () if raw is None else tuple(map(record_of, json.loads(bytes_of(raw))))


def record_of(values: Mapping[str, str]) -> SnapshotRecord:
    offset = Offset.parse(values["offset"])
    return read_as(SnapshotRecord, {**values, "offset": offset}, from_texts=True)
