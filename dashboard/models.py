"""What is worth keeping: configuration, who may speak, and the history of ownership.

Times that come from Redis are whole milliseconds of its clock (`*_ms`), kept exactly as they came.
"""

import hashlib
from collections.abc import Iterable
from enum import StrEnum

from django.db import models
from django.db.models import F, Q

from assignment import maps
from assignment.coordinator.facts import StayEnd
from assignment.types import NAME_MAX, Coordination, GroupSettings
from dashboard.agents.issued import IssuedToken
from dashboard.agents.producer_token import ProducerToken  # noqa: F401
from dashboard.evaluation.stored import Evaluation  # noqa: F401  (Django finds models here)
from dashboard.records.api_answer import ApiAnswer  # noqa: F401  (as above)
from dashboard.records.approving import ApprovalRule as ApprovalRule  # noqa: PLC0414
from dashboard.records.attention import AttentionLimits as AttentionLimits  # noqa: PLC0414
from dashboard.records.attention import Occurrence as Occurrence  # noqa: PLC0414
from dashboard.records.deciding import Decided, Telling
from dashboard.records.grants import RoleGrant  # noqa: F401  (as above)
from dashboard.records.leaving import AtDeadline as AtDeadline  # noqa: PLC0414
from dashboard.records.leaving import ScaleDown as ScaleDown  # noqa: PLC0414
from dashboard.records.leaving import ScaleDownState as ScaleDownState  # noqa: PLC0414
from dashboard.records.mirrored import PartitionMirror as PartitionMirror  # noqa: PLC0414
from dashboard.records.ownership_maps import StoredMap as StoredMap  # noqa: PLC0414
from dashboard.records.person_token import PersonToken  # noqa: F401
from dashboard.records.planned import Plan as Plan  # noqa: PLC0414
from dashboard.records.planned import PlanKind as PlanKind  # noqa: PLC0414
from dashboard.records.planned import PlanState as PlanState  # noqa: PLC0414
from dashboard.records.stored import AuditEntry as AuditEntry  # noqa: PLC0414
from dashboard.records.stored import AuditHead as AuditHead  # noqa: PLC0414
from dashboard.records.stored import AuditSource as AuditSource  # noqa: PLC0414
from dashboard.records.strips import MapStrip as MapStrip  # noqa: PLC0414
from dashboard.webhooks.stored import Delivery as Delivery  # noqa: PLC0414
from dashboard.webhooks.stored import DeliveryState as DeliveryState  # noqa: PLC0414
from dashboard.webhooks.stored import Webhook as Webhook  # noqa: PLC0414

MEMBER_MAX = 200
CAUSE_MAX = 60
FLAPPING_TEXT_MAX = 1_000


def _choices(words: Iterable[StrEnum]) -> list[tuple[str, str]]:
    return [(word.value, word.name.capitalize()) for word in words]


class Group(Decided):
    name = models.CharField(max_length=NAME_MAX, unique=True)
    stream = models.CharField(max_length=NAME_MAX)
    partitions = models.PositiveIntegerField()
    settings = models.JSONField()  # of assignment.types.GroupSettings
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=150)
    coordination = models.CharField(max_length=16, default=Coordination.SERVER)  # as Redis has it
    incarnation = models.BigIntegerField(default=0)
    mode_incarnation = models.BigIntegerField(default=0)  # under which that was kept
    mode_epoch = models.BigIntegerField(default=0)
    events_cursor = models.CharField(max_length=50, default="0-0")  # last stored entry of `events`
    last_event_seq = models.BigIntegerField(default=0)
    history_from_ms = models.BigIntegerField(default=0)  # what ended before may be dropped; 0: none
    history_dropped_ms = models.BigIntegerField(default=0)  # so far that was done
    scale_downs_version = models.BigIntegerField(default=0)  # every change of one makes another
    pauses = models.JSONField(default=dict)  # scope -> who, when, why (assignment.pauses)
    pause_version = models.BigIntegerField(default=0)  # of these
    faults = models.JSONField(default=list)  # what should never be, as the last tick found it
    missed_looks = models.BigIntegerField(default=0)  # a tick's that found what nobody had marked

    objects: "models.Manager[Group]" = Telling.as_manager()

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @classmethod
    def locked(cls, pk: int) -> "Group":
        """Until the transaction ends nobody else changes it or locks it; before the head of the
        audit, which audit.atomic locks last. Rows that name it may be added meanwhile: a lock of
        its key, too, would have history and samples wait for whoever changes a setting.
        """
        return cls.objects.select_for_update(no_key=True).get(pk=pk)

    @property
    def values(self) -> GroupSettings:
        return GroupSettings.of(self.settings)

    @property
    def identity(self) -> str:
        """The same for ever, also after a wiped Redis; another dashboard's group has another."""
        made = f"{self.name} {self.pk} {self.created_at.isoformat()}"
        return hashlib.sha256(made.encode()).hexdigest()[:32]

    @property
    def audit(self) -> models.QuerySet[AuditEntry]:
        return AuditEntry.objects.filter(group=self.name)

    @property
    def running_scale_down(self) -> "ScaleDown | None":
        return self.scale_downs.filter(state=ScaleDownState.RUNNING).first()


