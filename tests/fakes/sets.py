"""Commands of Redis on sorted sets and sets."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from redis.exceptions import ResponseError

from tests.fakes.commands import SYNTAX, kept_or_gone, reads, writes
from tests.fakes.values import WRONG_TYPE, Members, Scores, number, score_text

if TYPE_CHECKING:
    from tests.fakes.keyspace import Keyspace


# --- sorted sets ----------------------------------------------------------------------------------


def _scores(db: "Keyspace", key: bytes) -> Scores:
    value = db.live(key)
    if value is not None and type(value) is not Scores:
        raise ResponseError(WRONG_TYPE)
    return Scores() if value is None else value


@writes
def zadd(db: "Keyspace", key: bytes, first: bytes, second: bytes, *more: bytes) -> int:
    flags, rest = set(), [first, second, *more]
    while rest and rest[0].upper() in (b"NX", b"XX", b"GT", b"LT", b"CH"):
        flags.add(rest.pop(0).upper())
    if not rest or len(rest) % 2:
        raise ResponseError(SYNTAX)
    scores = map(_score, rest[::2])
    given = [*zip(rest[1::2], scores, strict=True)]
    found, changed, added = _scores(db, key), 0, 0
    for member, score in given:
        before = found.get(member)
        if not _takes(flags, before, score):
            continue
        added += before is None
        changed += before != score
        found[member] = score
    if found:
        db.keys[key] = found
    return changed if b"CH" in flags else added


def _takes(flags: set[bytes], before: float | None, score: float) -> bool:
    if before is None:
        return b"XX" not in flags
    if b"NX" in flags:
        return False
    return not (b"GT" in flags and score <= before) and not (b"LT" in flags and score >= before)


def _score(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        raise ResponseError("ERR value is not a valid float") from None


@reads
def zscore(db: "Keyspace", key: bytes, member: bytes) -> bytes | None:
    score = _scores(db, key).get(member)
    return None if score is None else score_text(score)


@reads
def zcard(db: "Keyspace", key: bytes) -> int:
    return len(_scores(db, key))


@writes
def zrem(db: "Keyspace", key: bytes, member: bytes, *members: bytes) -> int:
    found = _scores(db, key)
    done = sum([found.pop(each, None) is not None for each in (member, *members)])
    return kept_or_gone(db, key, found, done)


@reads
def zrange(db: "Keyspace", key: bytes, first: bytes, last: bytes, *options: bytes) -> list[bytes]:
    """By rank only."""
    flags = {option.upper() for option in options}
    if flags - {b"WITHSCORES"}:
        raise ResponseError(SYNTAX)
    ordered, low, high = _scores(db, key).ordered(), number(first), number(last)
    size = len(ordered)
    high = max(-1, high + size) if high < 0 else high
    return _members(ordered[max(0, low + size if low < 0 else low) : high + 1], bool(flags))


@reads
def zrangebyscore(
    db: "Keyspace", key: bytes, low: bytes, high: bytes, *options: bytes
) -> list[bytes]:
    flags = {option.upper() for option in options}
    if flags - {b"WITHSCORES"}:
        raise ResponseError(SYNTAX)
    ordered = _scores(db, key).ordered()
    return _members([item for item in ordered if _within(item[1], low, high)], bool(flags))


def _within(score: float, low: bytes, high: bytes) -> bool:
    above = score > _score(low[1:]) if low[:1] == b"(" else score >= _score(low)
    return above and (score < _score(high[1:]) if high[:1] == b"(" else score <= _score(high))


def _members(items: Iterable[tuple[bytes, float]], with_scores: bool) -> list[bytes]:
    if not with_scores:
        return [member for member, _ in items]
    return [part for member, score in items for part in (member, score_text(score))]


# --- sets -----------------------------------------------------------------------------------------


def _set(db: "Keyspace", key: bytes) -> Members:
    value = db.live(key)
    if value is not None and type(value) is not Members:
        raise ResponseError(WRONG_TYPE)
    return Members() if value is None else value


@writes
def sadd(db: "Keyspace", key: bytes, member: bytes, *members: bytes) -> int:
    found = db.keys[key] = _set(db, key)
    before = len(found)
    found.update((member, *members))
    return len(found) - before


@writes
def srem(db: "Keyspace", key: bytes, member: bytes, *members: bytes) -> int:
    found = _set(db, key)
    before = len(found)
    found.difference_update((member, *members))
    return kept_or_gone(db, key, found, before - len(found))


@reads
def smembers(db: "Keyspace", key: bytes) -> list[bytes]:
    """Redis has no order; this one is the same in every process."""
    return sorted(_set(db, key))


@reads
def sismember(db: "Keyspace", key: bytes, member: bytes) -> int:
    return int(member in _set(db, key))


@reads
def scard(db: "Keyspace", key: bytes) -> int:
    return len(_set(db, key))
