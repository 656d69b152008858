"""A group's shared state, for coordinator and commands: a sync function per key; scripts by `run`.

All raise StoreUnavailable when Redis cannot be asked.
"""

import logging
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import redis

from assignment.bounds import moment_of, whole_of
from assignment.coordinator.facts import Hint, Lifted
from assignment.coordinator.reading import ticked
from assignment.coordinator.trimming import Kept
from assignment.errors import Damaged
from assignment.plausible import Counted, reached
from assignment.scripts.group_read import (
    NO_TICK,
    GroupRead,
    Purpose,
    Ticker,
    beat_of,
    read_group,
    read_member,
    read_meta,
)
from assignment.scripts.held import Grants, Locks
from assignment.scripts.large_group import Large, read_unless_large
from assignment.scripts.lock_events import LockEvent, check_event, read_event
from assignment.scripts.rows import UNREADABLE, each
from assignment.scripts.values import pairs_of
from assignment.types import START, GroupSettings, Offset, Partition, Reason
from assignment.wire import GROUP_INDEX, GroupKeys, StreamKeys, parse_settings
from dashboard.live.connection import (
    UNPARSED,
    GroupDamaged,
    client_at,
    clients,
    ms_of,
    own_key,
    sync_client,
)
from dashboard.live.queue import last_ticker
from dashboard.live.scripts import run, run_beside, run_each, script, try_each
from dashboard.live.together import Question, pack, way_to

EVENTS_AT_ONCE = 5_000
HINTS_AT_ONCE = 1_000  # as many as `control` keeps
OUTBOX_AT_ONCE = 20  # a record of a large group has a megabyte
ASKED_MAX = 10  # one that is awaited is enough
FIRST_ENTRY = "0-0"
BAD_PAGES_MAX = 10  # of events, after which the next run goes on
NOTED_FOR_S = 10.0  # a Redis that forgets, and at once a database that goes away: as good as never
log = logging.getLogger(__name__)


_noted: dict[str, tuple[float, dict[str, int]]] = {}  # by key: when, and which


class OutboxEntry(NamedTuple):
    entry_id: str
    incarnation: str
    target_epoch: str
    record: str


def read(group: str, purpose: Purpose, ticker: Ticker = NO_TICK) -> GroupRead:
    """`ticker`: of the tick that reads. Raises GroupDamaged."""
    try:
        found = _read(group, purpose, ticker)
        return replace(found, meta=ticked(found.meta, ticker if ticker.seen_ms else last_ticker()))
    except (Damaged, redis.ResponseError) as error:  # keys of another kind, or what cannot be read
        raise GroupDamaged(group, error) from error


def _read(group: str, purpose: Purpose, ticker: Ticker) -> GroupRead:
    found = run(read_unless_large(purpose, ticker), group)
    if not isinstance(found, Large):
        return found
    answers = run_beside(found.call, group, found.commands(group))
    return found.read(answers) or run(read_group(purpose, ticker), group)


def some_asked(group: str) -> GroupRead | None:
    """Of a few members that owe a complete report, and of nobody else; None: there are none, or
    what there is cannot be read.
    """
    keys, pipe = GroupKeys(group), sync_client().pipeline()
    pipe.time().hgetall(keys.meta).hrandfield(keys.asked, ASKED_MAX, withvalues=True)
    try:
        now, meta, asked = pipe.execute()
        if not asked:
            return None
        since = {member: moment_of(at_ms) for member, at_ms in pairs_of(asked)}
        pipe = sync_client().pipeline().hmget(keys.members, [*since]).zmscore(keys.beats, [*since])
        rows, scores = (dict(zip(since, found, strict=True)) for found in pipe.execute())
        nothing: dict[Any, Any] = {}
        return GroupRead(
            now_ms=ms_of(*now),
            run_id="",
            meta=read_meta(meta),
            members={member: read_member(member, raw) for member, raw in rows.items() if raw},
            beats={member: beat_of(score) for member, score in scores.items() if score},
            asked=since,
            reports=nothing,
            target=nothing,
            grants=Grants.of(nothing),
            locks=Locks.of(nothing),
            offsets=nothing,
            applied=nothing,
            snapshots=nothing,
        )
    except (redis.ResponseError, *UNREADABLE):  # whoever reads all says what is damaged
        return None


def redis_now_ms(group: str = "") -> int:
    """By the clock of the server that has the group; "": that has what is the dashboard's own."""
    key = GroupKeys(group).meta if group else own_key("ticker")
    return ms_of(*client_at(key).time())


def stored_settings(group: str) -> tuple[GroupSettings | None, int]:
    """With their epoch."""
    text, epoch = sync_client().hmget(GroupKeys(group).meta, "settings", "settings_epoch")
    return None if text is None else parse_settings(text.decode()), int(epoch or 0)


def founded() -> list[str]:
    """Groups that their agents made, whether or not a dashboard has them."""
    return sorted(name.decode() for name in sync_client().smembers(GROUP_INDEX))


