"""Committed offsets that nothing takes back: by these the streams are trimmed.

Where one Redis has all keys, a failover or a restart that forgets a commit forgets the trim after
it, too. In a cluster the two lie on different nodes, each with replicas and a file of its own. So
a commit counts there when it was seen some seconds ago and by now each replica of its node has it.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from assignment.types import Offset
from assignment.wire import GroupKeys
from dashboard.live import groups
from dashboard.live.connection import client_at
from dashboard.live.nodes import cluster

SETTLED_S = 5.0  # a server that is started anew forgets at most the last second or two
GROUPS_MAX = 20_000  # seen; beyond that all are seen anew


class _Seen(NamedTuple):
    """`written`: how far its node's writes went after the offsets were read. `has`: the least that
    a replica has of them; as much where there is none.
    """

    at_s: float  # monotonic
    server: str
    replicas: int
    written: int
    has: int
    offsets: list[str]

    @classmethod
    def of(cls, answers: Sequence[Any]) -> Self:
        values, server, replication = answers
        written = int(replication["master_repl_offset"])
        replicas = _replicas(replication)
        return cls(
            at_s=time.monotonic(),
            server=f"{server['run_id']}/{replication['master_replid']}",
            replicas=len(replicas),
            written=written,
            has=min((int(row["offset"]) for row in replicas), default=written),
            offsets=[groups.FIRST_ENTRY if v is None else v.decode() for v in values],
        )

    def settles(self, before: "_Seen") -> bool:
        """Whether what was seen then lasts."""
        return self.has >= before.written and self.at_s - before.at_s >= SETTLED_S

    def leads_on(self, before: "_Seen") -> bool:
        same = self.server == before.server and len(self.offsets) == len(before.offsets)
        return same and self.replicas >= before.replicas


_seen: dict[str, _Seen] = {}  # by group


def committed_of(wanted: Sequence[tuple[str, str, int]]) -> list[list[str]]:
    """As groups.committed_of; 0-0 where there is none that lasts. Raises StoreUnavailable."""
    if cluster() is None:
        return groups.committed_of(wanted)
    return [_committed(*of_group) for of_group in wanted]


def _committed(group: str, stream: str, partitions: int) -> list[str]:
    key = GroupKeys(group).offsets
    pipe = client_at(key).pipeline()
    pipe.hmget(key, [f"{stream}:{number}" for number in range(partitions)])
    now, before = _Seen.of(pipe.info("server").info("replication").execute()), _seen.get(group)
    if before is None or not now.leads_on(before):
        _keep(group, now)
    elif now.settles(before):
        _keep(group, now)
        both = zip(before.offsets, now.offsets, strict=True)  # a person may have set one back
        return [str(min(map(Offset.parse, pair))) for pair in both]
    return [groups.FIRST_ENTRY] * partitions


def _keep(group: str, seen: _Seen) -> None:
    if len(_seen) >= GROUPS_MAX:
        _seen.clear()
    _seen[group] = seen


def _replicas(replication: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rows = (replication.get(f"slave{n}") for n in range(int(replication["connected_slaves"])))
    return [row for row in rows if row]
