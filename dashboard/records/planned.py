"""The row of a plan: a change that is looked at, decided, and then run as it was decided. Django
finds it through dashboard.models.

What a plan says is written once, as canonical text whose SHA-256 is kept beside it; who decides is
shown that number, and nothing runs whose text does not have it any more.
"""

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from django.db import models
from django.db.models import F, Q

from assignment.types import NAME_MAX
from dashboard.records.stored import AuditSource, canonical_json

Json = dict[str, Any]
NUMBER_BYTES = 32
PROBLEM_MAX = 500


class PlanKind(models.TextChoices):
    REBALANCE = "rebalance"
    SCALE_DOWN = "scale-down"
    STRATEGY = "strategy change"
    COORDINATION = "coordination change"


class PlanState(models.TextChoices):
    DRAFT = "draft"
    PROPOSED = "proposed"
    APPROVED = "approved"
    RUNNING = "running"
    DONE = "done"
    PARTLY_DONE = "partly done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    EXPIRED = "expired"
    STALE = "stale"


WAITING = (PlanState.PROPOSED, PlanState.APPROVED)  # for people
UNAPPROVED = (
    *(PlanState.DRAFT, PlanState.PROPOSED, PlanState.REJECTED),
    *(PlanState.EXPIRED, PlanState.STALE, PlanState.CANCELLED),
)  # what a plan may be in that nobody approved, though it needs that


class PlannedMove(NamedTuple):
    """`giver` and `taker`: "" is nobody. `is_later`: by a learner, once it has the state."""

    number: int
    giver: str
    taker: str
    is_later: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """All that a plan says. `base`: the epochs of the group that it was made for (incarnation,
    group_epoch, target_epoch, mode_epoch). `rows`: member -> role -> partition numbers of the
    target; {}: it has none of its own. `metrics`: None where nobody knows.
    """

    group: str  # its identity
    kind: str
    inputs: Json
    base: Mapping[str, int]
    proposed_by: str
    reason: str
    proposed_at_ms: int
    expires_at_ms: int
    needs_approval: bool
    strategy: str = ""
    rows: Mapping[str, Mapping[str, list[int]]] = field(default_factory=dict)
    unable: Mapping[str, str] = field(default_factory=dict)
    moves: list[list[Any]] = field(default_factory=list)  # [number, giver, taker]
    learning: list[list[Any]] = field(default_factory=list)  # the same
    metrics: Json = field(default_factory=dict)

    @property
    def text(self) -> str:
        return canonical_json(asdict(self))

    @property
    def moves_in_all(self) -> int:
        """With those by learners, and those that wait for one."""
        return len(self.moves) + len(self.learning) + (self.metrics.get("waiting") or 0)

    @property
    def every_move(self) -> list[PlannedMove]:
        at_once = [PlannedMove(*move) for move in self.moves]
        return at_once + [PlannedMove(*move)._replace(is_later=True) for move in self.learning]


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Plan(models.Model):
    """A row is only ever changed by a conditional update from one state to the next."""

    group = models.ForeignKey("dashboard.Group", on_delete=models.CASCADE, related_name="plans")
    kind = models.CharField(max_length=20, choices=PlanKind)
    state = models.CharField(max_length=12, choices=PlanState, default=PlanState.DRAFT)
    packed = models.BinaryField()  # the content's text, compressed
    digest = models.CharField(max_length=2 * NUMBER_BYTES)  # SHA-256 of that text, hex
    proposed_by = models.CharField(max_length=150)
    proposed_at_ms = models.BigIntegerField()
    source = models.CharField(max_length=10, choices=AuditSource)
    reason = models.CharField(max_length=500, blank=True)
    expires_at_ms = models.BigIntegerField()
    needs_approval = models.BooleanField()
    approved_by = models.CharField(max_length=150, blank=True)
    approved_by_rule = models.CharField(max_length=NAME_MAX, blank=True)  # in that one's name
    rule_values = models.JSONField(null=True)  # that met it, beside its conditions
    decided_by = models.CharField(max_length=150, blank=True)  # approved, rejected or cancelled it
    decided_at_ms = models.BigIntegerField(null=True)
    decision = models.CharField(max_length=500, blank=True)  # why
    run_by = models.CharField(max_length=150, blank=True)
    started_at_ms = models.BigIntegerField(null=True)
    ended_at_ms = models.BigIntegerField(null=True)
    problem = models.CharField(max_length=PROBLEM_MAX, blank=True)
    moved = models.JSONField(null=True)  # once it ended: outcome of a move -> how many

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(
                fields=("group",), condition=Q(state="running"), name="one_plan_runs_at_a_time"
            ),
            models.CheckConstraint(
                condition=Q(approved_by="") | ~Q(approved_by=F("proposed_by")),
                name="nobody_approves_their_own_plan",
            ),
            models.CheckConstraint(
                condition=Q(approved_by_rule="") | ~Q(approved_by=""),
                name="a_rule_approves_in_a_persons_name",
            ),
            models.CheckConstraint(
                condition=Q(needs_approval=False)
                | Q(state__in=[state.value for state in UNAPPROVED])
                | ~Q(approved_by=""),
                name="a_plan_is_approved_before_it_runs",
            ),
        )
        indexes = (
            models.Index(fields=("group", "state"), name="plan_of_state"),
            models.Index(fields=("state", "expires_at_ms", "group"), name="plan_in_state"),
        )

    def __str__(self) -> str:
        return f"plan {self.pk}"

    @cached_property
    def content(self) -> Content:
        return Content(**json.loads(zlib.decompress(bytes(self.packed))))

    @property
    def is_whole(self) -> bool:
        """Whether its text is the one whose number was shown, and the row says the same."""
        try:
            found = self.content
        except (zlib.error, ValueError, TypeError):
            return False
        said = ("kind", "proposed_by", "reason", "proposed_at_ms", "expires_at_ms")
        same = all(getattr(self, name) == getattr(found, name) for name in said)
        return (
            same
            and self.needs_approval == found.needs_approval
            and digest_of(found.text) == self.digest
        )


def packed(content: Content) -> tuple[bytes, str]:
    """The text, compressed, and its digest."""
    text = content.text
    return zlib.compress(text.encode(), 1), digest_of(text)
