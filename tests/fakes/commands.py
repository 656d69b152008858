"""The commands on keys, strings, hashes and sorted sets that somebody asks, by name.

A command takes the server's keyspace and its arguments as bytes; `WRITES` names those that a
replica refuses and a journal keeps.
"""

import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from itertools import chain
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from tests.fakes.values import OK, WRONG_TYPE, Hash, Reply, Scores, number, score_text

if TYPE_CHECKING:
    from tests.fakes.keyspace import Keyspace

Command = Callable[..., Reply]
COMMANDS: dict[bytes, Command] = {}
WRITES: set[bytes] = set()
NO_HASH: Hash = {}
SYNTAX = "ERR syntax error"


def reads(function: Command) -> Command:
    """Registers it under its name, without the underscore that some need."""
    COMMANDS[_name(function)] = function
    return function


def writes(function: Command) -> Command:
    WRITES.add(_name(function))
    return reads(function)


def _name(function: Command) -> bytes:
    return function.__name__.rstrip("_").upper().encode()


# --- keys -----------------------------------------------------------------------------------------


@writes
def del_(db: "Keyspace", *keys: bytes) -> int:
    return sum([db.remove(key) for key in keys])


@reads
def keys(db: "Keyspace", pattern: bytes) -> list[bytes]:
    wanted = re.compile(translate(pattern.decode("latin-1")).encode("latin-1"))
    return [key for key in list(db.keys) if wanted.match(key) and db.live(key) is not None]


@reads
def pttl(db: "Keyspace", key: bytes) -> int:
    if db.live(key) is None:
        return -2
    return db.expires[key] - db.now_ms if key in db.expires else -1


@writes
def pexpire(db: "Keyspace", key: bytes, ms: bytes) -> int:
    if db.live(key) is None:
        return 0
    db.expires[key] = db.now_ms + number(ms)
    return 1


@writes
def pexpireat(db: "Keyspace", key: bytes, at_ms: bytes) -> int:
    return pexpire(db, key, b"%d" % (number(at_ms) - db.now_ms))


# --- strings --------------------------------------------------------------------------------------


@reads
def mget(db: "Keyspace", *keys: bytes) -> list[Any]:
    values = [db.live(key) for key in keys]
    return [value if type(value) is bytes else None for value in values]


@writes
def set_(db: "Keyspace", key: bytes, value: bytes, *options: bytes) -> bytes:
    """With PX or PXAT, if anything."""
    at_ms = _expiry(db.now_ms, *options) if options else None
    db.expires.pop(key, None)
    db.keys[key] = value
    if at_ms is not None:
        db.expires[key] = at_ms
    return OK


def _expiry(now_ms: int, unit: bytes, ms: bytes = b"", *rest: bytes) -> int:
    if unit.upper() not in (b"PX", b"PXAT") or not ms or rest:
        raise ResponseError(SYNTAX)
    if number(ms) <= 0:
        raise ResponseError("ERR invalid expire time in 'set' command")
    return number(ms) + (now_ms if unit.upper() == b"PX" else 0)


# --- hashes ---------------------------------------------------------------------------------------


def _hash(db: "Keyspace", key: bytes) -> Hash:
    """To be read only: of a key that is not there it is an empty one that belongs to nobody."""
    value = db.live(key) if key in db.expires else db.keys.get(key)
    if type(value) is dict:
        return value
    if value is None:
        return NO_HASH
    raise ResponseError(WRONG_TYPE)


def _made_hash(db: "Keyspace", key: bytes) -> Hash:
    found = _hash(db, key)
    if found is NO_HASH:
        found = db.keys[key] = {}
    return found


@writes
def hset(db: "Keyspace", key: bytes, name: bytes, value: bytes, *more: bytes) -> int:
    if len(more) % 2:
        raise ResponseError("ERR wrong number of arguments for 'hset' command")
    found = _made_hash(db, key)
    before = len(found)
    found[name] = value
    for i in range(0, len(more), 2):
        found[more[i]] = more[i + 1]
    return len(found) - before


