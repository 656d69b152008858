"""Who keeps or learns which partition's state in a round, packed small; and the roles of a round.

Pure. Form: zlib of one JSON line {"members": [...], "standby": {member: [numbers]}, "learning":
{the same}}. Who owns what is in the ownership_map of the same record.
"""

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence

from assignment.types import Partition, TargetRow
from dashboard.records import ownership_map

KINDS = ("assigned", "revoked", "standby", "learning")
Numbers = dict[str, list[int]]
Roles = dict[str, Numbers]  # member -> kind -> numbers


def pack(rows: Mapping[str, TargetRow]) -> bytes:
    said = {
        "members": sorted(rows),
        "standby": {m: _numbers(row.standby) for m, row in rows.items() if row.standby},
        "learning": {m: _numbers(row.learning) for m, row in rows.items() if row.learning},
    }
    return zlib.compress(json.dumps(said, sort_keys=True, separators=(",", ":")).encode(), 1)


def _numbers(partitions: Iterable[Partition]) -> list[int]:
    return sorted(partition.number for partition in partitions)


def roles(before: Sequence[str | None], after: Sequence[str | None], packed: bytes | None) -> Roles:
    """Of every member named by any of the three. `before` and `after`: number -> owner."""
    said = json.loads(zlib.decompress(packed)) if packed else {}
    found: Roles = {member: _nothing() for member in said.get("members", ())}
    for number, owner in enumerate(after):
        if owner is not None:
            found.setdefault(owner, _nothing())["assigned"].append(number)
    for number, owner, _ in ownership_map.moves(before, after):
        if owner is not None:
            found.setdefault(owner, _nothing())["revoked"].append(number)
    for kind in ("standby", "learning"):
        for member, numbers in said.get(kind, {}).items():
            found.setdefault(member, _nothing())[kind] = numbers
    return dict(sorted(found.items()))


def _nothing() -> Numbers:
    return {kind: [] for kind in KINDS}
