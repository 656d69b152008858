"""The audit's rows. Django finds them through dashboard.models.

An entry carries names, never keys of other rows: what it says does not change when those go.
"""

import json
from typing import TYPE_CHECKING, Any

from django.db import models

if TYPE_CHECKING:
    AnyText = models.TextField[Any, Any]
else:
    AnyText = models.TextField

ACTOR_MAX, ACTION_MAX, OBJECT_MAX, GROUP_MAX = 150, 60, 255, 100
REASON_MAX, RESULT_MAX = 500, 500
ADDRESS_MAX = 45  # of an IPv6 address that has an IPv4 one in it
TOKEN_MAX = 100
CHECKPOINT = "audit checkpoint"  # the action of the entry that vouches for what was removed
HEAD = 1  # the key of the one row that says how far the chain goes


def canonical_json(value: Any) -> str:
    """The same text for the same value, also after it was stored and read: ASCII, names sorted."""
    plain = json.loads(json.dumps(value, default=str))
    return json.dumps(plain, sort_keys=True, separators=(",", ":"))


class CanonicalJSON(AnyText):
    """A JSON value as its canonical text: a database's own kind of JSON writes numbers anew."""

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None else canonical_json(value)

    def from_db_value(self, value: str | None, *_: Any) -> Any:
        """What was made unreadable behind our back is a text: `verify` names it."""
        try:
            return None if value is None else json.loads(value)
        except (ValueError, RecursionError):
            return value

    def to_python(self, value: Any) -> Any:
        return value


class AuditSource(models.TextChoices):
    PAGE = "page"
    API = "api"
    COMMAND = "command"
    AUTOMATIC = "automatic"


class AuditEntry(models.Model):
    """`mac` is the HMAC-SHA-256 of the entry and of the one before it (chain.py)."""

    seq = models.BigIntegerField(unique=True)  # 1, 2, 3 ...
    mac = models.CharField(max_length=64)
    at = models.DateTimeField(db_index=True)
    actor = models.CharField(max_length=ACTOR_MAX)
    address = models.CharField(max_length=ADDRESS_MAX, blank=True)
    action = models.CharField(max_length=ACTION_MAX)
    object = models.CharField(max_length=OBJECT_MAX)
    group = models.CharField(max_length=GROUP_MAX, blank=True, db_index=True)
    reason = models.CharField(max_length=REASON_MAX, blank=True)
    before = CanonicalJSON(null=True)
    after = CanonicalJSON(null=True)
    source = models.CharField(max_length=10, choices=AuditSource)
    token = models.CharField(max_length=TOKEN_MAX, blank=True, default="")  # whose name the API saw
    result = models.CharField(max_length=RESULT_MAX, default="done")
    count = models.PositiveIntegerField(default=1)  # of the same, which were too many to list

    class Meta:
        app_label = "dashboard"
        ordering = ("-seq",)
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.object}"


class AuditHead(models.Model):
    """One row: the last entry, which whoever adds one locks; and how far retention has removed."""

    seq = models.BigIntegerField(default=0)
    mac = models.CharField(max_length=64, blank=True, default="")
    through = models.BigIntegerField(default=0)  # entries up to here were removed by a checkpoint
    through_mac = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        app_label = "dashboard"

    def __str__(self) -> str:
        return f"entry {self.seq}"