@writes
def hsetnx(db: "Keyspace", key: bytes, name: bytes, value: bytes) -> int:
    if name in _hash(db, key):
        return 0
    _made_hash(db, key)[name] = value
    return 1


@writes
def hdel(db: "Keyspace", key: bytes, name: bytes, *names: bytes) -> int:
    found = _hash(db, key)
    done = sum([found.pop(each, None) is not None for each in (name, *names)])
    return kept_or_gone(db, key, found, done)


@writes
def hincrby(db: "Keyspace", key: bytes, name: bytes, by: bytes) -> int:
    step = number(by)
    stored = number(_hash(db, key).get(name, b"0"), "ERR hash value is not an integer")
    after = stored + step
    if not -(2**63) <= after < 2**63:
        raise ResponseError("ERR increment or decrement would overflow")
    _made_hash(db, key)[name] = b"%d" % after
    return after


def kept_or_gone(db: "Keyspace", key: bytes, value: Any, done: int) -> int:
    """A key with nothing in it is no key."""
    if not value:
        db.remove(key)
    return done


# --- sorted sets ---------------------------------------------------------------------------------


def _scores(db: "Keyspace", key: bytes) -> Scores:
    return db.of_kind(key, Scores) or Scores()


@writes
def zadd(db: "Keyspace", key: bytes, score: bytes, member: bytes) -> int:
    value, found = _score(score), _scores(db, key)
    new = member not in found
    found[member], db.keys[key] = value, found
    return int(new)


def _score(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        raise ResponseError("ERR value is not a valid float") from None


@writes
def zrem(db: "Keyspace", key: bytes, member: bytes) -> int:
    found = _scores(db, key)
    return kept_or_gone(db, key, found, int(found.pop(member, None) is not None))


@reads
def zrange(db: "Keyspace", key: bytes, first: bytes, last: bytes, *options: bytes) -> list[bytes]:
    """By rank only."""
    ordered = _scores(db, key).ordered()
    return _members(ordered[number(first) : number(last) + 1 or None], options)


@reads
def zrangebyscore(
    db: "Keyspace", key: bytes, low: bytes, high: bytes, *options: bytes
) -> list[bytes]:
    ordered = _scores(db, key).ordered()
    return _members([item for item in ordered if _within(item[1], low, high)], options)


def _within(score: float, low: bytes, high: bytes) -> bool:
    above = score > _score(low[1:]) if low[:1] == b"(" else score >= _score(low)
    return above and (score < _score(high[1:]) if high[:1] == b"(" else score <= _score(high))


def _members(items: Iterable[tuple[bytes, float]], options: tuple[bytes, ...]) -> list[bytes]:
    if not options:
        return [member for member, _ in items]
    if {*map(bytes.upper, options)} != {b"WITHSCORES"}:
        raise ResponseError(SYNTAX)
    return [part for member, score in items for part in (member, score_text(score))]


# --- what one look answers ------------------------------------------------------------------------

COMMANDS |= {
    b"EXISTS": lambda db, *keys: sum(db.live(key) is not None for key in keys),
    b"GET": lambda db, key: db.of_kind(key, bytes),
    b"HGET": lambda db, key, name: _hash(db, key).get(name),
    b"HMGET": lambda db, key, name, *more: list(map(_hash(db, key).get, (name, *more))),
    b"HGETALL": lambda db, key: list(chain.from_iterable(_hash(db, key).items())),
    b"HKEYS": lambda db, key: list(_hash(db, key)),
    b"HSTRLEN": lambda db, key, name: len(_hash(db, key).get(name, b"")),
    b"HLEN": lambda db, key: len(_hash(db, key)),
    b"HEXISTS": lambda db, key, name: int(name in _hash(db, key)),
    b"ZSCORE": lambda db, key, member: score_text(_scores(db, key).get(member)),
}
