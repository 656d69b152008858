"""What every issued token has: the rows of agents' tokens, of producers' and of people's."""

import secrets
from datetime import datetime

from django.db import models
from django.db.models import Q
from django.utils import timezone

from assignment import rights
from assignment.errors import InvalidInput
from assignment.types import NAME_MAX

# A leaked one is recognised by secret scanners.
AGENT_PREFIX, PRODUCER_PREFIX, PERSON_PREFIX = "ekt_", "ekp_", "eku_"
USED_EVERY_S = 60.0  # last_used_at is good to a minute

digest_of = rights.digest_of


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
        """As `state_at`, now."""
        return state_at(timezone.now(), self.revoked_at, self.expires_at)


def make(prefix: str = AGENT_PREFIX) -> str:
    """The text of a token: 256 random bits."""
    return prefix + secrets.token_urlsafe(32)


def state_at(now: datetime, revoked_at: datetime | None, expires_at: datetime | None) -> str:
    """valid, expired or revoked"""
    if revoked_at is not None:
        return "revoked"
    return "expired" if expires_at is not None and expires_at <= now else "valid"


def valid_at(now: datetime) -> Q:
    return Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=now))


def is_used_anew(last_used_at: datetime | None, now: datetime) -> bool:
    """Whether this use is to be kept: not each of them costs a write."""
    return last_used_at is None or (now - last_used_at).total_seconds() > USED_EVERY_S


def checked_name(name: str, expires_at: datetime | None) -> str:
    """Of a token to be made, without spaces around it. Raises InvalidInput, also for its expiry."""
    if not name.strip() or len(name) > NAME_MAX:
        raise InvalidInput(f"token name {name!r} is not of 1 to {NAME_MAX} characters")
    if expires_at is not None and expires_at <= timezone.now():
        raise InvalidInput(f"the expiry {expires_at.isoformat()} is past")
    return name.strip()
