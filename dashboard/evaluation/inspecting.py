"""One Redis server named by its URL, whatever the settings say: for checks, which strike servers
and compare them. Reads keys as they lie there; changes nothing but who replicates whom.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from assignment.scripts.dashboard_side import LockEvent, read_event
from assignment.types import HeldState, Offset, Partition
from assignment.wire import (
    ChangelogEntry,
    GroupKeys,
    StreamKeys,
    parse_changelog,
    parse_held,
    parse_lock,
    parse_target,
)
from dashboard.evaluation.changelogs import Entry, all_of
from dashboard.live.connection import client_of, reaching_redis


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
        self.client = client_of(url)

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

    def appended(self, partition: Partition) -> Iterator[Entry]:
        return all_of(self.stream.entries(partition.number), self.client)

    def changelog(self, partition: Partition) -> Iterator[ChangelogEntry]:
        for entry_id, fields in all_of(self.keys.changelog(partition), self.client):
            yield parse_changelog(entry_id, fields)

    def lock_events(self) -> list[LockEvent]:
        return [read_event(*entry) for entry in all_of(self.keys.events, self.client)]

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
