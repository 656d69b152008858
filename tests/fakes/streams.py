"""Commands of Redis on streams: entries, ranges, trimming, and what is known of a whole stream.

Of consumer groups there is what makes and ends one: that alone makes an empty stream.
"""

from bisect import bisect_left, bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from tests.fakes.commands import SYNTAX, reads, writes
from tests.fakes.values import (
    ID_MAX,
    OK,
    Entry,
    Id,
    Nested,
    Reply,
    Stream,
    id_of,
    id_text,
    number,
)

if TYPE_CHECKING:
    from tests.fakes.keyspace import Keyspace

ID = itemgetter(0)
NODE = 100  # entries; trimming by "~" drops whole nodes
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
    args = list(rest)
    trim = _trim_options(args) if args[0].upper() == b"MAXLEN" else None
    if len(args) < 3 or len(args) % 2 == 0:
        raise ResponseError("ERR wrong number of arguments for 'xadd' command")
    stream = found(db, key) or Stream()
    stream.last_id = _next_id(stream, _asked(args[0]), db.now_ms)
    stream.entries.append((stream.last_id, tuple(args[1:])))
    stream.added += 1
    db.keys[key] = stream
    if trim:
        _trim(stream, *trim)
    return id_text(stream.last_id)


def _asked(text: bytes) -> tuple[int | None, int | None]:
    """None: Redis chooses."""
    if text == b"*":
        return None, None
    if text.endswith(b"-*"):
        return id_of(text[:-2])[0], None
    if (entry_id := id_of(text)) == (0, 0):
        raise ResponseError("ERR The ID specified in XADD must be greater than 0-0")
    return entry_id


def _next_id(stream: Stream, asked: tuple[int | None, int | None], now_ms: int) -> Id:
    last_ms, last_seq = stream.last_id
    ms, seq = asked
    if ms is None:
        ms = max(now_ms, last_ms)
    if seq is None:
        seq = last_seq + 1 if ms == last_ms else 0
    entry_id = ms, seq
    if entry_id <= stream.last_id:
        raise ResponseError(
            "ERR The ID specified in XADD is equal or smaller than the target stream top item"
        )
    return entry_id


def _trim_options(args: list[bytes]) -> tuple[bytes, bool, bytes]:
    """Takes them off the front: how, whether exactly, and down to what."""
    how = args.pop(0).upper()
    exact = not (args and args[0] == b"~")
    if args and args[0] in (b"~", b"="):
        del args[0]
    if not args:
        raise ResponseError(SYNTAX)
    least = args.pop(0)
    if how == b"MAXLEN":
        if number(least) < 0:
            raise ResponseError("ERR The MAXLEN argument must be >= 0.")
    else:
        id_of(least)
    return how, exact, least


def _trim(stream: Stream, how: bytes, exact: bool, least: bytes) -> int:
    entries = stream.entries
    if how == b"MAXLEN":
        count = max(0, len(entries) - number(least))
    else:
        count = bisect_left(entries, id_of(least), key=ID)
    count = count if exact else count // NODE * NODE
    del entries[:count]
    return count


@writes
def xtrim(db: "Keyspace", key: bytes, *rest: bytes) -> int:
    args = list(rest)
    if args[0].upper() not in (b"MAXLEN", b"MINID"):
        raise ResponseError(SYNTAX)
    options = _trim_options(args)
    if args:
        raise ResponseError(SYNTAX)
    stream = found(db, key)
    return _trim(stream, *options) if stream else 0


@writes
def xdel(db: "Keyspace", key: bytes, *ids: bytes) -> int:
    stream, wanted = found(db, key), {id_of(entry_id) for entry_id in ids}
    if stream is None:
        return 0
    gone = [entry[0] for entry in stream.entries if entry[0] in wanted]
    stream.entries[:] = [entry for entry in stream.entries if entry[0] not in wanted]
    stream.deleted_id = max([stream.deleted_id, *gone])
    return len(gone)


