"""Commands of Redis on sorted sets."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from redis.exceptions import ResponseError

from tests.fakes.commands import SYNTAX, kept_or_gone, reads, writes
from tests.fakes.values import Scores, number, score_text

if TYPE_CHECKING:
    from tests.fakes.keyspace import Keyspace


def _scores(db: "Keyspace", key: bytes) -> Scores:
    return db.of_kind(key, Scores) or Scores()


@writes
def zadd(db: "Keyspace", key: bytes, first: bytes, second: bytes, *more: bytes) -> int:
    if len(more) % 2:
        raise ResponseError(SYNTAX)
    scores = list(map(_score, (first, *more[::2])))
    found = db.keys[key] = _scores(db, key)
    before = len(found)
    found.update(zip((second, *more[1::2]), scores, strict=True))
    return len(found) - before


def _score(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        raise ResponseError("ERR value is not a valid float") from None


@reads
def zscore(db: "Keyspace", key: bytes, member: bytes) -> bytes | None:
    score = _scores(db, key).get(member)
    return None if score is None else score_text(score)


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
