"""Keeps a group's map as a strip, with each sample: what lists draw without waiting for Redis."""

from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from dashboard.live.cells import STATE_INDEX, Cells
from dashboard.live.ownership import NOBODY
from dashboard.live.snapshot import LiveSnapshot
from dashboard.models import Group, MapStrip
from dashboard.records.queries import colours
from dashboard.records.strips import CONFLICT, GAP, UNKNOWN

KNOWN_MAX = 10_000  # sets of members of which this process has the hues
_known: dict[Hashable, Mapping[str, int]] = {}


def of(seen: Iterable[tuple[Group, LiveSnapshot]]) -> list[MapStrip]:
    return [_row(group, snapshot) for group, snapshot in seen]


def of_empty(groups: Iterable[tuple[Group, int]]) -> list[MapStrip]:
    """Of each and its moment; nobody has anything."""
    return [
        MapStrip(group=group, at_ms=at_ms, cells=GAP * group.partitions) for group, at_ms in groups
    ]


def keep(rows: Sequence[MapStrip]) -> None:
    MapStrip.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["group"], update_fields=["at_ms", "cells"]
    )


def _row(group: Group, snapshot: LiveSnapshot) -> MapStrip:
    return MapStrip(
        group=group, at_ms=snapshot.at_ms, cells=strip(snapshot.partitions, _hues(group, snapshot))
    )


def _hues(group: Group, snapshot: LiveSnapshot) -> Mapping[str, int]:
    """As long as the same members are there they have the same hues."""
    there = tuple((member.id, member.joined_at_ms) for member in snapshot.members)
    key = group.pk, group.name, there, tuple(snapshot.partitions.names)
    if key not in _known:
        while len(_known) >= KNOWN_MAX:
            _known.pop(next(iter(_known)))
        is_dealt = there or snapshot.numbers.owned
        _known[key] = colours.of_group(group.pk, snapshot.members) if is_dealt else {}
    return _known[key]


def strip(found: Cells, hues: Mapping[str, int]) -> str:
    """An owner counts, also while it takes the partition over or is halted."""
    colour = (hues.get(name) for name in found.names)
    owners = [UNKNOWN if hue is None else str(hue % colours.HUES) for hue in colour]
    cells = np.array([*owners, GAP])[found.owner]  # nobody is the last one
    cells[(found.owner == NOBODY) & (found.state == STATE_INDEX["unknown"])] = UNKNOWN
    cells[found.state == STATE_INDEX["conflict"]] = CONFLICT
    return "".join(cells.tolist())
