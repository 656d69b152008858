"""Ownership over time as bytes for the page's script: at most BYTES_MAX, whatever the group's size.

A little-endian u32 is the length of the JSON that follows: {"from", "to", "since", "lines": numbers
of the partitions, "layers": [[width, runs], ...], "marks": [[kind, at_ms, count, what, address]]}.
Then of each layer (owners, learners, standbys) the ends of its runs, u16, and then of each the
codes, u8 (pixels.py). Pure.
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import replace

from dashboard.pages import texts
from dashboard.pages.pixels import Frame, fitted
from dashboard.records.queries.intervals import Intervals
from dashboard.records.queries.marks import Mark

BYTES_MAX = 2**18
RUNS_MAX = 65_536  # of all layers; three bytes each, the rest is for the head
REPLICA_RUNS_MAX = 8_192  # of a layer
WHAT_MAX = 60  # characters
ALIGNED = 4


def encoded(
    frame: Frame, owners: Intervals, replicas: Sequence[Intervals], marks: Sequence[Mark]
) -> bytes:
    """`replicas`: of the same lines, LINES_MIN at most: of those none is left out."""
    kept = replace(frame, gaps=False)
    owners, drawn = fitted(frame, owners, RUNS_MAX - REPLICA_RUNS_MAX * len(replicas))
    layers = [drawn, *(fitted(kept, one, REPLICA_RUNS_MAX)[1] for one in replicas)]
    head = {
        "from": frame.from_ms,
        "to": frame.to_ms,
        "since": owners.from_ms,
        "lines": [*owners.numbers],
        "layers": [[layer.width, layer.codes.size] for layer in layers],
        "marks": [_mark(mark) for mark in marks],
    }
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % ALIGNED)
    return b"".join((
        struct.pack("<I", len(text)),
        text,
        *(layer.ends.astype("<u2").tobytes() for layer in layers),
        *(layer.codes.tobytes() for layer in layers),
    ))  # fmt: skip


def _mark(mark: Mark) -> tuple[str, int, int, str, str]:
    """The address is the end of that of its page, below the history's."""
    what = texts.short_member(mark.what)[:WHAT_MAX]
    address = "{}/{}/".format(*mark.epoch) if mark.epoch else ""
    return mark.kind, mark.at_ms, mark.count, what, address
