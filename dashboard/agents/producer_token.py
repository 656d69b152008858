"""The row of a producer's token; a model of this app, by way of dashboard.models."""

from django.db import models

NAME_MAX = 100


class ProducerToken(models.Model):
    """Who may append to a stream: a user of Redis. The token itself is never stored."""

    stream = models.CharField(max_length=NAME_MAX)
    name = models.CharField(max_length=NAME_MAX)
    digest = models.CharField(max_length=64, unique=True)  # SHA-256, hex
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=150)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at", "-id")

    def __str__(self) -> str:
        return f"{self.name} of {self.stream}"
