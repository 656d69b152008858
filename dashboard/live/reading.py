"""One bounded reading of a group for whoever follows it: the log of the locks from a position on,
some partitions' rows and, when asked for, what is the group's and its members'; all of one moment.

Reads only.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import redis

from assignment import lua
from assignment.coordinator.reading import ticked
from assignment.errors import Damaged
from assignment.scripts.group_read import NO_TICK, GroupRead, Meta, Ticker, beat_of, read_meta
from assignment.scripts.held import Grants, Locks
from assignment.scripts.lock_events import LockEvent, read_event
from assignment.scripts.pausing import read_confirmed, read_pauses
from assignment.scripts.reports import Report
from assignment.scripts.rows import UNREADABLE, why_unreadable
from assignment.scripts.values import pairs_of, text_of
from assignment.types import TargetRow
from assignment.wire import GroupKeys, StreamKeys
from dashboard.live.connection import GroupDamaged, RedisError
from dashboard.live.heard import NOTHING_KNOWN, Heard, Known, Told
from dashboard.live.nodes import cluster
from dashboard.live.progress import Progress
from dashboard.live.queue import last_ticker
from dashboard.live.scripts import Script, run_one, script, script_of, try_each

EVENTS_MAX = 2_000  # of one reading
PARTITIONS_MAX = 500  # of one reading: some milliseconds of Redis; unpack takes at most 8,000
START = ""  # a position: from now on

# ARGV: position in the log or '', how many events, stream, '1': with the group's keys, '1': with
# progress, or '2': but without what the streams say, since when reports are asked for (0: all),
# the numbers under which targets are known, the numbers of partitions. Answers {now_ms, run_id,
# event_seq, the position afterwards, events, rows, progress, keys, identity, incarnation}. Of the
# keys reports are {all of them as names and values}, or {some names, their values, the names of
# all}: whoever reports beats. Targets are {numbers, names and values}, or {numbers} as they were:
# who changes them raises one.
_TEXT = """
local position, stream = ARGV[1], ARGV[3]
local function appended(KEYS, ARGV)
%s
end

local events = {}
if position == '' then
  local last = redis.call('XREVRANGE', key('events'), '+', '-', 'COUNT', 1)[1]
  position = last and last[1] or '0-0'
else
  events = redis.call('XRANGE', key('events'), '(' .. position, '+', 'COUNT', ARGV[2])
  if #events > 0 then position = events[#events][1] end
end