def note_flapping(group: str, found: str) -> None:
    """`found`: who or what goes back and forth; "": nothing does."""
    key, client = GroupKeys(group).meta, sync_client()
    if found and client.exists(key):
        client.hset(key, "flapping", found)
    elif not found:
        client.hdel(key, "flapping")


class Founded(NamedTuple):
    name: str
    settings: GroupSettings
    members: int


def look_at(groups: Sequence[str]) -> list[Founded]:
    """Those of them that Redis still has, in their order; one round trip for all."""
    pipe = sync_client().pipeline(transaction=False)
    for name in groups:
        keys = GroupKeys(name)
        pipe.hget(keys.meta, "settings")
        pipe.hlen(keys.members)
    answers = pipe.execute()
    texts = zip(groups, answers[::2], answers[1::2], strict=True)
    return [
        Founded(name, parse_settings(text.decode()), members)
        for name, text, members in texts
        if text is not None
    ]


# --- what happened --------------------------------------------------------------------------------


def events_after(group: str, cursor: str, count: int = EVENTS_AT_ONCE) -> list[LockEvent]:
    """At most `count` events of the locks after the entry `cursor`, in order."""
    key = GroupKeys(group).events
    for _ in range(BAD_PAGES_MAX):
        pipe = sync_client().pipeline()
        pipe.execute_command("XRANGE", key, f"({cursor}", "+", "COUNT", count, **UNPARSED)
        entries, *numbers = _ask_counted(pipe, group).execute()
        stored = {entry_id.decode(): fields for entry_id, fields in entries}
        found, bad = each(stored.items(), partial(_event, _counted(*numbers)))
        if bad:  # no script wrote them
            sync_client().xdel(key, *bad)
            why = next(iter(bad.values()))
            log.error("group=%s: %d events cannot be read: %s", group, len(bad), why)
        if found or not bad:
            return list(found.values())
    return []


def has_events_after(group: str, cursor: str) -> bool:
    return bool(sync_client().xrange(GroupKeys(group).events, min=f"({cursor}", count=1))


def _event(so_far: Counted, entry_id: str, fields: Sequence[bytes]) -> LockEvent:
    return check_event(read_event(entry_id, fields), so_far)


def counted(group: str) -> Counted:
    return counted_and_lost(group)[0]


def counted_and_lost(group: str) -> tuple[Counted, int]:
    """With how many records the outbox had no room for, and no history says so yet."""
    pipe = _ask_counted(sync_client().pipeline(), group)
    numbers, now, lost = pipe.hget(GroupKeys(group).meta, "records_lost").execute()
    return _counted(numbers, now), int(lost or 0)


def _ask_counted(pipe: Any, group: str) -> Any:
    """Behind what it is to be compared with."""
    return pipe.hmget(GroupKeys(group).meta, *Counted._fields[1:]).time()


def _counted(numbers: Iterable[bytes | None], now: Sequence[int]) -> Counted:
    return Counted(ms_of(*now), *(whole_of(number or 0) for number in numbers))


def trim_events(group: str, stored: str, kept: int) -> None:
    """Above `kept` it forgets those below the entry `stored`, which the history holds."""
    key = GroupKeys(group).events
    if sync_client().xlen(key) > kept:
        sync_client().xtrim(key, minid=stored, approximate=True)


def hints(group: str) -> list[Hint]:
    """The newest hints that `control` keeps, oldest first."""
    pipe = sync_client().pipeline()
    entries, now = pipe.xrevrange(GroupKeys(group).control, count=HINTS_AT_ONCE).time().execute()
    now_ms = ms_of(*now)
    stored = {entry_id.decode(): fields for entry_id, fields in reversed(entries)}
    found, _ = each(stored.items(), _hint)  # others are of another version, or of no script
    return [replace(hint, at_ms=reached(hint.at_ms, now_ms)) for hint in found.values()]


def _hint(entry_id: str, fields: Mapping[bytes, bytes]) -> Hint:
    values = {name.decode(): value.decode() for name, value in fields.items()}
    at_ms, epoch = Offset.parse(entry_id).ms, whole_of(values["epoch"])
    return Hint(Reason(values["reason"]), epoch, values["member"], at_ms)


def outbox(group: str) -> list[OutboxEntry]:
    """The oldest targets whose record waits for the database, in order."""
    entries = sync_client().xrange(GroupKeys(group).outbox, count=OUTBOX_AT_ONCE)
    names = (b"incarnation", b"epoch", b"record")
    return [
        OutboxEntry(
            entry_id.decode(), *(fields.get(name, b"").decode(errors="replace") for name in names)
        )
        for entry_id, fields in entries
    ]


def drop_from_outbox(group: str, entry_id: str) -> None:
    sync_client().xdel(GroupKeys(group).outbox, entry_id)


def forget_lost(group: str, noted: int) -> None:
    sync_client().hincrby(GroupKeys(group).meta, "records_lost", -noted)


def known_groups() -> dict[str, int]:
    """Group -> incarnation, as a tick with a database noted them last."""
    found = sync_client().hgetall(_index())
    return {name.decode(): int(incarnation) for name, incarnation in found.items()}


