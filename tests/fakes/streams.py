"""Commands of Redis on streams: entries, ranges, trimming, and what is known of a whole stream.

Of consumer groups there is what makes and ends one: that alone makes an empty stream.
"""

from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from tests.fakes.commands import COMMANDS, SYNTAX, reads, writes
from tests.fakes.values import ID_MAX, OK, Entry, Id, Nested, Stream, id_of, id_text, number

if TYPE_CHECKING:
    from tests.fakes.keyspace import Keyspace

ID = itemgetter(0)
NODE = 100  # entries; trimming by "~" drops whole nodes
TOP = "smaller than the target stream top item"
NEEDS_KEY = (
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use"
    " the MKSTREAM option to create an empty stream automatically."
)


def found(db: "Keyspace", key: bytes) -> Stream | None:
    return db.of_kind(key, Stream)


def shown(entry: Entry) -> list[Any]:
    return [id_text(entry[0]), list(entry[1])]


# --- appending and trimming -----------------------------------------------------------------------


@writes
def xadd(db: "Keyspace", key: bytes, *rest: bytes) -> bytes:
    trim, rest = _trim_options(rest) if rest[0].upper() == b"MAXLEN" else (None, rest)
    if len(rest) < 3 or len(rest) % 2 == 0:
        raise ResponseError("ERR wrong number of arguments for 'xadd' command")
    stream = found(db, key) or Stream()
    stream.last_id = _next_id(stream.last_id, rest[0], db.now_ms)
    stream.entries.append((stream.last_id, rest[1:]))
    stream.added += 1
    db.keys[key] = stream
    if trim:
        _trim(stream, *trim)
    return id_text(stream.last_id)


def _next_id(last_id: Id, asked: bytes, now_ms: int) -> Id:
    """`*`: Redis chooses."""
    if asked == b"*":
        return max((now_ms, 0), (last_id[0], last_id[1] + 1))
    entry_id = id_of(asked)
    if entry_id == (0, 0):
        raise ResponseError("ERR The ID specified in XADD must be greater than 0-0")
    if entry_id <= last_id:
        raise ResponseError(f"ERR The ID specified in XADD is equal or {TOP}")
    return entry_id


Trim = tuple[bytes, bool, bytes]  # how, whether exactly, and down to what


def _trim_options(args: tuple[bytes, ...]) -> tuple[Trim, tuple[bytes, ...]]:
    """And what follows them."""
    marks = int(args[1:2] in ((b"~",), (b"=",)))
    if len(args) < 2 + marks:
        raise ResponseError(SYNTAX)
    return (args[0].upper(), args[1] != b"~", args[1 + marks]), args[2 + marks :]


def _trim(stream: Stream, how: bytes, exact: bool, least: bytes, most: int | None = None) -> int:
    entries = stream.entries
    match how:
        case b"MAXLEN":
            count = max(0, len(entries) - number(least))
        case b"MINID":
            count = bisect_left(entries, id_of(least), key=ID)
        case _:
            raise ResponseError(SYNTAX)
    count = count if most is None else min(count, most)
    count = count if exact else count // NODE * NODE
    del entries[:count]
    return count


@writes
def xtrim(db: "Keyspace", key: bytes, *args: bytes) -> int:
    options, more = _trim_options(args)
    _trim(Stream(), *options)  # what is wrong with them comes first
    most = _limit(more, exact=options[1]) if more else None
    return _trim(found(db, key) or Stream(), *options, most)


def _limit(more: tuple[bytes, ...], *, exact: bool) -> int:
    if exact or len(more) != 2 or more[0].upper() != b"LIMIT":
        raise ResponseError(SYNTAX)
    return number(more[1])


@writes
def xdel(db: "Keyspace", key: bytes, *ids: bytes) -> int:
    wanted, stream = set(map(id_of, ids)), found(db, key) or Stream()
    before = len(stream.entries)
    stream.entries[:] = [entry for entry in stream.entries if entry[0] not in wanted]
    return before - len(stream.entries)


