"""What a command by the API was answered, under the key that came with it. Django finds the row
through dashboard.models; api/v1/idempotency.py says what it is for.
"""

from django.conf import settings
from django.db import models

KEY_MAX = 128


class ApiAnswer(models.Model):
    """`status` None: it began, and nothing is known of its end. `fingerprint`: SHA-256, hex, of the
    request.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=KEY_MAX)
    fingerprint = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    status = models.PositiveSmallIntegerField(null=True)
    body = models.TextField(blank=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("user", "key"), name="one_answer_per_key"),)

    def __str__(self) -> str:
        return self.key
