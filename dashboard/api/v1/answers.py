"""What the API answers with. Times `*_ms` are milliseconds since 1970, of Redis' clock where they
come from there; fences are text, for JSON's numbers are too small for them; null is not known.
"""

from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from ninja import Schema
from pydantic import Field

from assignment.types import Coordination
from dashboard.live.group_state import GroupState

Row = TypeVar("Row")
Next = Annotated[str | None, Field(description="The cursor of the next piece; null: the end.")]
Allowed = Annotated[
    list[str], Field(description="What this token may do there now, as scopes are named.")
]


class PieceOf(Schema, Generic[Row]):
    items: list[Row]
    next: Next


class Problem(Schema):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str = ""
    errors: list[dict[str, Any]] = []


# --- groups ---------------------------------------------------------------------------------------


class GroupLine(Schema):
    """By the last sample and what is stored; never waits for Redis."""

    name: str
    stream: str
    partitions: int
    state: GroupState
    why: str
    members: int | None
    owned: int | None
    conflicts: int | None
    lag_records: int | None
    allowed_actions: Allowed


class Numbers(Schema):
    partitions: int
    owned: int
    unowned: int
    conflicts: int
    unknown: int
    members: int
    able: int
    idle: int
    lag_records: int | None
    events_per_second: float | None
    applied_total: int | None
    balance_degree: float | None
    max_minus_min: int | None
    score: float | None
    leaving: int
    learning: int
    stalled: int


class Live(Schema):
    """Of the group's own clock and keys in Redis."""

    at_ms: int
    state: GroupState
    why: str
    group_epoch: int
    target_epoch: int
    incarnation: int
    mode_epoch: int
    tick_age_ms: int
    progress_age_ms: Annotated[int, Field(description="So old at most are lag and commits.")]
    numbers: Numbers


class GroupTold(Schema):
    """`problem`: why `live` is null; "" where it is not."""

    name: str
    stream: str
    partitions: int
    created_at: datetime
    created_by: str
    coordination: Coordination
    settings: dict[str, Any]
    faults: list[list[str]]
    live: Live | None
    problem: str
    allowed_actions: Allowed


class MemberTold(Schema):
    """At a past moment only `id` and `owned` are known."""

    id: str
    owned: int
    state: str | None = None
    why: str | None = None
    targeted: int | None = None
    instance: str | None = None
    host: str | None = None
    version: str | None = None
    joined_at_ms: int | None = None
    beat_at_ms: int | None = None
    spark_application_id: str | None = None
    rows_per_second: float | None = None
    batch: int | None = None
    batch_ms: int | None = None
    refused_commits: int | None = None
    dead_letters: int | None = None
    leaving: str | None = None
    standbys: int | None = None
    learning: int | None = None
    learners_ready: int | None = None


class ReplicaTold(Schema):
    member: str
    ready: bool
    percent: float | None
    lag_records: int | None
    eta_ms: int | None


class PartitionTold(Schema):
    """At a past moment: who held the lock, under which fence, since when, and how that ended."""

    partition: str
    number: int
    owner: str | None
    fence: str | None
    since_ms: int | None
    ended_ms: int | None = None
    end: str | None = None
    state: str | None = None
    target: str | None = None
    offset: str | None = None
    committed_at_ms: int | None = None
    lag_records: int | None = None
    waiting_ms: int | None = None
    progress_age_ms: Annotated[int | None, Field(description="So old are lag and commit.")] = None
    standbys: list[ReplicaTold] = []
    learner: ReplicaTold | None = None


AsOf = Annotated[int | None, Field(description="The moment that was asked for; null: live.")]


class MembersPiece(PieceOf[MemberTold]):
    at_ms: AsOf


class PartitionsPiece(PieceOf[PartitionTold]):
    at_ms: AsOf


class PartitionAt(PartitionTold):
    at_ms: AsOf
    doubtful: Annotated[bool, Field(description="Events were lost: it may not be so.")] = False


# --- history --------------------------------------------------------------------------------------


class TenureTold(Schema):
    partition: str
    number: int
    member_id: str
    fence: str
    started_ms: int
    ended_ms: int | None
    end: str | None
    refused_at_ms: int | None

    @staticmethod
    def resolve_fence(row: Any) -> str:
        return str(row.fence)


class RoundTold(Schema):
    """One accepted target."""

    incarnation: int
    target_epoch: int
    at_ms: int
    cause: str
    planned: bool
    actor: str
    reason: str
    strategy: str
    outcome: str
    members: int
    partitions: int
    kept: int
    moved: int
    avoidable: int | None
    balance_degree: float | None
    max_minus_min: int | None
    score: float | None
    stickiness: float | None
    stickiness_best: float | None
    detect_ms: int | None
    compute_ms: int | None
    deliver_ms: int | None
    revoke_ms: int | None
    acquire_ms: int | None
    first_effect_ms: int | None
    total_ms: int | None
    ownership_gap_ms: int | None
    learning: int
    finished_at_ms: int | None


class RebalanceLine(Schema):
    """One cause with all its rounds; `first` began it."""

    state: str
    rounds: int
    moved: int
    avoidable: int | None
    total_ms: int | None
    first: RoundTold


class MoveTold(Schema):
    number: int
    before: str | None
    after: str | None


class RebalanceTold(RebalanceLine):
    round: RoundTold
    every_round: list[RoundTold]
    moves: Annotated[list[MoveTold], Field(description="Of the round that was asked for.")]


class ScaleDownLine(Schema):
    """`members`: id -> how it ended ("" still here), when, and whether it was forced out."""

    id: int
    state: str
    asked_at_ms: int
    told_at_ms: int | None
    ended_at_ms: int | None
    deadline_ms: int | None
    actor: str
    source: str
    reason: str
    percent: int | None
    live: int
    stay: int
    timeout_ms: int | None
    at_deadline: str
    members: dict[str, Any]


class LeavingTold(Schema):
    member_id: str
    outcome: str
    at_ms: int | None
    forced: bool
    left: int
    ready: int
    percent: float | None
    eta_ms: int | None


class ScaleDownTold(ScaleDownLine):
    progress: list[LeavingTold]
    problem: Annotated[str, Field(description="Why the progress is only what was recorded.")]
    allowed_actions: Annotated[list[str], Field(description="extend, force, abort")]


class CandidateTold(Schema):
    member_id: str
    owned: int
    covered: int
    joined_at_ms: int
    host: str
    zone: str
    leaves: bool


class PreviewTold(Schema):
    """`refused`: why it would be refused now; "" when it would not."""

    members: int
    stay: int
    percent: int | None
    refused: str
    candidates: list[CandidateTold]


class OccurrenceTold(Schema):
    """A rule that held from `began_at_ms` on and needs attention from `raised_at_ms` on."""

    id: int
    rule: str
    why: str
    began_at_ms: int
    raised_at_ms: int | None
    ended_at_ms: int | None
    acknowledged_at_ms: int | None
    acknowledged_by: str
    note: str


class AttentionTold(Schema):
    now: list[OccurrenceTold]
    past: list[OccurrenceTold]


class AuditTold(Schema):
    seq: int
    at: datetime
    actor: str
    address: str
    action: str
    object: str
    group: str
    reason: str
    before: Any
    after: Any
    source: str
    token: Annotated[str, Field(description="Of the actor, by which the API was used.")]
    result: str
    count: int
    mac: str


class Verified(Schema):
    ok: bool
    sentence: str
    entries: int
    first: int | None
    last: int
    at_seq: int | None
    is_whole: bool


class StatusTold(Schema):
    ready: bool
    why: list[str]
    warnings: list[str]
    checks: dict[str, Any]
