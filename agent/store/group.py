"""A group in Redis as agents and consumers use it: locks, fenced commits, targets, changelogs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from msgspec.structs import asdict

from agent.state.places import is_below
from agent.store.cluster import door_to
from agent.store.door import Door, ScriptCall, Timeouts, pairs
from assignment import wire
from assignment.bounds import LINE_MAX, WHY_MAX, shortened
from assignment.pauses import WHOLE_GROUP
from assignment.scripts import agent_side, group_read
from assignment.scripts.group_read import Meta
from assignment.scripts.values import Call, parts
from assignment.types import (
    START,
    Drain,
    GroupSettings,
    Held,
    Offset,
    Partition,
    TargetRow,
    read_as,
)

T = TypeVar("T")
HINTS_MAX = 1_000  # a stream of them keeps about as many


@dataclass(frozen=True, slots=True)
class MemberTarget:
    """What Redis says at one moment. `row` None: no target was written for this member.

    `drain` None: it is no member. `members`: how many the group has.
    """

    meta: Meta
    row: TargetRow | None
    drain: Drain | None = Drain.NONE
    members: int = 0


@dataclass(frozen=True, slots=True)
class Hints:
    """Why something changed, of one reading."""

    after: Mapping[str, str]  # where to go on, in each stream
    reasons: frozenset[str]
    members: int = 0  # who were told the same; 0: this one alone


class GroupStore:
    """Every method raises StoreUnavailable (ask again) and InvariantBroken (a bug); no exception of
    the client leaves it.

    Any script of a group may be `run`. A write whose reply was lost may be asked again with the
    same arguments: acquire, renew and commit answer as before; release, set_state and snapshot
    answer "not done": read what is.
    """

    def __init__(self, door: Door, group: str, *, snapshots_below: str = "") -> None:
        """`snapshots_below`: the folder or URL outside of which no snapshot is opened."""
        self.door = door
        self._snapshots_below = snapshots_below
        self.group = group
        self.keys = wire.GroupKeys(group)

    @classmethod
    def connect(
        cls, url: str, group: str, timeouts: Timeouts | None = None, *, snapshots_below: str = ""
    ) -> Self:
        """Raises InvalidInput: not a URL of Redis. Connects with the first call."""
        return cls(door_to(url, timeouts), group, snapshots_below=snapshots_below)

    def close(self) -> None:
        self.door.close()

    def meta(self) -> group_read.Meta:
        return group_read.read_meta(self.door.ask("HGETALL", self.keys.meta))

    def now_ms(self) -> int:
        """By the clock of Redis, where the group is."""
        (seconds, microseconds), _ = self.door.ask_together((("TIME",), ("EXISTS", self.keys.meta)))
        return int(seconds) * 1000 + int(microseconds) // 1000

    def note_group(self) -> None:
        """For dashboards that are started later."""
        self.door.ask("SADD", wire.GROUP_INDEX, self.group)

    def note_reader(self, settings: GroupSettings) -> None:
        """Of its stream, which is made if it was not there; trimming asks for it."""
        keys = wire.StreamKeys(settings.stream)
        self.door.ask("HSETNX", keys.meta, "partitions", str(settings.partitions))
        if self.stream_partitions(settings.stream) == settings.partitions:
            self.door.ask("SADD", keys.groups, self.group)

    def stream_partitions(self, stream: str) -> int:
        """0: the stream is not there."""
        return int(self.door.ask("HGET", wire.StreamKeys(stream).meta, "partitions") or 0)

    # --- locks ------------------------------------------------------------------------------------

    def acquire(
        self,
        speaker: str,
        ttl_ms: int,
        mode_epoch: int,
        incarnation: int,
        partitions: Sequence[Partition],
    ) -> agent_side.AcquireAnswer:
        """One answer per partition, in their order; fewer when a refusal came between.

        Raises Fenced.
        """
        answers: list[agent_side.PartitionAnswer] = []
        for some in parts(partitions):
            call = agent_side.acquire(speaker, ttl_ms, mode_epoch, incarnation, some)
            answer = self.run(call)
            if isinstance(answer, agent_side.Refusal):
                return tuple(answers) or answer
            answers += answer
        return tuple(answers)

    def owned(self, member_id: str) -> dict[Partition, Held]:
        """What Redis keeps as held by this member; a lock that ran out stays in it until swept."""
        flat = self.door.ask("HGETALL", self.keys.owned(member_id))
        return {Partition.parse(p.decode()): wire.parse_held(v.decode()) for p, v in pairs(flat)}

    def target(self, member_id: str) -> MemberTarget:
        """The group's epochs and settings with this member's row, as read at one moment."""
        meta, row, member, members = self.door.ask_together(
            (
                ("HGETALL", self.keys.meta),
                ("HGET", self.keys.target, member_id),
                ("HGET", self.keys.members, member_id),
                ("HLEN", self.keys.members),
            )
        )
        return MemberTarget(
            group_read.read_meta(meta),
            wire.parse_target(row.decode()) if row else None,
            group_read.read_member(member_id, member).drain if member else None,
            int(members),
        )

    # --- batches ----------------------------------------------------------------------------------

    def commit_many(
        self, requests: Sequence[agent_side.CommitRequest]
    ) -> tuple[agent_side.CommitAnswer, ...]:
        """In one trip. Each stands for itself: one that is fenced does not hinder the others."""
        calls = [agent_side.commit(request) for request in requests]
        answers = self.door.run_many([self._on_group(call) for call in calls])
        return tuple(call.read(raw) for call, raw in zip(calls, answers, strict=True))

    def committed(self, partitions: Sequence[Partition]) -> dict[Partition, Offset]:
        """START where nothing was committed yet."""
        if not partitions:
            return {}
        values = self.door.ask("HMGET", self.keys.offsets, *map(str, partitions))
        return {
            p: Offset.parse(v.decode()) if v else START
            for p, v in zip(partitions, values, strict=True)
        }

    def committed_of_unpaused(self, partitions: Sequence[Partition]) -> dict[Partition, Offset]:
        """Without those that a person paused, individually or with the whole group."""
        if not partitions:
            return {}
        names = tuple(map(str, partitions))
        offsets, (group, *pauses) = self.door.ask_together(
            (
                ("HMGET", self.keys.offsets, *names),
                ("HMGET", self.keys.pauses, WHOLE_GROUP, *names),
            )
        )
        return {
            p: Offset.parse(offset.decode()) if offset else START
            for p, offset, pause in zip(partitions, offsets, pauses, strict=True)
            if not (group or pause)
        }

    def write_progress(self, speaker: str, health: wire.ConsumerHealth) -> bool:
        """False: it is no member (any more); nothing was written."""
        values = ((name, _health_text(value)) for name, value in asdict(health).items())
        return self.run(agent_side.progress(speaker, values)) == 1

    def progress(self, member_id: str) -> wire.ConsumerHealth | None:
        """None: its consumer said nothing yet."""
        flat = self.door.ask("HGETALL", self.keys.progress(member_id))
        return _health({name.decode(): value.decode() for name, value in pairs(flat)})

    # --- state ------------------------------------------------------------------------------------

    def last_fence(self, partition: Partition) -> int:
        """Of the last grant; 0: none yet. Whoever has another one owns it no more."""
        grant = self.door.ask("HGET", self.keys.grants, str(partition))
        return wire.parse_grant(grant.decode()).fence if grant else 0

    def read_changelog(self, partition: Partition, after: str, count: int) -> wire.ChangelogPage:
        """At most `count` entries after that id, and the committed offset of the same moment."""
        entries, committed, applied = self.door.ask_together(
            (
                ("XRANGE", self.keys.changelog(partition), f"({after}", "+", "COUNT", count),
                ("HGET", self.keys.offsets, str(partition)),
                ("HGET", self.keys.applied, str(partition)),
            )
        )
        return wire.ChangelogPage(
            tuple(wire.parse_changelog(i.decode(), dict(pairs(f))) for i, f in entries),
            Offset.parse(committed.decode()) if committed else START,
            int(applied.split(b" ")[0]) if applied else -1,
        )

    def wait_changelogs(self, after: Mapping[Partition, str], timeout_ms: int) -> set[Partition]:
        """Those of the partitions whose changelog has an entry after that id, as soon as one has.

        None when none came in time. All in one call, so in one slot, as a group's keys are.
        """
        keys = {self.keys.changelog(partition): partition for partition in after}
        streams = {key: after[partition] for key, partition in keys.items()}
        return {keys[name] for name in self.door.wait_any(streams, timeout_ms)}

    def read_snapshots(self, partition: Partition) -> tuple[agent_side.SnapshotRecord, ...]:
        """The newest first, at most two; whoever is in the group can write what is recorded."""
        return agent_side.read_snapshots(self.door.ask("HGET", self.keys.snapshots, str(partition)))

    def is_own_snapshot(self, partition: Partition, record: agent_side.SnapshotRecord) -> bool:
        below = self._snapshots_below
        return not below or is_below(record.url, below, self.group, partition)

    # --- hints ------------------------------------------------------------------------------------

    def last_hints(self, *streams: str) -> dict[str, str]:
        """Where each of these streams ends: of hints to one member, to all, or of all changes."""
        asked = [("XREVRANGE", stream, "+", "-", "COUNT", 1) for stream in streams]
        ends = self.door.ask_together(asked)
        return {
            stream: entries[0][0].decode() if entries else "0-0"
            for stream, entries in zip(streams, ends, strict=True)
        }

    def wait_hints(self, after: Mapping[str, str], timeout_ms: int) -> Hints:
        """Waits for hints after those ids; none when none came in time."""
        found = self.door.wait(after, timeout_ms, HINTS_MAX)
        heard = {stream.decode(): entries for stream, entries in found}
        ends = {stream: entries[-1][0].decode() for stream, entries in heard.items()}
        hints = [dict(pairs(f)) for entries in heard.values() for _, f in entries]
        reasons = frozenset(hint[b"reason"].decode() for hint in hints)
        told = max((int(hint.get(b"members", 0)) for hint in hints), default=0)
        return Hints({**after, **ends}, reasons, told)

    def run(self, call: Call[T]) -> T:
        return call.read(self.door.run(self._on_group(call)))

    def _on_group(self, call: Call[Any]) -> ScriptCall:
        return ScriptCall(call.script, self.keys.of_script, call.args)


def _health(values: Mapping[str, str]) -> wire.ConsumerHealth | None:
    if not values:
        return None
    lists = {name: json.loads(values[name]) for name in ("halted", "failing") if name in values}
    texts = {
        name: shortened(values[name], most)
        for name, most in (("why", WHY_MAX), ("spark_application_id", LINE_MAX))
        if name in values
    }
    return read_as(wire.ConsumerHealth, {**values, **texts, **lists}, from_texts=True)


def _health_text(value: Any) -> str | int | float:
    return value if isinstance(value, str | int | float) else json.dumps(value)