def note_group(group: str, incarnation: int) -> None:
    """One of them, before the next round notes it with all others."""
    sync_client().hset(_index(), group, incarnation)


def note_groups(groups: Mapping[str, int]) -> None:
    """For ticks without a database. Asks seldom whether Redis has forgotten them since."""
    now_s, (noted_s, noted) = time.monotonic(), _noted.get(_index(), (-math.inf, {}))
    if noted == groups and now_s - noted_s < NOTED_FOR_S:
        return
    _noted[_index()] = now_s, dict(groups)
    if known_groups() == groups:
        return
    pipe = sync_client().pipeline(transaction=True)
    pipe.delete(_index())
    if groups:
        pipe.hset(_index(), mapping=dict(groups))
    pipe.execute()


def _index() -> str:
    return own_key("known_groups")


def rows_version() -> Question[int]:
    """Another one once a row of a group has changed in the database."""
    key = _rows_version()
    return Question(partial(way_to, key), pack(("GET", key)), lambda found: int(found[0] or 0))


def note_rows_changed() -> None:
    sync_client().incr(_rows_version())


def _rows_version() -> str:
    return own_key("rows_version")


# --- streams --------------------------------------------------------------------------------------


def make_stream(stream: str, partitions: int, group: str) -> int:
    """The stream's partition count, `partitions` if it had none; `group` becomes its reader."""
    keys = StreamKeys(stream)
    client = sync_client()
    client.hsetnx(keys.meta, "partitions", str(partitions))
    found = int(client.hget(keys.meta, "partitions") or 0)
    if found == partitions:
        client.sadd(keys.groups, group)
    return found


def readers(stream: str) -> frozenset[str]:
    """Groups that read the stream."""
    return readers_of([stream])[0]


def readers_of(streams: Sequence[str]) -> list[frozenset[str]]:
    """As `readers`, in their order; one round trip for all."""
    pipe = sync_client().pipeline(transaction=False)
    for stream in streams:
        pipe.smembers(StreamKeys(stream).groups)
    return [frozenset(name.decode() for name in names) for names in pipe.execute()]


def committed(group: str, partition: Partition) -> str:
    """0-0 where there is none yet."""
    value = sync_client().hget(GroupKeys(group).offsets, str(partition))
    return FIRST_ENTRY if value is None else value.decode()


def committed_of(groups: Iterable[tuple[str, str, int]]) -> list[list[str]]:
    """As `committed`, of a group's partitions 0 to n - 1, in their order; one round trip for all.
    `groups`: name, stream and n of each.
    """
    pipe = sync_client().pipeline(transaction=False)
    for group, stream, partitions in groups:
        names = [f"{stream}:{number}" for number in range(partitions)]
        pipe.hmget(GroupKeys(group).offsets, names)
    return [[FIRST_ENTRY if v is None else v.decode() for v in row] for row in pipe.execute()]


def lift_streams(
    offsets: Mapping[Partition, Offset], restored: Mapping[Partition, Offset]
) -> dict[Partition, Lifted]:
    """Ids of entries go on above `offsets`; what lies at or below `restored` came too early."""
    answers = run_each(
        "lift",
        [
            (_counted_keys(partition), [str(offset), str(restored.get(partition, START))])
            for partition, offset in offsets.items()
        ],
    )
    found = (Lifted(int(early), int(events) if events else None) for early, events in answers)
    return dict(zip(offsets, found, strict=True))


def _counted_keys(of: Partition) -> tuple[str, str]:
    keys = StreamKeys(of.stream)
    return keys.entries(of.number), keys.producers(of.number)


def last_ids(partitions: Iterable[Partition]) -> dict[Partition, Offset]:
    """The highest id that each stream ever gave; none of those that are not there."""
    asked = list(partitions)
    answers = try_each(script("appended"), [(_counted_keys(of), [str(START)]) for of in asked])
    of_each = zip(asked, answers, strict=True)
    found = {of: raw[4] for of, raw in of_each if not isinstance(raw, redis.RedisError)}
    return {of: Offset.parse(last.decode()) for of, last in found.items() if last}


def histories() -> dict[str, str]:
    """Server -> whose data it has: after a failover, or a restart, they are another's."""
    return {one.url: str(one.info("replication")["master_replid"]) for one in clients()}


def trim_entries(
    stream: str, lowest: Mapping[int, Offset], read_from: Mapping[str, str], kept: Kept
) -> int:
    """Drops entries below the offsets, which all groups reached, but not what is to be kept; how
    many went. None of a server whose history is not the one that was `read_from`.
    """
    keys, calls = StreamKeys(stream), []
    since_ms = str(max(0, redis_now_ms() - kept.ms))
    for number, offset in lowest.items():
        of = keys.entries(number), keys.index(number), keys.hold(number)
        history = read_from.get(client_at(of[0]).url, "")
        calls.append((of, [str(offset), history, since_ms, str(kept.partition_bytes)]))
    return sum(run_each("trim", calls))