class AgentToken(IssuedToken):
    """Who may speak for a group."""

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="tokens")
    last_used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.name} of {self.group_id}"


class MemberRecord(models.Model):
    """One stay of a member in its group; a member that joins anew gets another."""

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="member_records")
    member_id = models.CharField(max_length=MEMBER_MAX)
    host = models.CharField(max_length=255, blank=True)
    version = models.CharField(max_length=50, blank=True)
    joined_at_ms = models.BigIntegerField()
    left_at_ms = models.BigIntegerField(null=True, blank=True)
    end = models.CharField(max_length=10, choices=_choices(StayEnd), null=True, blank=True)
    spark_application_id = models.CharField(max_length=100, blank=True)

    class Meta:
        ordering = ("-joined_at_ms",)
        constraints = (
            models.UniqueConstraint(
                fields=("group", "member_id", "joined_at_ms"), name="one_record_per_stay"
            ),
        )
        indexes = (models.Index(fields=("group", "joined_at_ms"), name="stay_joined"),)

    def __str__(self) -> str:
        return self.member_id


class RebalanceOutcome(models.TextChoices):
    RUNNING = "running"
    DONE = "done"
    SUPERSEDED = "superseded"


class Rebalance(models.Model):
    """An accepted target: an immutable numbered record, completed when what is held equals it.

    It is one round of a rebalance, which is one cause with all the rounds that it takes
    (assignment.coordinator.rounds). What holds of the whole stands in its first round.
    """

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="rebalances")
    incarnation = models.BigIntegerField(default=0)  # of Redis' epochs: they may begin again
    target_epoch = models.BigIntegerField()
    at_ms = models.BigIntegerField()
    cause = models.CharField(max_length=CAUSE_MAX)
    causes = models.JSONField(default=list)  # all that gathered: [{reason, member, epoch, at_ms}]
    planned = models.BooleanField(default=False)  # a person asked
    actor = models.CharField(max_length=150, blank=True)
    reason = models.CharField(max_length=500, blank=True)
    strategy = models.CharField(max_length=50)
    members = models.PositiveIntegerField()
    partitions = models.PositiveIntegerField()
    kept = models.PositiveIntegerField()
    moved = models.PositiveIntegerField()
    avoidable = models.PositiveIntegerField(null=True)  # None: nobody knows the least moves
    balance_degree = models.FloatField(null=True)
    max_minus_min = models.PositiveIntegerField(null=True)
    score = models.FloatField(null=True)
    stickiness = models.FloatField(null=True)
    stickiness_best = models.FloatField(null=True)
    detect_ms = models.BigIntegerField(null=True)
    compute_ms = models.BigIntegerField(null=True)
    deliver_ms = models.BigIntegerField(null=True)
    revoke_ms = models.BigIntegerField(null=True)
    acquire_ms = models.BigIntegerField(null=True)
    first_effect_ms = models.BigIntegerField(null=True)
    total_ms = models.BigIntegerField(null=True)
    ownership_gap_ms = models.BigIntegerField(null=True)  # partition-milliseconds without an owner
    outcome = models.CharField(
        max_length=12, choices=RebalanceOutcome, default=RebalanceOutcome.RUNNING
    )
    finished_at_ms = models.BigIntegerField(null=True)
    celery_task_id = models.CharField(max_length=100, blank=True)
    celery_worker = models.CharField(max_length=255, blank=True)
    first = models.ForeignKey(  # round of its rebalance; None: it is the first
        "self", on_delete=models.SET_NULL, null=True, related_name="later_rounds"
    )
    ended_at_ms = models.BigIntegerField(null=True)  # the whole; None: it goes on
    gap_in_all_ms = models.BigIntegerField(null=True)  # of the whole, once it ended
    target = models.BinaryField()  # ownership_map: partition number -> member
    previous = models.BinaryField()
    replicas = models.BinaryField(null=True)  # replicas_map; None: the group was not stateful
    learning = models.PositiveIntegerField(default=0)  # partitions that are to change hands later

    class Meta:
        ordering = ("-incarnation", "-target_epoch")
        constraints = (
            models.UniqueConstraint(
                fields=("group", "incarnation", "target_epoch"), name="one_target_per_epoch"
            ),
        )
        indexes = (
            models.Index(fields=("group", "at_ms"), name="rebalance_at"),
            models.Index(
                fields=("group",), condition=Q(outcome="running"), name="rebalance_running"
            ),
            models.Index(
                fields=("group",),
                condition=Q(first__isnull=True, ended_at_ms__isnull=True),
                name="rebalance_open",
            ),
        )

    def __str__(self) -> str:
        return f"{self.group_id} epoch {self.target_epoch}"

    @property
    def whole(self) -> "Rebalance":
        """The first round, which stands for the rebalance."""
        return self.first or self

    def owners(self) -> list[str | None]:
        """Partition number -> member of the target; None where it gives the partition to nobody."""
        return maps.unpack_owners(bytes(self.target))

    def owners_before(self) -> list[str | None]:
        return maps.unpack_owners(bytes(self.previous))

    def moves(self) -> list[maps.Move]:
        return maps.moves(self.owners_before(), self.owners())

    @property
    def roles(self) -> maps.Roles:
        """Member -> {"assigned", "revoked", "standby", "learning"}: partition numbers, ascending.

        Every member of the group is in it, and who is gone and lost partitions by that.
        """
        replicas = None if self.replicas is None else bytes(self.replicas)
        return maps.roles(self.owners_before(), self.owners(), replicas)


