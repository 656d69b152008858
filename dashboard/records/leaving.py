"""The row of a scale-down. Django finds it through dashboard.models."""

from django.db import models
from django.db.models import Q

from assignment.coordinator.facts import State
from dashboard.records.stored import AuditSource

ScaleDownState = State
STATES = [(word.value, word.name.capitalize()) for word in State]


class AtDeadline(models.TextChoices):
    FORCE = "force"
    ABORT = "abort"


class ScaleDown(models.Model):
    """Members that were told to leave: who asked, why, what each did (learners.md S9).

    `members`: id -> {"outcome": "" (still here), clean, forced, died or cancelled, "at_ms": when it
    ended or None, "forced": whether it was told to go at once}.
    """

    group = models.ForeignKey(
        "dashboard.Group", on_delete=models.CASCADE, related_name="scale_downs"
    )
    asked_at_ms = models.BigIntegerField()
    told_at_ms = models.BigIntegerField(null=True)  # None: Redis was not told yet
    actor = models.CharField(max_length=150)
    source = models.CharField(max_length=10, choices=AuditSource)
    reason = models.CharField(max_length=500, blank=True)
    percent = models.PositiveSmallIntegerField(null=True)  # that stay; None: asked by name
    live = models.PositiveIntegerField()  # members when it was asked
    timeout_ms = models.BigIntegerField(null=True)  # from told_at_ms on; None: no limit
    at_deadline = models.CharField(max_length=5, choices=AtDeadline, default=AtDeadline.FORCE)
    members = models.JSONField()
    state = models.CharField(
        max_length=9,
        choices=[(s.value, s.name.capitalize()) for s in State],
        default=State.RUNNING.value,
    )
    ended_at_ms = models.BigIntegerField(null=True)
    plan = models.OneToOneField(
        "dashboard.Plan", on_delete=models.SET_NULL, null=True, related_name="scale_down"
    )

    class Meta:
        ordering = ("-asked_at_ms", "-id")
        constraints = (
            models.UniqueConstraint(
                fields=("group",), condition=Q(state="running"), name="one_scale_down_at_a_time"
            ),
        )
        indexes = (
            models.Index(fields=("group", "asked_at_ms"), name="scale_down_asked"),
            models.Index(fields=("state", "group"), name="scale_down_in_state"),
        )

    def __str__(self) -> str:
        return f"{self.group_id} scale-down {self.pk}"

    @property
    def deadline_ms(self) -> int | None:
        """None without a limit, and before the members were told."""
        if self.told_at_ms is None or self.timeout_ms is None:
            return None
        return self.told_at_ms + self.timeout_ms

    @property
    def aborts(self) -> bool:
        return self.at_deadline == AtDeadline.ABORT

    @property
    def stay(self) -> int:
        return self.live - len(self.members)

    def remaining(self) -> list[str]:
        """Members that are still here, as far as the record knows; ascending."""
        return sorted(m for m, entry in self.members.items() if not entry["outcome"])