@writes
def xsetid(db: "Keyspace", key: bytes, last: bytes) -> bytes:
    stream, last_id = found(db, key), id_of(last)
    if stream is None:
        raise ResponseError("ERR no such key")
    if stream.entries and last_id < stream.entries[-1][0]:
        raise ResponseError(
            "ERR The ID specified in XSETID is smaller than the target stream top item"
        )
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


@reads
def xrange(db: "Keyspace", key: bytes, low: bytes, high: bytes, *options: bytes) -> Reply:
    return _ranged(db, key, (low, high), options, 1)


@reads
def xrevrange(db: "Keyspace", key: bytes, high: bytes, low: bytes, *options: bytes) -> Reply:
    return _ranged(db, key, (low, high), options, -1)


@reads
def xlen(db: "Keyspace", key: bytes) -> int:
    stream = found(db, key)
    return len(stream.entries) if stream else 0


@reads
def xread(db: "Keyspace", *rest: bytes) -> list[Any] | None:
    """As one whose time to block is over."""
    args, count = list(rest), None
    while args and (name := args.pop(0).upper()) != b"STREAMS":
        given = number(args.pop(0))
        count = given if name == b"COUNT" and given > 0 else count
    half = len(args) // 2
    if len(args) % 2 or not args:
        raise ResponseError(
            "ERR Unbalanced 'xread' list of streams: for each stream key an ID or '$' must be"
            " specified."
        )
    asked = [(args[i], _above(db, args[i], args[i + half])[:count]) for i in range(half)]
    return Nested([key, list(map(shown, new))] for key, new in asked if new) or None


def _above(db: "Keyspace", key: bytes, after: bytes) -> list[Entry]:
    stream = found(db, key)
    low = b"-" if after == b"$" else b"(" + id_text(id_of(after))
    return between(stream, low, b"+") if stream and after != b"$" else []


@reads
def xinfo(db: "Keyspace", kind: bytes, key: bytes) -> list[Any]:
    if kind.upper() != b"STREAM":
        raise ResponseError(f"ERR unknown subcommand '{kind.decode()}'. Try XINFO HELP.")
    stream = found(db, key)
    if stream is None:
        raise ResponseError("ERR no such key")
    entries = stream.entries
    nodes = -(-len(entries) // NODE)
    answer: list[Any] = [b"length", len(entries), b"radix-tree-keys", nodes]
    answer += [b"radix-tree-nodes", nodes + 1, b"last-generated-id", id_text(stream.last_id)]
    if db.version >= (7,):
        first_id = stream.entries[0][0] if entries else (0, 0)
        answer += [b"max-deleted-entry-id", id_text(stream.deleted_id)]
        answer += [b"entries-added", stream.added, b"recorded-first-entry-id", id_text(first_id)]
    answer += [b"groups", len(stream.groups)]
    first, last = map(shown, (entries[0], entries[-1])) if entries else (None, None)
    return Nested([*answer, b"first-entry", first, b"last-entry", last])


# --- groups of consumers --------------------------------------------------------------------------


@writes
def xgroup(db: "Keyspace", what: bytes, key: bytes, *rest: bytes) -> bytes | int:
    stream, makes = found(db, key), bool(rest[2:]) and rest[2].upper() == b"MKSTREAM"
    match what.upper():
        case b"CREATE" if len(rest) >= 2:
            if stream is None and not makes:
                raise ResponseError(NEEDS_KEY)
            return _create_group(db, key, stream, rest[0], rest[1])
        case b"DESTROY" if len(rest) == 1:
            if stream is None:
                raise ResponseError(NEEDS_KEY)
            return int(stream.groups.pop(rest[0], None) is not None)
    raise ResponseError(f"ERR unknown subcommand '{what.decode()}'. Try XGROUP HELP.")


def _create_group(
    db: "Keyspace", key: bytes, stream: Stream | None, group: bytes, after: bytes
) -> bytes:
    after_id = None if after == b"$" else id_of(after)
    if stream is None:
        stream = db.keys[key] = Stream()
    if group in stream.groups:
        raise ResponseError("BUSYGROUP Consumer Group name already exists")
    stream.groups[group] = stream.last_id if after_id is None else after_id
    return OK
