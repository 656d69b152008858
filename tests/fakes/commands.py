"""Commands of Redis on keys, strings and hashes, by name, with its replies.

A command takes the server's keyspace and its arguments as bytes; `WRITES` names those that a
replica refuses and a journal keeps.
"""

import re
from collections.abc import Callable
from fnmatch import translate
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from tests.fakes.values import OK, WRONG_TYPE, Hash, Members, Reply, Scores, number

if TYPE_CHECKING:
    from tests.fakes.keyspace import Keyspace

Command = Callable[..., Reply]
COMMANDS: dict[bytes, Command] = {}
WRITES: set[bytes] = set()
NO_HASH: Hash = {}
SYNTAX = "ERR syntax error"
MS_OF = {b"PX": 1, b"EX": 1_000, b"PXAT": 1, b"EXAT": 1_000}


def command(*, writes: bool = False) -> Callable[[Command], Command]:
    """Registers a function under its name, without the underscore that some need."""

    def register(function: Command) -> Command:
        name = function.__name__.rstrip("_").upper().encode()
        COMMANDS[name] = function
        if writes:
            WRITES.add(name)
        return function

    return register


reads, writes = command(), command(writes=True)


# --- keys -----------------------------------------------------------------------------------------


@writes
def del_(db: "Keyspace", *keys: bytes) -> int:
    return sum([db.remove(key) for key in keys])


COMMANDS[b"UNLINK"] = del_
WRITES.add(b"UNLINK")


@reads
def exists(db: "Keyspace", *keys: bytes) -> int:
    return sum(db.live(key) is not None for key in keys)


@reads
def type_(db: "Keyspace", key: bytes) -> bytes:
    names = {bytes: b"string", dict: b"hash", Scores: b"zset", Members: b"set"}
    value = db.live(key)
    return b"none" if value is None else names.get(type(value), b"stream")


@reads
def keys(db: "Keyspace", pattern: bytes) -> list[bytes]:
    wanted = re.compile(translate(pattern.decode("latin-1")).encode("latin-1"))
    return [key for key in list(db.keys) if wanted.match(key) and db.live(key) is not None]


@writes
def pexpire(db: "Keyspace", key: bytes, ms: bytes) -> int:
    return _expires_at(db, key, db.now_ms + number(ms))


@writes
def expire(db: "Keyspace", key: bytes, seconds: bytes) -> int:
    return _expires_at(db, key, db.now_ms + 1_000 * number(seconds))


@writes
def pexpireat(db: "Keyspace", key: bytes, at_ms: bytes) -> int:
    return _expires_at(db, key, number(at_ms))


def _expires_at(db: "Keyspace", key: bytes, at_ms: int) -> int:
    if db.live(key) is None:
        return 0
    db.expires[key] = at_ms
    if at_ms <= db.now_ms:
        db.remove(key)
    return 1


@writes
def persist(db: "Keyspace", key: bytes) -> int:
    return int(db.live(key) is not None and db.expires.pop(key, None) is not None)


@reads
def pttl(db: "Keyspace", key: bytes) -> int:
    if db.live(key) is None:
        return -2
    return db.expires[key] - db.now_ms if key in db.expires else -1


@reads
def ttl(db: "Keyspace", key: bytes) -> int:
    left_ms = pttl(db, key)
    return left_ms if left_ms < 0 else (left_ms + 500) // 1_000


# --- strings --------------------------------------------------------------------------------------


def _text(db: "Keyspace", key: bytes) -> bytes | None:
    value = db.live(key)
    if value is not None and type(value) is not bytes:
        raise ResponseError(WRONG_TYPE)
    return value


@reads
def get(db: "Keyspace", key: bytes) -> bytes | None:
    return _text(db, key)


@reads
def mget(db: "Keyspace", *keys: bytes) -> list[Any]:
    values = [db.live(key) for key in keys]
    return [value if type(value) is bytes else None for value in values]


@writes
def set_(db: "Keyspace", key: bytes, value: bytes, *options: bytes) -> Reply:
    at_ms, flags = _set_options(db, [option for option in options])
    before = _text(db, key) if b"GET" in flags else db.live(key)
    kept = before if b"GET" in flags else None
    if (b"NX" in flags and before is not None) or (b"XX" in flags and before is None):
        return kept  # type: ignore[return-value]
    if b"KEEPTTL" not in flags:
        db.expires.pop(key, None)
    db.keys[key] = value
    if at_ms is not None:
        db.expires[key] = at_ms
    return kept if b"GET" in flags else OK  # type: ignore[return-value]


def _set_options(db: "Keyspace", options: list[bytes]) -> tuple[int | None, set[bytes]]:
    """When it expires, and the other options."""
    at_ms, flags, left = None, set(), iter(options)
    for option in map(bytes.upper, left):
        if option in MS_OF:
            given = next(left, None)
            if given is None or at_ms is not None:
                raise ResponseError(SYNTAX)
            if (ms := number(given) * MS_OF[option]) <= 0:
                raise ResponseError("ERR invalid expire time in 'set' command")
            at_ms = ms if option.endswith(b"AT") else db.now_ms + ms
        elif option in (b"NX", b"XX", b"GET", b"KEEPTTL"):
            flags.add(option)
        else:
            raise ResponseError(SYNTAX)
    if {b"NX", b"XX"} <= flags or (b"KEEPTTL" in flags and at_ms is not None):
        raise ResponseError(SYNTAX)
    return at_ms, flags


@writes
def getdel(db: "Keyspace", key: bytes) -> bytes | None:
    value = _text(db, key)
    db.remove(key)
    return value


@writes
def incrby(db: "Keyspace", key: bytes, by: bytes) -> int:
    step, stored = number(by), _text(db, key)
    after = _sum(number(b"0" if stored is None else stored), step)
    db.keys[key] = b"%d" % after
    return after


@writes
def incr(db: "Keyspace", key: bytes) -> int:
    return incrby(db, key, b"1")


def _sum(before: int, by: int) -> int:
    if not -(2**63) <= before + by < 2**63:
        raise ResponseError("ERR increment or decrement would overflow")
    return before + by


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


@reads
def hget(db: "Keyspace", key: bytes, name: bytes) -> bytes | None:
    return _hash(db, key).get(name)


@reads
def hmget(db: "Keyspace", key: bytes, name: bytes, *names: bytes) -> list[bytes | None]:
    found = _hash(db, key)
    return [found.get(each) for each in (name, *names)]


@reads
def hgetall(db: "Keyspace", key: bytes) -> list[bytes]:
    return [part for item in _hash(db, key).items() for part in item]


@reads
def hkeys(db: "Keyspace", key: bytes) -> list[bytes]:
    return list(_hash(db, key))


@reads
def hvals(db: "Keyspace", key: bytes) -> list[bytes]:
    return list(_hash(db, key).values())


@reads
def hlen(db: "Keyspace", key: bytes) -> int:
    return len(_hash(db, key))


@reads
def hexists(db: "Keyspace", key: bytes, name: bytes) -> int:
    return int(name in _hash(db, key))


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
    after = _sum(stored, step)
    _made_hash(db, key)[name] = b"%d" % after
    return after


def kept_or_gone(db: "Keyspace", key: bytes, value: Any, done: int) -> int:
    """A key with nothing in it is no key."""
    if not value:
        db.remove(key)
    return done
