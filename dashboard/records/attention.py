"""The rows of what needed attention, and of a group's limits. Django finds them through
dashboard.models. What the rules are stands in live/attention.py.
"""

from django.db import models
from django.db.models import Q

from dashboard.records.stored import ACTOR_MAX, REASON_MAX

WHY_MAX = 1_000


class Occurrence(models.Model):
    """A rule that held in a group, from `began_at_ms` on; it needs attention from `raised_at_ms`
    on, and is over at `ended_at_ms`, when it was seen last.
    """

    group = models.ForeignKey(
        "dashboard.Group", on_delete=models.CASCADE, related_name="occurrences"
    )
    rule = models.CharField(max_length=20)  # of live.attention.WORDS
    why = models.CharField(max_length=WHY_MAX)  # as it was seen last
    began_at_ms = models.BigIntegerField()
    seen_at_ms = models.BigIntegerField()
    raised_at_ms = models.BigIntegerField(null=True)  # None: it does not last long enough yet
    ended_at_ms = models.BigIntegerField(null=True)
    acknowledged_at_ms = models.BigIntegerField(null=True)
    acknowledged_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    note = models.CharField(max_length=REASON_MAX, blank=True)

    class Meta:
        ordering = ("-began_at_ms", "-id")
        constraints = (
            models.UniqueConstraint(
                fields=("group", "rule"),
                condition=Q(ended_at_ms__isnull=True),
                name="one_open_occurrence_of_a_rule",
            ),
            models.CheckConstraint(
                condition=Q(acknowledged_at_ms__isnull=True, acknowledged_by="")
                | (Q(acknowledged_at_ms__isnull=False) & ~Q(acknowledged_by="")),
                name="acknowledged_by_somebody",
            ),
        )
        indexes = (
            models.Index(fields=("group", "began_at_ms"), name="occurrence_began"),
            models.Index(
                fields=("raised_at_ms",),
                condition=Q(ended_at_ms__isnull=True),
                name="occurrence_open",
            ),
        )

    def __str__(self) -> str:
        return f"{self.rule} of {self.group_id}"

    @property
    def is_open(self) -> bool:
        return self.ended_at_ms is None

    @property
    def is_acknowledged(self) -> bool:
        return self.acknowledged_at_ms is not None


class AttentionLimits(models.Model):
    """What a group set for itself: name of live.attention.LIMITS -> value; the rest is as it was
    declared.
    """

    group = models.OneToOneField(
        "dashboard.Group", on_delete=models.CASCADE, related_name="attention_limits"
    )
    values = models.JSONField(default=dict)
