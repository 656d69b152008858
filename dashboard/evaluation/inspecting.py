"""One Redis server named by its URL, whatever the settings say: for checks, which strike servers
and compare them. Reads keys as they lie there; changes nothing but who replicates whom.
"""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa

from assignment.scripts.lock_events import LockEvent, read_event
from assignment.servers import is_cluster
from assignment.types import START, HeldState, Offset, Partition
from assignment.wire import (
    ChangelogEntry,
    GroupKeys,
    StreamKeys,
    parse_changelog,
    parse_held,
    parse_lock,
    parse_target,
)
from dashboard.evaluation.judge import Appended, Content
from dashboard.live.connection import client_of, reaching_redis, sync_client

ENTRIES_AT_ONCE = 1_000
FIRST_ENTRY = "0-0"
ID = "id"  # column of the flights' events
Entry = tuple[str, dict[bytes, bytes]]  # id, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """`locks`: partition -> member and fence; `target`: partition -> who should have it;
    `running`: those that their holder says it runs; `commits`: id of the last commit, "" if none.
    """

    locks: dict[Partition, tuple[str, int]]
    target: dict[Partition, str]
    running: frozenset[Partition]
    commits: dict[Partition, str]
    epochs: tuple[int, int]  # of the group, of the target


class Server:
    """Every method may raise StoreUnavailable."""

    def __init__(self, url: str, group: str, stream: str, partitions: int) -> None:
        self.address = urlsplit(url)
        self.keys, self.stream = GroupKeys(group), StreamKeys(stream)
        self.partitions = [Partition(stream, number) for number in range(partitions)]
        self.client = sync_client() if is_cluster(url) else client_of(url)  # of the settings, that

    def close(self) -> None:
        self.client.close()

    # --- who owns what

    def ownership(self) -> Ownership:
        keys = self.keys
        with reaching_redis():
            values = self.client.mget([keys.lock(p) for p in self.partitions])
            locks = {
                p: parse_lock(value.decode())
                for p, value in zip(self.partitions, values, strict=True)
                if value
            }
            members = sorted({member for member, _ in locks.values()})
            with self.client.pipeline(transaction=False) as pipe:
                pipe.hgetall(keys.target)
                pipe.hmget(keys.meta, "group_epoch", "target_epoch")
                for member in members:
                    pipe.hgetall(keys.owned(member))
                for partition in self.partitions:
                    pipe.xrevrange(keys.changelog(partition), count=1)
                target, epochs, *rest = pipe.execute()
        owned, last = rest[: len(members)], rest[len(members) :]
        group_epoch, target_epoch = (int(epoch or 0) for epoch in epochs)
        return Ownership(
            locks=locks,
            target={p: m.decode() for m, t in target.items() for p in parse_target(t).active},
            running=frozenset(
                partition
                for member, held in zip(members, owned, strict=True)
                for partition in _running(held, member, locks)
            ),
            commits={
                p: entries[0][0].decode() if entries else ""
                for p, entries in zip(self.partitions, last, strict=True)
            },
            epochs=(group_epoch, target_epoch),
        )

    def fences(self) -> dict[Partition, int]:
        """The last fence that was granted of each."""
        with reaching_redis():
            grants = self.client.hgetall(self.keys.grants)
        return {Partition.parse(p.decode()): int(g.split(b" ")[0]) for p, g in grants.items()}

    # --- what was appended, committed, and happened at the locks

    def content(self) -> Content:
        """Everything; commits first, so that the streams hold whatever they are of."""
        commits = {p: list(self.changelog(p)) for p in self.partitions}
        return Content(
            stream={p: list(self.appended(p)) for p in self.partitions},
            commits=commits,
            offsets=self.committed(),
            events=self.lock_events(),
        )

    def appended(self, partition: Partition) -> Iterator[Appended]:
        for entry_id, fields in self._all_of(self.stream.entries(partition.number)):
            yield Appended(Offset.parse(entry_id), ids_of(fields))

    def changelog(self, partition: Partition) -> Iterator[ChangelogEntry]:
        for entry_id, fields in self._all_of(self.keys.changelog(partition)):
            yield parse_changelog(entry_id, fields)

    def lock_events(self) -> list[LockEvent]:
        return [read_event(*entry) for entry in self._all_of(self.keys.events)]

    def _all_of(self, key: str) -> Iterator[Entry]:
        """Entries of a stream from the first one on."""
        after = FIRST_ENTRY
        while True:
            with reaching_redis():
                found = self.client.xrange(key, min=f"({after}", count=ENTRIES_AT_ONCE)
            for entry_id, fields in found:
                after = entry_id.decode()
                yield after, fields
            if len(found) < ENTRIES_AT_ONCE:
                return

    def refused(self) -> dict[tuple[str, int], int]:
        """(partition, fence) -> how many of its commits were refused."""
        with reaching_redis():
            counts = self.client.hgetall(self.keys.refused)
        found = {}
        for name, count in counts.items():
            partition, _, fence = name.decode().rpartition(" ")
            found[(partition, int(fence))] = int(count)
        return found

    def ends(self) -> dict[Partition, Offset]:
        """Where each partition of the stream ends now; without those that are empty."""
        with reaching_redis(), self.client.pipeline(transaction=False) as pipe:
            for partition in self.partitions:
                pipe.xrevrange(self.stream.entries(partition.number), count=1)
            entries = pipe.execute()
        return {
            p: Offset.parse(last[0][0].decode())
            for p, last in zip(self.partitions, entries, strict=True)
            if last
        }

    def committed(self) -> dict[Partition, Offset]:
        with reaching_redis():
            offsets = self.client.hgetall(self.keys.offsets)
        return {Partition.parse(p.decode()): Offset.parse(o.decode()) for p, o in offsets.items()}

    def has_committed(self, ends: Mapping[Partition, Offset]) -> bool:
        """Whether every partition has, that far."""
        committed = self.committed()
        return all(committed.get(p, START) >= end for p, end in ends.items())

    # --- replication

    def follow(self, port: int, password: str | None) -> None:
        """Replicates from the server at that port from now on; blocks writes."""
        with reaching_redis():
            self.client.config_set("masterauth", password or "")
            self.client.replicaof("127.0.0.1", port)

    def promote(self) -> None:
        with reaching_redis():
            self.client.replicaof("NO", "ONE")

    def is_synced(self) -> bool:
        """Whether it is a replica that has all that its primary had a moment ago."""
        with reaching_redis():
            state = self.client.info("replication")
        return state.get("master_link_status") == "up" and not state.get("master_sync_in_progress")

    def writes(self) -> int:
        """Since its last full image; what counts are differences between two looks."""
        with reaching_redis():
            return int(self.client.info("persistence")["rdb_changes_since_last_save"])

    def run_ahead(self, ms: int) -> None:
        """Ids of streams, changelogs and lock events as if written by a clock so far ahead."""
        keys = [self.stream.entries(p.number) for p in self.partitions]
        keys += [self.keys.changelog(p) for p in self.partitions]
        with reaching_redis():
            seconds, _ = self.client.time()
            for key in filter(self.client.exists, [*keys, self.keys.events]):
                self.client.execute_command("XSETID", key, f"{seconds * 1_000 + ms}-0")


def _running(
    held: dict[bytes, bytes], member: str, locks: dict[Partition, tuple[str, int]]
) -> Sequence[Partition]:
    parsed = {Partition.parse(p.decode()): parse_held(value.decode()) for p, value in held.items()}
    return [
        p
        for p, one in parsed.items()
        if one.state is HeldState.RUNNING and locks.get(p) == (member, one.fence)
    ]


def ids_of(fields: Mapping[bytes, bytes]) -> tuple[int, ...]:
    """Ids of the events in an entry of any form; a malformed one has none."""
    try:
        if b"arrow" in fields:
            with pa.ipc.open_stream(io.BytesIO(fields[b"arrow"])) as table:
                return tuple(table.read_all().column(ID).to_pylist())
        if b"lines" in fields:
            return tuple(int(json.loads(line)[ID]) for line in fields[b"lines"].splitlines())
        event = json.loads(fields[b"json"]) if b"json" in fields else {ID: fields[ID.encode()]}
        return (int(event[ID]),)
    except (pa.ArrowException, KeyError, TypeError, ValueError):
        return ()


def acknowledged(path: Path) -> list[int]:
    """Ids of the events that the producer was told are stored, one a line."""
    return [int(line) for line in path.read_text().splitlines()]
