"""Keeps a group's map as a strip, with each sample: what lists draw without waiting for Redis."""

from collections.abc import Mapping

from dashboard.live.snapshot import LivePartition, LiveSnapshot
from dashboard.models import Group, MapStrip
from dashboard.records.queries import colours
from dashboard.records.strips import CONFLICT, GAP, UNKNOWN


def keep(group: Group, snapshot: LiveSnapshot) -> None:
    hues = colours.of_group(group.pk, snapshot.members)
    cells = "".join(cell(row, hues) for row in snapshot.partitions)
    now = {"at_ms": snapshot.at_ms, "cells": cells}
    MapStrip.objects.update_or_create(group=group, defaults=now)


def cell(row: LivePartition, hues: Mapping[str, int]) -> str:
    """Its owner counts, also while it takes the partition over or is halted."""
    if row.state == "conflict":
        return CONFLICT
    if row.owner is None:
        return UNKNOWN if row.state == "unknown" else GAP
    hue = hues.get(row.owner)
    return UNKNOWN if hue is None else str(hue % colours.HUES)