local names, locks, backlog = {}, {}, {}
for i = 8, #ARGV do
  names[#names + 1] = stream .. ':' .. ARGV[i]
  locks[#locks + 1] = key('lock:' .. names[#names])
end
local rows, progress = {}, {}
if #names > 0 then
  rows = {redis.call('MGET', unpack(locks)), redis.call('HMGET', key('grants'), unpack(names)),
    redis.call('HMGET', key('since'), unpack(names))}
end
if #names > 0 and ARGV[5] ~= '0' then
  local offsets = redis.call('HMGET', key('offsets'), unpack(names))
  for i, offset in ipairs(ARGV[5] == '1' and offsets or {}) do
    local entries = '{' .. names[i] .. '}'
    local fine, answer = pcall(appended, {entries, entries .. ':producers'}, {offset or '0-0'})
    backlog[i] = fine and answer or ''
  end
  progress = {offsets, redis.call('HMGET', key('applied'), unpack(names)), backlog}
end

local function reports(since, most)
  if since == 0 or since > now_ms() then return {redis.call('HGETALL', key('reports'))} end
  local names = redis.call('ZRANGEBYSCORE', key('beats'), text(since), '+inf', 'LIMIT', 0, most)
  if #names == most then return {redis.call('HGETALL', key('reports'))} end
  local values = #names > 0 and redis.call('HMGET', key('reports'), unpack(names)) or {}
  return {names, values, redis.call('HKEYS', key('reports'))}
end

local function targets(known)
  local numbers = {}
  for i, number in ipairs(redis.call('HMGET', KEYS[1], 'target_incarnation', 'target_epoch',
      'group_epoch')) do
    numbers[i] = number or ''
  end
  local found = table.concat(numbers, ' ')
  if found == known then return {found} end
  return {found, redis.call('HGETALL', key('target'))}
end

local keys = {}
if ARGV[4] == '1' then
  keys = {redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', key('members')),
    redis.call('ZRANGE', key('beats'), 0, -1, 'WITHSCORES'),
    reports(tonumber(ARGV[6]), tonumber(ARGV[2])), targets(ARGV[7]),
    redis.call('GET', key('coordinator')) or '',
    redis.call('HGETALL', key('pauses')), redis.call('HGETALL', key('paused'))}
end
local about = redis.call('HMGET', KEYS[1], 'event_seq', 'identity', 'incarnation')
return {text(now_ms()), run_id(), about[1] or '0', position, events, rows, progress, keys,
  about[2] or '', about[3] or '0'}
"""


@cache
def _script() -> Script:
    text = _TEXT % lua.own_text("appended")
    return script_of(lua.with_common(text, "_streams", "_common"))


class Source(NamedTuple):
    """Whose log it is: nothing leads on from one to another."""

    run_id: str
    identity: bytes  # of the group by this name, as its dashboard's database has it
    incarnation: int  # rises when Redis may have lost writes


class Reading(NamedTuple):
    now_ms: int
    source: Source
    event_seq: int  # of the last event, whether or not it is in `events`
    position: str
    entries: int
    events: list[LockEvent]  # none where one of the entries is by no script: `event_seq` tells
    rows: list[Any]  # locks, grants, since of the partitions
    progress: list[Any]  # offsets, applied, backlog of them, when it was asked for
    keys: list[Any]

    @property
    def is_all(self) -> bool:
        """Whether the log has no more events up to its moment."""
        return self.entries < EVENTS_MAX


class Stream(NamedTuple):
    """As the database has it."""

    name: str
    partitions: int


NO_STREAM = Stream("", 0)  # it is not known


class Question(NamedTuple):
    """`position`: in the group's log. `part`: numbers of partitions, some hundreds, as a range or
    tuple. `keys`: with what is the group's and its members', but for what of it is known.
    """

    group: str
    position: str
    stream: str
    part: Sequence[int]
    keys: Known | None = None
    progress: bool = True


Answered = Mapping[Question, Reading]
NOTHING_ANSWERED: Answered = {}


def read(asked: Question) -> Reading:
    """Raises StoreUnavailable, and GroupDamaged."""
    keys, arguments = _call(asked)
    try:
        return _reading(asked, run_one(_script(), keys, arguments))
    except (redis.ResponseError, *UNREADABLE) as error:
        raise GroupDamaged(asked.group, error) from error


def read_each(asked: Sequence[Question]) -> Answered:
    """In one trip, without those that are to be read alone to see what is wrong with them. Raises
    StoreUnavailable.
    """
    found = {}
    for one, raw in zip(asked, try_each(_script(), [_call(one) for one in asked]), strict=True):
        if not isinstance(raw, RedisError):
            with suppress(*UNREADABLE, redis.ResponseError):
                found[one] = _reading(one, raw)
    return found


def _call(asked: Question) -> tuple[Sequence[str], Sequence[str | int | bytes]]:
    group, position, stream, part, keys, progress = asked
    asks = int(keys is not None), int(progress) + _is_apart(asked), *(keys or NOTHING_KNOWN)
    return GroupKeys(group).of_script, [position, EVENTS_MAX, stream, *asks, *part]


def _is_apart(asked: Question) -> bool:
    """The streams are in other slots."""
    return asked.progress and cluster() is not None


def _reading(asked: Question, raw: Sequence[Any]) -> Reading:
    now_ms, run_id, seq, reached, events, *found, identity, incarnation = raw
    source = Source(text_of(run_id), identity, int(incarnation))
    of_log = text_of(reached), len(events), _events(events)
    if _is_apart(asked) and asked.part:
        offsets, applied, _ = found[1]
        found[1] = [offsets, applied, _backlog(asked.stream, asked.part, offsets)]
    return Reading(int(now_ms), source, int(seq), *of_log, *found)


def _backlog(stream: str, numbers: Sequence[int], offsets: Sequence[bytes | None]) -> list[Any]:
    """As the script says it where one server has all keys."""
    keys = StreamKeys(stream)
    asked = [
        ((keys.entries(number), keys.producers(number)), [offset or b"0-0"])
        for number, offset in zip(numbers, offsets, strict=True)
    ]
    answers = try_each(script("appended"), asked)
    return [b"" if isinstance(answer, redis.RedisError) else answer for answer in answers]


def _events(entries: Sequence[Any]) -> list[LockEvent]:
    try:
        return [read_event(entry_id.decode(), fields) for entry_id, fields in entries]
    except UNREADABLE:
        return []


def progress_of(group: str, stream: str, numbers: Sequence[int]) -> Progress:
    """Of these partitions, some hundreds, in their order. Raises StoreUnavailable,
    GroupDamaged.
    """
    found, progress = read(Question(group, START, stream, tuple(numbers))), Progress(len(numbers))
    try:
        progress.take(range(len(numbers)), found.now_ms, *found.progress)
    except UNREADABLE as error:
        raise GroupDamaged(group, error) from error
    return progress


def meta_in(reading: Reading) -> Meta:
    """Raises Damaged."""
    try:
        return read_meta(reading.keys[0])
    except UNREADABLE as error:
        raise Damaged(f"the group's records are damaged: {why_unreadable(error)}") from error


def told_in(reading: Reading, heard: Heard, ticker: Ticker = NO_TICK) -> Told:
    """Raises Damaged; what one member may have written harms only its own row. `ticker`: who ticked
    last, where that is known.
    """
    try:
        return _told(reading, heard, ticker if ticker.seen_ms else last_ticker())
    except UNREADABLE as error:
        raise Damaged(f"the group's records are damaged: {why_unreadable(error)}") from error


def _told(reading: Reading, heard: Heard, ticker: Ticker) -> Told:
    meta, members, beats, reports, target, computes, pauses, paused = reading.keys
    known = ticked(read_meta(meta), ticker)
    rows, bad_members = heard.members.each(pairs_of(members))
    heard.take(reading.now_ms, reports, target)
    said, _ = heard.reports.each(heard.said.items())
    placed, bad_targets = heard.targets.each(heard.placed)
    if bad_targets:
        raise ValueError(next(iter(bad_targets.values())))
    heard.forget_all_but(said)
    spoken: dict[str, Report] = {member: report for member, (report, _) in said.items()}
    given: dict[str, TargetRow] = {member: row for member, (row, _) in placed.items()}
    read = GroupRead(
        now_ms=reading.now_ms,
        run_id=reading.source.run_id,
        meta=known,
        members=rows,
        bad_members=bad_members,
        beats={member: beat_of(score) for member, score in pairs_of(beats)},
        reports=spoken,
        asked={},
        target=given,
        grants=Grants.of({}),
        locks=Locks.of({}),
        offsets={},
        applied={},
        snapshots={},
        pauses=read_pauses(known.pause_version, pauses),
        confirmed=read_confirmed(paused),
    )
    return Told(
        read=read,
        claims={member: claims for member, (_, claims) in said.items()},
        targets={member: numbers for member, (_, numbers) in placed.items()},
        computes=computes,
    )
