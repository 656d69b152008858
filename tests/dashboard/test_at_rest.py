"""Which groups would rest, from round to round: as if all were gone through each time."""

import random
from collections.abc import Mapping, Set
from typing import Any

import msgspec
import pytest

from assignment.coordinator.resting import Rest
from dashboard.coordinator import at_rest
from dashboard.coordinator.at_rest import AtRest, Kept, read
from dashboard.coordinator.rows import Row
from dashboard.live import rests, together
from dashboard.live.connection import sync_client

NAMES = [f"g{n}" for n in range(12)]


def kept(digest: int = 1, until_ms: int = 100) -> Kept:
    rest = Rest(looked_ms=1, run_id="r", counted="c")
    return Kept(rest=rest, digest=digest, until_ms=until_ms, since_ms=1)


class World:
    """Rows, what is kept, and a share, which change at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.kept: dict[str, Kept] = {}
        self.new = set[str]()
        self.rows: dict[str, Row] = {}
        self.share: Any = self.rows
        self.now_ms = 0
        self.one = AtRest(self.news)

    def news(self) -> tuple[Mapping[str, Kept], Set[str]]:
        new, self.new = self.new, set()
        return dict(self.kept), new

    def happens(self) -> None:
        name, chance = self.random.choice(NAMES), self.random.random()
        if chance < 0.4:
            until_ms = self.now_ms + self.random.randrange(5)
            self.kept[name] = kept(self.random.randrange(1, 3), until_ms)
            self.new.add(name)
        elif chance < 0.5:
            self.kept.pop(name, None)
            self.new.add(name)
        elif chance < 0.8:
            row = Row(1, 1, self.random.choice([None, 1, 2]))
            self.rows = self.rows | {name: row}
        elif chance < 0.85:
            self.rows = {n: row for n, row in self.rows.items() if n != name}
        elif chance < 0.9:
            self.now_ms += self.random.randrange(3)
        some = [n for n in self.rows if self.random.random() < 0.8]
        if chance > 0.95 or not self.rows.keys() >= set(self.share):
            self.share = self.random.choice([some, self.rows])

    def would(self) -> dict[str, Rest]:
        return {
            name: self.kept[name].rest
            for name in self.share
            if name in self.kept and self.rows[name].digest in (None, self.kept[name].digest)
        }


@pytest.mark.parametrize("seed", range(20))
def test_what_changed_comes_to_what_all_would(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at_rest, "SPARE_MAX", 3)
    world, before = World(seed), dict[str, Rest]()
    for _ in range(300):
        for _ in range(world.random.randrange(4)):
            world.happens()
        world.one.bring_forward(world.rows, world.share)
        found = world.would()
        assert world.one.rests == found
        assert world.one.names == set(world.share)
        others = {n for n in NAMES if before.get(n) is not found.get(n)}
        assert others <= world.one.changed
        ended = {n for n in found if world.kept[n].until_ms <= world.now_ms}
        assert world.one.due(world.now_ms) == world.one.due(world.now_ms) == ended
        if world.random.random() < 0.7:  # else whoever asked for it failed
            world.one.changed.clear()
            before = found
    assert len(world.one._moments) <= 3 * len(NAMES) + 3


def test_of_what_is_as_it_was_nothing_is_said() -> None:
    rows = {"a": Row(1, 1, 1)}
    one = AtRest(lambda: ({"a": kept()}, set()))
    one.bring_forward(rows, rows)
    assert one.changed == {"a"}
    one.changed.clear()
    one.bring_forward(rows, rows)
    one.bring_forward(dict(rows), rows)
    assert not one.changed


def stored(**more: int) -> bytes:
    return msgspec.json.encode(kept(**more))


def test_news_are_of_what_was_kept_or_forgotten_since(store: Any) -> None:
    known, other = rests.Known(read), rests.Known(read)
    rests.keep("a", stored())
    rests.keep("b", stored(digest=2))
    found, new = known.news()
    assert {name: one.digest for name, one in found.items()} == {"a": 1, "b": 2}
    assert new == {"a", "b"}
    rests.keep("a", stored())
    assert known.news()[1] == set(), "it is the same"
    rests.forget(["b"])
    rests.keep("c", b"of another version")
    assert known.all().keys() == {"a"}
    found, new = known.news()
    assert (found.keys(), new) == ({"a"}, {"b", "c"})
    assert other.news()[1] >= {"a"}, "each has its own"


def test_news_are_of_what_somebody_else_wrote_too(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = rests.Known(read)
    rests.keep("a", stored())
    rests.keep("b", stored())
    known.news()
    sync_client().hdel(rests._key(), "a")
    sync_client().hset(rests._key(), "b", stored(digest=2))
    assert known.news()[1] == set()
    monkeypatch.setattr(rests, "WHOLE_EVERY_S", 0.0)
    found, new = known.news()
    assert (found.keys(), new) == ({"b"}, {"a", "b"})


def test_news_that_were_asked_for_are_of_then(store: Any) -> None:
    known = rests.Known(read)
    rests.keep("a", stored())
    known.news()
    rests.keep("a", stored(digest=2))
    together.ask(known.asked())
    rests.keep("b", stored())
    assert known.news()[1] == {"a"}
    assert known.news()[1] == {"b"}


@pytest.mark.parametrize(
    ("bound", "most", "is_whole"),
    [
        ("NEW_MAX", 3, False),
        ("NEW_MAX", 2, True),
        ("CHANGES_KEPT", 5, False),
        ("CHANGES_KEPT", 4, True),
    ],
)
def test_of_too_many_news_all_is_read(
    store: Any, monkeypatch: pytest.MonkeyPatch, bound: str, most: int, is_whole: bool
) -> None:
    known = rests.Known(read)
    rests.keep("a", stored())
    known.news()
    for name in ("a", "b", "c"):
        rests.keep(name, stored(digest=2))
    monkeypatch.setattr(rests, bound, most)
    assert known._ask().is_whole is is_whole
    assert known.news()[1] == {"a", "b", "c"}


def test_after_the_log_was_lost_all_is_read(store: Any) -> None:
    known = rests.Known(read)
    rests.keep("a", stored())
    known.news()
    store.delete(rests._changes())
    store.hset(rests._key(), "b", stored())
    assert known.news()[1] == {"b"}
    assert known._ask().is_whole
