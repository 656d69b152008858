"""Committed offsets that nothing takes back: by these the streams are trimmed.

Where one Redis has all keys, a failover or a restart that forgets a commit forgets the trim after
it, too. In a cluster the two lie on different nodes, each with replicas and a file of its own. So
a commit counts there when it was seen some seconds ago and by now each replica of its node has it.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from assignment.types import Offset
from assignment.wire import GroupKeys
from dashboard.live import groups
from dashboard.live.connection import client_at
from dashboard.live.nodes import StoreUnavailable, cluster

SETTLED_S = 5.0  # a server that is started anew forgets at most the last second or two
GROUPS_MAX = 20_000  # seen; beyond that all are seen anew

log = logging.getLogger(__name__)


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


_seen: dict[tuple[str, str], _Seen] = {}  # by group and stream


def committed_of(asked: Sequence[tuple[str, str, int]]) -> list[list[str]]:
    """Of the partitions 0 to n - 1; 0-0 where there is none that lasts, as far as is known.
    `asked`: group, stream and n of each. Raises StoreUnavailable where there is one Redis.
    """
    if cluster() is None:
        return groups.committed_of(asked)
    return [_lasting(group, stream, partitions) for group, stream, partitions in asked]


def _lasting(group: str, stream: str, partitions: int) -> list[str]:
    nothing = [groups.FIRST_ENTRY] * partitions
    try:
        now = _seen_of(group, stream, partitions)
    except StoreUnavailable as error:
        log.warning("stream=%s is not trimmed while group=%s is away: %s", stream, group, error)
        return nothing
    before = _seen.get((group, stream))
    if before is None or not now.leads_on(before):
        _keep(group, stream, now)
        return nothing
    if not now.settles(before):
        return nothing
    _keep(group, stream, now)
    both = zip(before.offsets, now.offsets, strict=True)  # a person may have set one back
    return [str(min(map(Offset.parse, pair))) for pair in both]


def _seen_of(group: str, stream: str, partitions: int) -> _Seen:
    key = GroupKeys(group).offsets
    pipe = client_at(key).pipeline()
    pipe.hmget(key, [f"{stream}:{number}" for number in range(partitions)])
    return _Seen.of(pipe.info("server").info("replication").execute())


def _keep(group: str, stream: str, seen: _Seen) -> None:
    if len(_seen) >= GROUPS_MAX:
        _seen.clear()
    _seen[group, stream] = seen


def _replicas(replication: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rows = (replication.get(f"slave{n}") for n in range(int(replication["connected_slaves"])))
    return [row for row in rows if row]
