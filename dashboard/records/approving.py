"""The row of a rule by which plans are approved without a person. Django finds it through
dashboard.models; made, removed and asked by actions/approval_rules.py.
"""

from django.conf import settings
from django.db import models
from django.db.models import Q

from assignment.types import NAME_MAX
from dashboard.actions.conditions import DAY_MINUTES


class ApprovalRule(models.Model):
    """Approves in its author's name, as long as that one may, and never what that one proposed. It
    is never changed: another one is made in its place. Times are minutes of the UTC day.
    """

    name = models.CharField(max_length=NAME_MAX, unique=True)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="approval_rules"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    pattern = models.CharField(max_length=100)  # of groups' names
    kinds = models.JSONField()  # of plans
    moves_max = models.PositiveIntegerField()
    begins = models.PositiveSmallIntegerField()
    ends = models.PositiveSmallIntegerField()

    class Meta:
        ordering = ("name",)
        constraints = (
            models.CheckConstraint(
                condition=Q(begins__lt=DAY_MINUTES) & Q(ends__lt=DAY_MINUTES),
                name="a_rule_is_of_minutes_of_the_day",
            ),
        )

    def __str__(self) -> str:
        return self.name
