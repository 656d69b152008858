"""The row of a stored map. Django finds it through dashboard.models."""

from django.db import models


class StoredMap(models.Model):
    """Who owned each partition of a group at a moment: what makes any later one quick to tell.

    It is made of tenures and says nothing that they do not: all of them may be deleted, and are
    where a tenure before their moment changes.
    """

    group = models.ForeignKey("dashboard.Group", on_delete=models.CASCADE, related_name="maps")
    at_ms = models.BigIntegerField()  # no tenure that was stored by then begins or ends later
    seq = models.BigIntegerField()  # of the last event that it knows
    map = models.BinaryField()  # assignment.ownership.pack

    class Meta:
        ordering = ("-at_ms", "-id")
        indexes = (models.Index(fields=("group", "at_ms"), name="map_at"),)

    def __str__(self) -> str:
        return f"{self.group_id} at {self.at_ms}"
