"""What is read of a group that rests, in plain commands (coordinator/resting.py)."""

import re
from collections.abc import Iterable

# Fields of `meta` of which one changes whenever a script changed what a tick decides by. And who
# coordinates: whoever may write to the group's keys could take that without a number.
COUNTED = (
    *("group_epoch", "target_epoch", "settings_epoch", "mode_epoch", "incarnation", "event_seq"),
    *("pause_version", "looks_due", "coordination"),
)
_RUN = re.compile(rb"run_id:([0-9a-f]+).*?master_replid:([0-9a-f]+)", re.DOTALL)


def counted_of(values: Iterable[bytes | None]) -> str:
    """COUNTED fields of `meta` as one text; another one means that something changed."""
    return b" ".join([value or b"" for value in values]).decode(errors="replace")


def applied_of(values: Iterable[bytes | None]) -> str:
    """Of the hash `applied`, as it is stored."""
    return b"|".join([value or b"" for value in values]).decode(errors="replace")


def run_id_of(info: bytes) -> str:
    """As the scripts have it (run_id in lua/_common.lua), of INFO server and INFO replication."""
    found = _RUN.search(info)
    return b"/".join(found.groups()).decode() if found else ""
