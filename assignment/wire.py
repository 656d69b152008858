"""Message forms and, from keys.py, key names: the contract of agent and dashboard (coordination.md
section 1).

Pure: makes and reads texts and bytes; sends nothing. Message classes are dataclasses and Structs,
whose types say all that msgspec checks where they are read, bounds included.
"""

import json
import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from assignment import bounds, columns
from assignment.bounds import Capacity, Int64, Line, Name, Pid, Rate, Values, Whole, Words
from assignment.errors import InvalidInput
from assignment.keys import GroupKeys as GroupKeys  # noqa: PLC0414
from assignment.keys import StreamKeys as StreamKeys  # noqa: PLC0414
from assignment.names import NUMBER_PATTERN
from assignment.troubles import Unserved
from assignment.types import (
    Epoch,
    Grant,
    GroupSettings,
    Held,
    HeldState,
    Offset,
    Partition,
    ReplicaReport,
    TargetRow,
    read_as,
    speaker_of,
)

NO_PARTITIONS: frozenset[Partition] = frozenset()
SETTINGS_KEPT = 5_000  # texts, of as many groups that are read again and again
CHANGES_MAX = 100  # after so many changes a new complete report is sent (coordination.md section 3)
HELD_STATES = frozenset(HeldState)
TARGET_ROLES = ("active", "standby", "learning")
API_PREFIX = "/api/agent/v1"  # POST {API_PREFIX}/{group}/join | heartbeat | leave, bearer token
GROUP_INDEX = "ek:groups"  # names of groups that their agents made: for dashboards


# --- settings, targets, grants -------------------------------------------------------------------


def settings_text(settings: GroupSettings) -> str:
    return json.dumps(settings.values(), sort_keys=True, separators=(",", ":"))


@lru_cache(SETTINGS_KEPT)
def parse_settings(text: str) -> GroupSettings:
    """An older agent reads a newer dashboard's settings."""
    return read_as(GroupSettings, json.loads(text))


def target_text(row: TargetRow) -> str:
    numbers = {"target_epoch": row.target_epoch, "incarnation": row.incarnation}
    partitions = {name: sorted_texts(getattr(row, name)) for name in TARGET_ROLES}
    return json.dumps({**numbers, **partitions}, separators=(",", ":"))


def parse_target(text: str) -> TargetRow:
    return read_target(json.loads(text))


def read_target(values: Mapping[str, Any]) -> TargetRow:
    return TargetRow(
        target_epoch=int(values["target_epoch"]),
        incarnation=int(values.get("incarnation", 0)),
        **{name: partitions_of(values[name]) for name in TARGET_ROLES},
    )


def parse_grant(text: str) -> Grant:
    fence, member_id, until_ms, ended = text.split(" ")
    number, end_ms = bounds.whole_of(fence), bounds.moment_of(until_ms)
    how = None if ended == "-" else ended
    return Grant(fence=number, member_id=member_id, until_ms=end_ms, ended=how)


def parse_held(text: str) -> Held:
    """Raises InvalidInput when it is not `fence state`."""
    fence, _, state = text.partition(" ")
    if not NUMBER_PATTERN.fullmatch(fence) or state not in HELD_STATES:
        raise InvalidInput(f"held {bounds.shown(text)} is not of the form 'fence state'")
    return Held(fence=bounds.whole_of(fence), state=HeldState(state))


def parse_lock(text: str) -> tuple[str, int]:
    """(member id, fence) of a lock's value `member/fence`."""
    member_id, _, fence = text.rpartition("/")
    return member_id, bounds.whole_of(fence)


def sorted_texts(partitions: Iterable[Partition]) -> list[str]:
    return columns.Places.of(partitions).sorted_texts()


def partitions_of(texts: Iterable[str]) -> frozenset[Partition]:
    listed = list(texts)
    return frozenset(columns.Places.parse(listed)) if listed else NO_PARTITIONS  # mostly


# --- agent <-> dashboard, JSON over HTTP ----------------------------------------------------------
# Fences travel as decimal text: some JSON readers keep only 53 bits, Lua's writer only 14 digits.


class _Sparse(msgspec.Struct, frozen=True, omit_defaults=True):
    """Said all the time, of which most is as usual: that is left out, and read as its default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """What a process says of itself when it joins; a member's row keeps it."""

    host: Line = ""
    version: Line = ""
    instance: Name = ""
    zone: Line = ""
    capacity: Capacity = 1.0
    pid: Pid = 0
    incarnation: Int64 = 0  # the highest that this process ever saw


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(Introduction):
    member: Line
    secret: Line  # random, made once per process
    seen: Line = ""  # of another process under its instance name, from the reply before


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    member: Line
    secret: Line
    stops: bool = False  # only this process: its instance is expected back


class ConsumerHealth(_Sparse, frozen=True, kw_only=True):
    """What a consumer says of itself: hash `progress:<member>`, and `consumer` of a heartbeat."""

    state: Name = "starting"  # starting, ready, stalled, dead
    why: Words = ""  # for people
    spark_application_id: Line = ""
    batch: bounds.OfPlan = -1  # last finished plan
    batch_at_ms: bounds.Moment = 0  # wall clock of its end
    batch_ms: Whole = 0
    rows: Whole = 0
    rows_per_second: Rate = 0.0
    refused_commits: Whole = 0
    dead_letters: Whole = 0
    halted: tuple[Values, ...] = ()  # see troubles.Halted; at most TROUBLES_MAX
    failing: tuple[Values, ...] = ()  # see troubles.Failing; at most TROUBLES_MAX
    effects: Line = ""  # where they live: EffectsIn (scripts/offsets.py); "": not said


