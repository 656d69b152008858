"""What is read each second of groups that rest (coordinator/resting.py).

A glance is few commands a group, all groups in one pipeline, packed by hiredis: the client's own
costs four times as much. It writes nothing. A group at which there was a glance is left alone until
the server says that what was read of it changed (live/tracked.py), or its next moment comes.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from functools import lru_cache, partial
from heapq import heappop, heappush
from typing import Any, NamedTuple
from zlib import crc32

from assignment.coordinator.resting import NEVER_MS, Glance, Rest, may_rest_on
from assignment.scripts.glance import COUNTED, applied_of, counted_of, run_id_of
from assignment.scripts.group_read import Gap
from assignment.wire import GroupKeys
from dashboard.live.connection import StoreUnavailable, client_at, ms_of, sync_client
from dashboard.live.deadline import within
from dashboard.live.nodes import cluster
from dashboard.live.together import Command, Packed, Question, ask, pack, packed_together, way_of
from dashboard.live.tracked import State, Tracked

AT_ONCE = 500  # groups whose commands are on their way
PACKED_MAX = 20_000  # groups, of some hundred bytes each
KEYS_MAX = 2 * PACKED_MAX
ENDS_READ_MS = 4_000  # a lock may be renewed for less time than it had
ALL_READ_MS = 20_000
ALL_A_SECOND = 100  # of many groups later, so that no more are read for nothing

log = logging.getLogger(__name__)


def glances(rests: Mapping[str, Rest]) -> dict[str, Glance]:
    """Without groups of which Redis holds something else. Raises StoreUnavailable."""
    found: dict[str, Glance] = {}
    for client, names in _by_server(rests).items():
        found |= _Reading(client, Tracked(client)).glances({name: rests[name] for name in names})
    return found


class Watch:
    """Of groups that rest, from one tick to the next."""

    def __init__(self) -> None:
        self._servers: dict[Any, _Watched] = {}

    def asked(self) -> list[Question[Any]]:
        """What all servers say of changes until it is asked."""
        return [one for server in self._servers.values() for one in server.asked()]

    def resting(self, rests: Mapping[str, Rest], changed: Set[str], away: Gap) -> Set[str]:
        """Those of them that rest on. `changed`: of which there is another rest than the last time,
        or none. `away`: when nobody ticked the last time. Raises StoreUnavailable.
        """
        for server in self._servers.values():  # before anything fails
            server.forget(changed)
        by_server = _by_server(rests)
        for client in self._servers.keys() - by_server.keys():
            self._servers.pop(client).close()
        found = list[Set[str]]()
        for client, names in by_server.items():
            if client not in self._servers:
                self._servers[client] = _Watched(client)
            of_server = rests if names is rests else {name: rests[name] for name in names}
            found.append(self._servers[client].resting(of_server, away))
        return found[0] if len(found) == 1 else frozenset().union(*found)


class _Watched:
    """Groups of one server. `_still`: that rest, as was seen at the last glance -> when there is to
    be another, whether or not the server tells of a change.
    """

    def __init__(self, client: Any) -> None:
        self._tracked = Tracked(client)
        self._reading = _Reading(client, self._tracked)
        self._asked: _Asked | None = None
        self._still: dict[str, int] = {}
        self._moments: list[tuple[int, str]] = []  # a heap of these, and of some that were
        self._group_of: dict[bytes, str] = {}  # key that was read -> its group
        self._before = _OfServer(0, ""), Gap(0, 0)

    def close(self) -> None:
        self._tracked.close()

    def asked(self) -> "list[Question[Any]]":
        self._asked = _Asked(self._reading.of_server(), self._tracked.state())
        return [one for one in self._asked if one is not None]

    def forget(self, groups: Set[str]) -> None:
        for name in groups:
            self._still.pop(name, None)

    def resting(self, rests: Mapping[str, Rest], away: Gap) -> Set[str]:
        still = self._still
        self._bring_forward(away)
        if not still.keys() <= rests.keys():  # another server has them now
            self.forget(still.keys() - rests.keys())
        if not rests.keys() <= still.keys():
            self._glance(rests.keys() - still.keys(), rests, away)
        return still.keys()

    def _bring_forward(self, away: Gap) -> None:
        """Forgets what is not known any more."""
        if self._asked is None:
            ask(self.asked())
        assert self._asked is not None
        (of_server, state), self._asked = self._asked, None
        now = of_server.answer()
        changed = self._tracked.changed(state, now.run_id)
        before, away_before = self._before
        is_same = now.run_id == before.run_id and now.now_ms >= before.now_ms
        self._before = now, away
        if changed is None or not is_same or away != away_before:
            self._forget_all()
            return
        for key in changed:
            self._still.pop(self._group_of.get(key, ""), None)
        while self._moments and self._moments[0][0] <= now.now_ms:
            _, name = heappop(self._moments)
            if self._still.get(name, NEVER_MS) <= now.now_ms:
                del self._still[name]

    def _forget_all(self) -> None:
        self._still.clear()
        self._moments.clear()

    def _glance(self, asked: Set[str], rests: Mapping[str, Rest], away: Gap) -> None:
        found = self._reading.glances({name: rests[name] for name in asked})
        all_ms = max(ALL_READ_MS, len(rests) * 1_000 // ALL_A_SECOND)
        for name in asked:
            rest, glance = rests[name], found.get(name)
            if glance is None or not may_rest_on(rest, glance, away):
                continue
            self._still[name] = until_ms = _until_ms(name, rest, glance, all_ms)
            heappush(self._moments, (until_ms, name))
            keys = GroupKeys(name)
            self._group_of[keys.meta.encode()] = name
            if rest.awaited:
                self._group_of[keys.applied.encode()] = name
        if len(self._group_of) > KEYS_MAX:
            self._group_of = {k: n for k, n in self._group_of.items() if n in self._still}


def _until_ms(name: str, rest: Rest, glance: Glance, all_ms: int) -> int:
    """Of its moments that come by themselves the first. Only what can change without a word, its
    locks' ends, is read sooner, and all now and then: whoever lost a word of the server's loses
    some seconds. Spread, so that they do not all come at once.
    """
    spread = 0.5 + crc32(name.encode()) / 2**33
    most_ms = ENDS_READ_MS if glance.next_end_ms is not None else all_ms
    moments = [rest.due_ms, glance.now_ms + round(most_ms * spread)]
    if glance.next_end_ms is not None:
        moments.append(glance.next_end_ms)
    if rest.patience_ms and glance.oldest_beat_ms is not None:
        moments.append(glance.oldest_beat_ms + rest.patience_ms + 1)
    return min(moments)


def away(groups: Iterable[str]) -> frozenset[str]:
    """Those whose node does not answer now: the groups of others do not wait for them. None where
    there is one Redis for all.
    """
    if cluster() is None:
        return frozenset()
    names = list(groups)
    found, missing = _of_nodes(names)
    for client, some in found.items():
        try:
            with within():
                client.ping()
        except StoreUnavailable as error:
            log.warning("%d groups wait for a node: %s", len(some), error)
            missing += some
    return frozenset(missing)


def _by_server(groups: Collection[str]) -> Mapping[Any, Collection[str]]:
    """Client -> those that it reaches."""
    if cluster() is None:
        return {sync_client(): groups} if groups else {}
    return _of_nodes(groups)[0]


def _of_nodes(groups: Iterable[str]) -> tuple[dict[Any, list[str]], list[str]]:
    """And those whose slot no node has."""
    found: dict[Any, list[str]] = {}
    missing: list[str] = []
    for name in groups:
        try:
            found.setdefault(client_at(GroupKeys(name).meta), []).append(name)
        except StoreUnavailable:
            missing.append(name)
    return found, missing


_SERVER = ""  # asked about like a group, by a name that none has: one trip has both
_OF_SERVER = pack(("INFO", "server"), ("INFO", "replication"), ("TIME",))


@lru_cache(PACKED_MAX)
def _told_of(name: str, awaited: tuple[str, ...]) -> Packed:
    """Keys of which the server says when they change. The same each time."""
    keys = GroupKeys(name)
    found: list[Command] = [("HMGET", keys.meta, *COUNTED)]
    if awaited:
        found.append(("HMGET", keys.applied, *awaited))
    return pack(*found)


@lru_cache(PACKED_MAX)
def _moments_of(name: str) -> Packed:
    """Keys that each heartbeat changes."""
    keys = GroupKeys(name)
    return pack(*(("ZRANGE", key, "0", "0", "WITHSCORES") for key in (keys.beats, keys.ends)))


_counted: dict[str, tuple[list[bytes | None], str]] = {}  # by group: mostly it is the same again


def _counted_of(name: str, values: list[bytes | None]) -> str:
    before, text = _counted.get(name, (None, ""))
    if before != values:
        if len(_counted) >= PACKED_MAX:
            _counted.clear()
        text = counted_of(values)
        _counted[name] = values, text
    return text


def _glance(name: str, rest: Rest, told: list[Any], moments: list[Any], now: "_OfServer") -> Glance:
    counted = _counted_of(name, told[0])
    applied = applied_of(told[1]) if rest.awaited else ""
    beat_ms, end_ms = map(_first, moments) if moments else (None, None)
    return Glance(now.now_ms, now.run_id, counted, beat_ms, end_ms, applied)


def _first(scored: Sequence[bytes]) -> int | None:
    return int(float(scored[1])) if scored else None


class _OfServer(NamedTuple):
    now_ms: int
    run_id: str


class _Asked(NamedTuple):
    now: Question[_OfServer]
    state: State | None


class _Reading:
    """Of one server: what it tells of over `tracked`, the rest over connections of the pool."""

    def __init__(self, client: Any, tracked: Tracked) -> None:
        self._tracked, self._way = tracked, way_of(client)

    def of_server(self) -> Question[_OfServer]:
        return Question(lambda: self._way, _OF_SERVER, _of_server)

    def glances(self, rests: Mapping[str, Rest]) -> dict[str, Glance]:
        """The moment of each is after the beats and ends that were read of it. What the server
        tells of it is read beside that: of what changes afterwards the next round is told.
        """
        found: dict[str, Glance] = {}
        names = list(rests)
        for first in range(0, len(names), AT_ONCE):
            some = {name: rests[name] for name in names[first : first + AT_ONCE]}
            asked = {n: _told_of(n, r.awaited) for n, r in some.items()}
            of_members = {n: _moments_of(n) for n, rest in some.items() if rest.patience_ms}
            of_others = of_members | {_SERVER: _OF_SERVER}
            tracked = self._tracked.reading(packed_together(asked.values()), partial(_by, asked))
            others = Question(
                lambda: self._way,
                packed_together(of_others.values()),
                partial(_by, of_others),
                keeps_errors=True,
            )
            ask([tracked, others])
            told, moments = tracked.answer(), others.answer()
            if (of_server := moments[_SERVER]) is None:
                raise StoreUnavailable("Redis does not say who it is")
            now = _of_server(of_server)
            for name, rest in some.items():
                of_group, of_beats = told[name], moments.get(name, ())
                if of_group is not None and of_beats is not None:
                    found[name] = _glance(name, rest, of_group, list(of_beats), now)
        return found


def _by(asked: Mapping[str, Packed], found: list[Any]) -> dict[str, list[Any] | None]:
    """The answers to each, None where one is an error."""
    has_errors = any([isinstance(answer, Exception) for answer in found])
    answers: dict[str, list[Any] | None] = {}
    first = 0
    for name, one in asked.items():
        of_group = found[first : first + one.replies]
        first += one.replies
        is_bad = has_errors and any(isinstance(answer, Exception) for answer in of_group)
        answers[name] = None if is_bad else of_group
    return answers


def _of_server(answers: Sequence[Any]) -> _OfServer:
    server, replication, now = answers
    return _OfServer(ms_of(*map(int, now)), run_id_of(server + replication))