class TenureEnd(models.TextChoices):
    RELEASED = "released"
    EXPIRED = "expired"


class Tenure(models.Model):
    """One granting of a partition to a member, as the lock saw it: [started_ms, ended_ms)."""

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="tenures")
    number = models.PositiveIntegerField()
    partition = models.CharField(max_length=120)  # stream:number
    member_id = models.CharField(max_length=MEMBER_MAX)
    fence = models.BigIntegerField()
    started_ms = models.BigIntegerField()
    ended_ms = models.BigIntegerField(null=True, blank=True)
    end = models.CharField(max_length=10, choices=TenureEnd, null=True, blank=True)
    refused_at_ms = models.BigIntegerField(null=True, blank=True)  # its first refused commit

    class Meta:
        ordering = ("-started_ms", "-fence")
        constraints = (
            models.UniqueConstraint(
                fields=("group", "partition", "fence"), name="one_tenure_per_fence"
            ),
            models.CheckConstraint(
                condition=Q(ended_ms__isnull=True) | Q(ended_ms__gte=F("started_ms")),
                name="tenure_ends_after_its_start",
            ),
        )
        indexes = (
            models.Index(fields=("group", "number", "started_ms"), name="tenure_of_partition"),
            models.Index(fields=("group", "member_id", "started_ms"), name="tenure_of_member"),
            models.Index(fields=("group", "started_ms"), name="tenure_started"),
            models.Index(fields=("group", "ended_ms"), name="tenure_ended"),
            models.Index(
                fields=("group", "number"), condition=Q(ended_ms=None), name="tenure_open"
            ),
        )

    def __str__(self) -> str:
        return f"{self.partition} {self.member_id}/{self.fence}"


