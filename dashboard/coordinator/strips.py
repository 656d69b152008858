"""Keeps a group's map as a strip, with each sample: what lists draw without waiting for Redis."""

from collections.abc import Mapping

import numpy as np

from dashboard.live.cells import STATE_INDEX, Cells
from dashboard.live.ownership import NOBODY
from dashboard.live.snapshot import LiveSnapshot
from dashboard.models import Group, MapStrip
from dashboard.records.queries import colours
from dashboard.records.strips import CONFLICT, GAP, UNKNOWN


def keep(group: Group, snapshot: LiveSnapshot) -> None:
    hues = colours.of_group(group.pk, snapshot.members)
    now = {"at_ms": snapshot.at_ms, "cells": strip(snapshot.partitions, hues)}
    MapStrip.objects.update_or_create(group=group, defaults=now)


def strip(found: Cells, hues: Mapping[str, int]) -> str:
    """An owner counts, also while it takes the partition over or is halted."""
    colour = (hues.get(name) for name in found.names)
    owners = [UNKNOWN if hue is None else str(hue % colours.HUES) for hue in colour]
    cells = np.array([*owners, GAP])[found.owner]  # nobody is the last one
    cells[(found.owner == NOBODY) & (found.state == STATE_INDEX["unknown"])] = UNKNOWN
    cells[found.state == STATE_INDEX["conflict"]] = CONFLICT
    return "".join(cells.tolist())
