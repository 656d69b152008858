"""The row of a group's map, as small as it can be. Django finds it through dashboard.models."""

from django.db import models

GAP, CONFLICT, UNKNOWN = ".", "!", "?"


class MapStrip(models.Model):
    """One character for each partition, in their order, as it was sampled last: the hue of its
    owner, a digit (records.queries.colours), or GAP (nobody has it), CONFLICT or UNKNOWN.
    """

    group = models.OneToOneField(
        "dashboard.Group", on_delete=models.CASCADE, related_name="map_strip"
    )
    at_ms = models.BigIntegerField()
    cells = models.TextField()