class HistoryGap(models.Model):
    """What was lost before it was stored, events of the lock or records of rebalances."""

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="gaps")
    at_ms = models.BigIntegerField()
    events_lost = models.BigIntegerField(null=True)  # None: Redis was wiped, nobody can know
    records_lost = models.BigIntegerField(default=0)

    class Meta:
        ordering = ("-at_ms",)


class Sample(models.Model):
    """A group's numbers at a moment, for the charts. None: not known then (never 0)."""

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="samples")
    at_ms = models.BigIntegerField()
    lag_records = models.BigIntegerField(null=True)
    events_per_second = models.FloatField(null=True)
    applied_total = models.BigIntegerField(null=True)
    members = models.PositiveIntegerField()
    owned = models.PositiveIntegerField()
    conflicts = models.PositiveIntegerField(null=True)
    suspect = models.PositiveIntegerField(null=True)  # members that gave no sign of life lately
    stalled = models.PositiveIntegerField(null=True)
    paused = models.PositiveIntegerField(default=0)  # partitions that people paused
    pausing = models.PositiveIntegerField(default=0)  # of these, whose owner has not confirmed
    lag_paused = models.BigIntegerField(default=0)  # their part of lag_records
    flapping = models.CharField(max_length=FLAPPING_TEXT_MAX, blank=True)  # who or what; "": none
    member_states = models.JSONField(null=True)  # of snapshot.MEMBER_STATES -> how many
    group_epoch = models.BigIntegerField(null=True)
    tick_age_ms = models.BigIntegerField(null=True)  # since the coordinator ticked over it

    class Meta:
        ordering = ("at_ms",)
        constraints = (
            models.UniqueConstraint(fields=("group", "at_ms"), name="one_sample_per_moment"),
        )


class RequestState(models.TextChoices):
    PENDING = "pending"
    TAKEN = "taken"  # its target is being stored, so the plan cannot be cancelled any more
    DONE = "done"
    REFUSED = "refused"  # its plan did not fit the group when its turn came; see the audit


class RebalanceRequest(models.Model):
    """A plan's rebalance; answered by its target. Those without one are older than plans."""

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="requests")
    created_at = models.DateTimeField(auto_now_add=True)
    actor = models.CharField(max_length=150)
    reason = models.CharField(max_length=500, blank=True)
    strategy = models.CharField(max_length=50)
    parameters = models.JSONField(default=dict)  # of that strategy
    state = models.CharField(max_length=10, choices=RequestState, default=RequestState.PENDING)
    rebalance = models.ForeignKey(Rebalance, on_delete=models.SET_NULL, null=True, blank=True)
    plan = models.OneToOneField(
        Plan, on_delete=models.SET_NULL, null=True, related_name="request"
    )  # by whose target, and by no other

    class Meta:
        ordering = ("-created_at", "-id")
        indexes = (models.Index(fields=("state", "group"), name="request_in_state"),)


class OffsetJump(models.Model):
    """A person set the committed offset of a partition. `fence`: granted by that, so commits under
    a lower one came before; `events`: between the two offsets, null where nobody can tell.
    """

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="offset_jumps")
    at_ms = models.BigIntegerField()
    number = models.PositiveIntegerField()
    fence = models.BigIntegerField()
    before = models.CharField(max_length=50)
    after = models.CharField(max_length=50)
    events = models.BigIntegerField(null=True)
    actor = models.CharField(max_length=150)
    reason = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ("-id",)


class AskedSwitch(models.Model):
    """To other coordination: who asked, before Redis has it. Gone as soon as it is kept or refused.

    Redis is given the note alone: what it says of names, anybody may have written there.
    """

    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="asked_switches")
    note = models.CharField(max_length=50, unique=True)
    coordination = models.CharField(max_length=16)
    actor = models.TextField()
    source = models.CharField(max_length=10, choices=AuditSource)
    reason = models.TextField(blank=True)
    address = models.TextField(blank=True)

    def __str__(self) -> str:
        return f"{self.group_id} to {self.coordination}"