@writes
def xsetid(db: "Keyspace", key: bytes, last: bytes) -> bytes:
    stream, last_id = found(db, key), id_of(last)
    if stream is None:
        raise ResponseError("ERR no such key")
    if stream.entries and last_id < stream.entries[-1][0]:
        raise ResponseError(f"ERR The ID specified in XSETID is {TOP}")
    stream.last_id = last_id
    return OK


# --- reading --------------------------------------------------------------------------------------


def between(stream: Stream, low: bytes, high: bytes) -> list[Entry]:
    """A bracket before an id leaves it out."""
    entries, high_id = stream.entries, None if high == b"+" else id_of(high.lstrip(b"("), ID_MAX)
    if low[:1] == b"(":
        first = bisect_right(entries, id_of(low[1:]), key=ID)
    else:
        first = 0 if low == b"-" else bisect_left(entries, id_of(low), key=ID)
    if high_id is None:
        return entries[first:]
    last = bisect_left if high[:1] == b"(" else bisect_right
    return entries[first : last(entries, high_id, key=ID)]


def _ranged(
    db: "Keyspace", key: bytes, ends: tuple[bytes, bytes], options: tuple[bytes, ...], step: int
) -> Nested | None:
    count = _count(options)
    try:
        stream = found(db, key)
    except ResponseError:
        between(Stream(), *ends)  # what is wrong with the ids comes first
        raise
    if (ends, count, step) == ((b"-", b"+"), 1, -1) and stream:
        return Nested(map(shown, stream.entries[-1:]))  # what is asked most
    entries = between(stream or Stream(), *ends)[::step]
    return None if count == 0 and stream else Nested(map(shown, entries[:count]))


def _count(options: tuple[bytes, ...]) -> int | None:
    if not options:
        return None
    if len(options) != 2 or options[0].upper() != b"COUNT":
        raise ResponseError(SYNTAX)
    return max(0, number(options[1]))


COMMANDS |= {
    b"XRANGE": lambda db, key, low, high, *options: _ranged(db, key, (low, high), options, 1),
    b"XREVRANGE": lambda db, key, high, low, *options: _ranged(db, key, (low, high), options, -1),
    b"XLEN": lambda db, key: len((found(db, key) or Stream()).entries),
}


@reads
def memory(db: "Keyspace", kind: bytes, key: bytes, *samples: bytes) -> int | None:
    """What its entries hold, without what a server needs for them."""
    if kind.upper() != b"USAGE":
        raise ResponseError(f"ERR unknown subcommand '{kind.decode()}'. Try MEMORY HELP.")
    stream = found(db, key)
    return stream and sum(sum(map(len, fields)) for _, fields in stream.entries)


@reads
def xinfo(db: "Keyspace", kind: bytes, key: bytes) -> list[bytes | int]:
    """Without how it lies in memory, and without entries."""
    if kind.upper() != b"STREAM":
        raise ResponseError(f"ERR unknown subcommand '{kind.decode()}'. Try XINFO HELP.")
    stream = found(db, key)
    if stream is None:
        raise ResponseError("ERR no such key")
    facts = [b"length", len(stream.entries), b"last-generated-id", id_text(stream.last_id)]
    since_7 = [b"entries-added", stream.added] if db.version >= (7,) else []
    return Nested([*facts, *since_7, b"groups", len(stream.groups)])


@writes
def xgroup(db: "Keyspace", what: bytes, key: bytes, group: bytes, *rest: bytes) -> bytes | int:
    stream, after, makes = found(db, key), rest[:1], [*map(bytes.upper, rest[1:])] == [b"MKSTREAM"]
    if stream is None and not makes:
        raise ResponseError(NEEDS_KEY)
    stream = stream or Stream()
    match what.upper():
        case b"CREATE" if after and (makes or not rest[1:]):
            if after != (b"$",):
                id_of(after[0])
            if group in stream.groups:
                raise ResponseError("BUSYGROUP Consumer Group name already exists")
            stream.groups.add(group)
            db.keys[key] = stream
            return OK
        case b"DESTROY" if not rest:
            there = group in stream.groups
            stream.groups.discard(group)
            return int(there)
    raise ResponseError(f"ERR unknown subcommand '{what.decode()}'. Try XGROUP HELP.")
