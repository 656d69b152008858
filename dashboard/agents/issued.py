"""What every issued token has: the rows of agents' tokens and of producers'."""

from datetime import datetime

from django.db import models
from django.utils import timezone

from assignment.errors import InvalidInput
from assignment.types import NAME_MAX


class IssuedToken(models.Model):
    """The token itself is shown once and never stored."""

    name = models.CharField(max_length=NAME_MAX)
    digest = models.CharField(max_length=64, unique=True)  # SHA-256, hex
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.CharField(max_length=150)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True
        ordering = ("-created_at", "-id")

    @property
    def state(self) -> str:
        """valid, expired or revoked"""
        if self.revoked_at is not None:
            return "revoked"
        is_past = self.expires_at is not None and self.expires_at <= timezone.now()
        return "expired" if is_past else "valid"


def checked_name(name: str, expires_at: datetime | None) -> str:
    """Of a token to be made, without spaces around it. Raises InvalidInput, also for its expiry."""
    if not name.strip() or len(name) > NAME_MAX:
        raise InvalidInput(f"token name {name!r} is not of 1 to {NAME_MAX} characters")
    if expires_at is not None and expires_at <= timezone.now():
        raise InvalidInput(f"the expiry {expires_at.isoformat()} is past")
    return name.strip()
