"""The row of what Redis is given back. Django finds it through dashboard.models."""

from django.db import models


class PartitionMirror(models.Model):
    """What a wiped Redis is given back: last known offset and snapshot records of a partition."""

    group = models.ForeignKey("dashboard.Group", on_delete=models.CASCADE, related_name="mirror")
    number = models.PositiveIntegerField()
    offset = models.CharField(max_length=50)
    total = models.BigIntegerField()
    snapshot = models.JSONField(null=True)  # the records of `snapshots`, newest first

    class Meta:
        ordering = ("number",)
        constraints = (
            models.UniqueConstraint(fields=("group", "number"), name="one_mirror_per_partition"),
        )
