"""One bounded reading of a group for whoever follows it: the log of the locks from a position on,
some partitions' rows and, when asked for, what is the group's and its members'; all of one moment.

Reads only.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import redis

from assignment import lua
from assignment.errors import Damaged
from assignment.scripts.group_read import GroupRead, Meta, Report, beat_of, read_meta
from assignment.scripts.lock_events import LockEvent, read_event
from assignment.scripts.rows import UNREADABLE, why_unreadable
from assignment.scripts.values import Raw, pairs_of, text_of
from assignment.types import TargetRow
from assignment.wire import GroupKeys
from dashboard.live.connection import GroupDamaged, sync_client
from dashboard.live.heard import Heard, Told

EVENTS_MAX = 2_000  # of one reading
PARTITIONS_MAX = 1_000  # of one reading: some milliseconds of Redis; unpack takes at most 8,000
START = ""  # a position: from now on

# ARGV: position in the log or '', how many events, stream, first partition, how many of them, '1':
# with the group's keys. Answers {now_ms, run_id, event_seq, the position afterwards, events, rows,
# keys}.
_TEXT = """
local position, stream, first, count = ARGV[1], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
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
for number = first, first + count - 1 do
  names[#names + 1] = stream .. ':' .. text(number)
  locks[#locks + 1] = key('lock:' .. names[#names])
end
local rows = {}
if count > 0 then
  local offsets = redis.call('HMGET', key('offsets'), unpack(names))
  for i, offset in ipairs(offsets) do
    local entries = '{' .. names[i] .. '}'
    local fine, answer = pcall(appended, {entries, entries .. ':producers'}, {offset or '0-0'})
    backlog[i] = fine and answer or ''
  end
  rows = {redis.call('MGET', unpack(locks)), redis.call('HMGET', key('grants'), unpack(names)),
    redis.call('HMGET', key('since'), unpack(names)), offsets,
    redis.call('HMGET', key('applied'), unpack(names)), backlog}
end

local keys = {}
if ARGV[6] == '1' then
  keys = {redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', key('members')),
    redis.call('ZRANGE', key('beats'), 0, -1, 'WITHSCORES'), redis.call('HGETALL', key('reports')),
    redis.call('HGETALL', key('target')), redis.call('GET', key('coordinator')) or ''}
end
local seq = redis.call('HGET', KEYS[1], 'event_seq') or '0'
return {text(now_ms()), run_id(), seq, position, events, rows, keys}
"""


@cache
def _script() -> str:
    common = "".join(map(lua.own_text, ("_streams", "_common")))
    return common + _TEXT % lua.own_text("appended")


class Reading(NamedTuple):
    now_ms: int
    run_id: str
    event_seq: int  # of the last event, whether or not it is in `events`
    position: str
    entries: int
    events: list[LockEvent]  # none where one of the entries is by no script: `event_seq` tells
    rows: list[Any]  # locks, grants, since, offsets, applied, backlog of the partitions
    keys: list[Any]

    @property
    def is_all(self) -> bool:
        """Whether the log has no more events up to its moment."""
        return self.entries < EVENTS_MAX


def read(group: str, position: str, stream: str, part: range, *, keys: bool) -> Reading:
    """Raises StoreUnavailable, GroupDamaged."""
    run = sync_client().register_script(_script())
    arguments = [position, EVENTS_MAX, stream, part.start, len(part), int(keys)]
    try:
        raw = run(keys=[GroupKeys(group).meta], args=arguments)
        now_ms, run_id, seq, reached, events, rows, found = raw
        numbers, reached = (int(now_ms), text_of(run_id), int(seq)), text_of(reached)
        return Reading(*numbers, reached, len(events), _events(events), rows, found)
    except (redis.ResponseError, *UNREADABLE) as error:
        raise GroupDamaged(group, error) from error


def _events(entries: Sequence[Any]) -> list[LockEvent]:
    try:
        return [read_event(entry_id.decode(), fields) for entry_id, fields in entries]
    except UNREADABLE:
        return []


def meta_in(reading: Reading) -> Meta:
    """Raises Damaged."""
    try:
        return read_meta(reading.keys[0])
    except UNREADABLE as error:
        raise Damaged(f"the group's records are damaged: {why_unreadable(error)}") from error


def told_in(reading: Reading, heard: Heard) -> Told:
    """Raises Damaged; what one member may have written harms only its own row."""
    meta, members, beats, reports, target, computes = reading.keys
    try:
        return _told(reading, heard, (meta, members, beats, reports, target), computes)
    except UNREADABLE as error:
        raise Damaged(f"the group's records are damaged: {why_unreadable(error)}") from error


def _told(reading: Reading, heard: Heard, keys: Sequence[Raw], computes: bytes) -> Told:
    meta, members, beats, reports, target = keys
    rows, bad_members = heard.members.each(pairs_of(members))
    said, _ = heard.reports.each(pairs_of(reports))
    placed, bad_targets = heard.targets.each(pairs_of(target))
    if bad_targets:
        raise ValueError(next(iter(bad_targets.values())))
    heard.forget_all_but(said)
    spoken: dict[str, Report] = {member: report for member, (report, _) in said.items()}
    given: dict[str, TargetRow] = {member: row for member, (row, _) in placed.items()}
    read = GroupRead(
        now_ms=reading.now_ms,
        run_id=reading.run_id,
        meta=read_meta(meta),
        members=rows,
        bad_members=bad_members,
        beats={member: beat_of(score) for member, score in pairs_of(beats)},
        reports=spoken,
        asked={},
        target=given,
        grants={},
        locks={},
        offsets={},
        applied={},
        snapshots={},
    )
    return Told(
        read=read,
        claims={member: claims for member, (_, claims) in said.items()},
        targets={member: numbers for member, (_, numbers) in placed.items()},
        computes=computes,
    )
