"""The rows of webhooks and of what was sent to them. Django finds them through dashboard.models."""

from urllib.parse import urlsplit

from django.db import models
from django.db.models import Q

from assignment.types import NAME_MAX

URL_MAX, BODY_MAX, PROBLEM_MAX = 500, 20_000, 200


class Webhook(models.Model):
    """An address that is told of every group. Its secret follows from `salt` and the dashboard's
    own key (signing.py), so that no copy of the database has it.
    """

    name = models.CharField(max_length=NAME_MAX, unique=True)
    url = models.CharField(max_length=URL_MAX)
    salt = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=150)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def place(self) -> str:
        """Its host and port: the path may hold a secret of the one who is told."""
        return urlsplit(self.url).netloc


class DeliveryState(models.TextChoices):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"  # tried as often as it is
    DROPPED = "dropped"  # too many waited already


class Event(models.TextChoices):
    RAISED = "raised"
    ACKNOWLEDGED = "acknowledged"
    ENDED = "ended"
    TEST = "test"


class Delivery(models.Model):
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    event = models.CharField(max_length=12, choices=Event)
    body = models.TextField()  # JSON, as it is sent and signed
    created_at_ms = models.BigIntegerField()
    state = models.CharField(max_length=9, choices=DeliveryState, default=DeliveryState.PENDING)
    tries = models.PositiveSmallIntegerField(default=0)
    due_at_ms = models.BigIntegerField()  # of the next try
    ended_at_ms = models.BigIntegerField(null=True)
    status = models.PositiveSmallIntegerField(null=True)  # of the last answer; None: there was none
    problem = models.CharField(max_length=PROBLEM_MAX, blank=True)  # of the last try

    class Meta:
        ordering = ("-created_at_ms", "-id")
        indexes = (
            models.Index(fields=("due_at_ms",), condition=Q(state="pending"), name="delivery_due"),
            models.Index(fields=("webhook", "created_at_ms"), name="delivery_created"),
        )

    def __str__(self) -> str:
        return f"{self.event} to {self.webhook_id}"
