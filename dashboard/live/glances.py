"""What is read each second of groups that rest (coordinator/resting.py).

A glance is few commands a group, all groups in one pipeline, packed by hiredis: the client's own
costs four times as much. It writes nothing.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from hiredis import pack_command

from assignment.coordinator.resting import Glance, Rest
from assignment.scripts.glance import COUNTED, applied_of, counted_of, run_id_of
from assignment.wire import GroupKeys
from dashboard.live.connection import (
    StoreUnavailable,
    client_at,
    ms_of,
    reaching_redis,
    sync_client,
)
from dashboard.live.deadline import within
from dashboard.live.nodes import cluster

AT_ONCE = 500  # groups whose commands are on their way

PACKED_MAX = 20_000  # groups, of some hundred bytes each

log = logging.getLogger(__name__)
Command = tuple[Any, ...]  # hiredis says of which kinds, but not how many


def glances(rests: Mapping[str, Rest]) -> dict[str, Glance]:
    """Without groups of which Redis holds something else. Raises StoreUnavailable."""
    found: dict[str, Glance] = {}
    for client, names in _by_server(rests).items():
        with _Connection(client) as connection:
            for first in range(0, len(names), AT_ONCE):
                some = names[first : first + AT_ONCE]
                asked = [_asked(name, rests[name]) for name in some]
                answers, of_server = connection.exchanged(asked)
                for name, of_group in zip(some, answers, strict=True):
                    if of_group is not None:
                        found[name] = _glance(name, rests[name], of_group, of_server)
    return found


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


def _by_server(groups: Collection[str]) -> dict[Any, list[str]]:
    """Client -> those that it reaches."""
    if cluster() is None:
        return {sync_client(): list(groups)} if groups else {}
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


class _Packed(NamedTuple):
    """Commands as they are sent, and how many."""

    commands: bytes
    replies: int


def _pack(*commands: Command) -> _Packed:
    return _Packed(b"".join(map(pack_command, commands)), len(commands))


_OF_SERVER = _pack(("INFO", "server"), ("INFO", "replication"), ("TIME",))


def _asked(name: str, rest: Rest) -> _Packed:
    return _of_group(name, bool(rest.patience_ms), rest.awaited)


@lru_cache(PACKED_MAX)
def _of_group(name: str, has_members: bool, awaited: tuple[str, ...]) -> _Packed:
    """The same each second."""
    keys = GroupKeys(name)
    found: list[Command] = [("HMGET", keys.meta, *COUNTED)]
    if has_members:
        found += [("ZRANGE", key, "0", "0", "WITHSCORES") for key in (keys.beats, keys.ends)]
    if awaited:
        found.append(("HMGET", keys.applied, *awaited))
    return _pack(*found)


_counted: dict[str, tuple[list[bytes | None], str]] = {}  # by group: mostly it is the same again


def _counted_of(name: str, values: list[bytes | None]) -> str:
    before, text = _counted.get(name, (None, ""))
    if before != values:
        if len(_counted) >= PACKED_MAX:
            _counted.clear()
        text = counted_of(values)
        _counted[name] = values, text
    return text


def _glance(name: str, rest: Rest, answers: list[Any], of_server: "_OfServer") -> Glance:
    counted = _counted_of(name, answers[0])
    if len(answers) == 1:
        return Glance(of_server.now_ms, of_server.run_id, counted)
    more = answers[1:]
    applied = applied_of(more.pop()) if rest.awaited else ""
    beat_ms, end_ms = map(_first, more) if more else (None, None)
    return Glance(of_server.now_ms, of_server.run_id, counted, beat_ms, end_ms, applied)


def _first(scored: Sequence[bytes]) -> int | None:
    return int(float(scored[1])) if scored else None


class _OfServer(NamedTuple):
    now_ms: int
    run_id: str


class _Connection:
    """One of a client's pool, for packed commands."""

    def __init__(self, client: Any) -> None:
        self._pool, self._url = client.connection_pool, client.url

    def __enter__(self) -> "_Connection":
        with reaching_redis(self._url):
            self._connection = self._pool.get_connection()
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is not None:  # answers that nobody read must not meet the next command
            self._connection.disconnect()
        self._pool.release(self._connection)

    def exchanged(self, asked: Sequence[_Packed]) -> tuple[list[list[Any] | None], _OfServer]:
        """The answers to each, None where one is an error; and the moment after them."""
        packed = b"".join([*(one.commands for one in asked), _OF_SERVER.commands])
        with reaching_redis(self._url):
            self._connection.send_packed_command([packed], check_health=False)
            found = self._connection.read_responses(sum(one.replies for one in asked))
            server, replication, now = (
                self._connection.read_response() for _ in range(_OF_SERVER.replies)
            )
        has_errors = any([isinstance(answer, Exception) for answer in found])
        answers: list[list[Any] | None] = []
        first = 0
        for one in asked:
            of_group = found[first : first + one.replies]
            first += one.replies
            is_bad = has_errors and any(isinstance(answer, Exception) for answer in of_group)
            answers.append(None if is_bad else of_group)
        return answers, _OfServer(ms_of(*map(int, now)), run_id_of(server + replication))