class SeenEpochs(_Sparse, frozen=True, kw_only=True):
    """In every report: what a member's process has heard of, 0 where it has not."""

    incarnation: Int64 = 0  # the highest that it ever saw
    mode_epoch: Int64 = 0  # under that incarnation, as settings_epoch
    settings_epoch: Int64 = 0
    target_incarnation: Int64 = 0  # of the target that its agent has, as target_epoch
    target_epoch: Int64 = 0

    @property
    def target(self) -> Epoch:
        return Epoch(self.target_incarnation, self.target_epoch)


class Heartbeat(SeenEpochs, frozen=True, kw_only=True):
    """`owned` is complete (partition -> "fence state") or, with complete False, all changes since
    the complete report of that number (None = no longer held). All else is always complete.
    """

    member: Line
    secret: Line
    sequence: Int64  # grows with every heartbeat of the process
    report: Int64  # number of the last complete report
    complete: bool
    owned: Mapping[Name, Name | None] = msgspec.field(default_factory=dict)
    able: bool = False
    unable: Line = ""  # types.UnableReason, "" = able
    leaving: bool = False
    consumer: ConsumerHealth = msgspec.field(default_factory=ConsumerHealth)
    replicas: Mapping[Name, ReplicaReport] = msgspec.field(default_factory=dict)  # by partition
    ready: tuple[Name, ...] = ()  # learners for which this member calls for a rebalance
    unserved: Mapping[Name, Unserved] = msgspec.field(default_factory=dict)  # by partition


class Status(StrEnum):
    OK = "ok"
    FENCED = "fenced"  # no such member under that secret, nothing was touched: join anew
    LATE = "late"  # a newer heartbeat was here: ignore this reply
    WAIT = "wait"  # another process may live under this instance name: join again after wait_ms


class Reply(_Sparse, frozen=True, kw_only=True):
    """To join and heartbeat. `target` comes only when the agent has another one: absent = keep."""

    status: Status
    incarnation: int = 0
    mode_epoch: int = 0
    group_epoch: int = 0
    target_epoch: int = 0
    settings_epoch: int = 0
    target: Any = None  # as target_text has it, and so passed on as it is stored
    settings: GroupSettings | None = None
    want_complete: bool = False
    drain: str = ""  # types.Drain; of a heartbeat only, a join says nothing of it
    identity: str = ""  # of the group in the dashboard's Redis: the agent's own must have the same
    seen: str = ""  # with WAIT: to be said in the next join
    host: str = ""  # with WAIT: where the other process runs
    wait_ms: int = 0


# --- changelog ---

Changes = Mapping[str, Any]  # key -> new JSON value; None = deleted


def pack_changes(changes: Changes) -> bytes:
    """Fast zlib over JSON: a whole batch of one partition is one field of one changelog entry."""
    if not changes:
        return b""
    return zlib.compress(json.dumps(changes, separators=(",", ":"), allow_nan=False).encode(), 1)


def unpack_changes(packed: bytes) -> dict[str, Any]:
    if not packed:
        return {}
    changes = json.loads(zlib.decompress(packed))
    if not isinstance(changes, dict):
        raise InvalidInput(f"packed changes hold a {type(changes).__name__}, not an object")
    return changes


def pack_ids(ids: Iterable[int]) -> bytes:
    """Event ids of a commit, 64-bit little endian, for check runs that count effects by event."""
    values = array("q", ids)
    return zlib.compress(values.tobytes(), 1) if values else b""


def unpack_ids(packed: bytes) -> list[int]:
    return array("q", zlib.decompress(packed)).tolist() if packed else []


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogEntry:
    """One commit: effects of events in (from_offset, to_offset]; `total` = all applied so far."""

    entry_id: str
    from_offset: Offset
    to_offset: Offset
    fence: int
    total: int
    events: int
    changes: bytes
    ids: bytes


class ChangelogPage(NamedTuple):
    """Entries after the id asked for, oldest first, and the committed offset of the same moment.

    `total`: events applied in total up to there; -1: not known.
    """

    entries: Sequence[ChangelogEntry]
    committed: Offset
    total: int = -1


def parse_changelog(entry_id: str, fields: Mapping[bytes, bytes]) -> ChangelogEntry:
    return ChangelogEntry(
        entry_id=entry_id,
        from_offset=Offset.parse(fields[b"from"].decode()),
        to_offset=Offset.parse(fields[b"to"].decode()),
        fence=int(fields[b"fence"]),
        total=int(fields[b"total"]),
        events=int(fields[b"events"]),
        changes=fields[b"changes"],
        ids=fields[b"ids"],
    )


MANIFEST = "newest.json"  # beside a partition's snapshots: the records of the newest two


# --- agent <-> its consumer, JSON lines over a Unix socket ---
# The consumer connects to the path in EVENKEEL_AGENT_SOCKET and says {"pid": n,
# "spark_application_id": "..."}; the agent answers with ControlMessage, then sends
# {"lease_end_ms": n} (CLOCK_MONOTONIC of this machine) after every renew. A closed socket means
# that the agent is gone.
SOCKET_VARIABLE = "EVENKEEL_AGENT_SOCKET"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlMessage:
    """What a consumer needs to know.

    `lease_end_ms` is when it must have stopped, monotonic (80 % of the lease).
    """

    group: str
    member: str
    process: str = ""  # of its agent, under an instance name
    redis_url: str  # as RedisDoor takes it: with a login, or the file that holds it
    state_dir: str  # one LMDB file per partition
    snapshot_url: str  # folder or fsspec URL
    settings: GroupSettings
    lease_end_ms: int

    @property
    def speaker(self) -> str:
        return speaker_of(self.member, self.process)
