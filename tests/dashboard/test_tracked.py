"""Groups that rest are asked for again when the server says that they changed, on a real Redis."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import redis

from assignment.coordinator.resting import NEVER_MS, Rest
from assignment.scripts.group_read import Gap
from assignment.wire import GroupKeys
from dashboard.demo.embedded_redis import EmbeddedRedis
from dashboard.live import glances, together, tracked
from dashboard.live.connection import StoreUnavailable, sync_client
from dashboard.live.glances import Watch
from tests.conftest import redis_62_binary
from tests.dashboard.agents import until
from tests.dashboard.conftest import Point

NEVER = Gap(0, 0)
NAMES = ("a", "b", "c")


class Asked:
    """Which groups a glance was at, of `watch`."""

    def __init__(self, watch: Watch, rests: dict[str, Rest], patch: pytest.MonkeyPatch) -> None:
        self.watch, self.rests, self.names = watch, rests, list[str]()
        found = glances._Reading.glances

        def noted(reading: Any, of: Any) -> Any:
            self.names += of
            return found(reading, of)

        patch.setattr(glances._Reading, "glances", noted)

    def tick(self, away: Gap = NEVER, *changed: str) -> tuple[set[str], set[str]]:
        """Those that rest on, and those that were asked for."""
        self.names.clear()
        resting = set(self.watch.resting(self.rests, set(changed), away))
        return resting, set(self.names)


@pytest.fixture
def own(own_redis: EmbeddedRedis, point_at: Point) -> Iterator[Any]:
    point_at(own_redis.url)
    yield sync_client()
    sync_client().close()


def rests_of(names: tuple[str, ...], **more: Any) -> dict[str, Rest]:
    sound = {name: Rest(looked_ms=1, run_id="", counted="", **more) for name in names}
    found = glances.glances(sound)
    return {
        name: Rest(looked_ms=1, run_id=one.run_id, counted=one.counted, **more)
        for name, one in found.items()
    }


@pytest.fixture
def asked(own: Any, monkeypatch: pytest.MonkeyPatch) -> Asked:
    for name in NAMES:
        own.hset(GroupKeys(name).meta, "group_epoch", 1)
    one = Asked(Watch(), rests_of(NAMES), monkeypatch)
    assert one.tick() == (set(NAMES), set(NAMES)), "the connection is new"
    assert one.tick() == (set(NAMES), set()), "nobody said that anything changed"
    return one


def test_only_who_changed_is_asked_for(asked: Asked, own: Any) -> None:
    own.hset(GroupKeys("b").meta, "group_epoch", 2)
    assert asked.tick() == ({"a", "c"}, {"b"})
    assert asked.tick() == ({"a", "c"}, {"b"}), "it does not rest"
    own.hset(GroupKeys("b").meta, "group_epoch", 1)
    assert asked.tick() == (set(NAMES), {"b"})
    own.hset(GroupKeys("b").meta, "group_epoch", 3)
    assert asked.tick() == ({"a", "c"}, {"b"}), "it is told of again"


def test_what_is_asked_beside_other_trips_is_of_its_own_moment(asked: Asked, own: Any) -> None:
    together.ask(asked.watch.asked())
    own.hset(GroupKeys("b").meta, "group_epoch", 2)
    assert asked.tick() == (set(NAMES), set()), "that was asked before"
    assert asked.tick() == ({"a", "c"}, {"b"})


def test_what_a_round_was_told_that_was_broken_off_is_not_lost(asked: Asked, own: Any) -> None:
    own.hset(GroupKeys("b").meta, "group_epoch", 2)
    together.ask(asked.watch.asked())
    together.ask(asked.watch.asked())  # of the next round: the one before never used its answer
    assert asked.tick() == ({"a", "c"}, {"b"})


def test_a_server_that_is_away_when_it_is_asked_says_so_where_it_is_waited_for(
    asked: Asked, own_redis: EmbeddedRedis
) -> None:
    own_redis.kill()
    together.ask(asked.watch.asked())
    with pytest.raises(StoreUnavailable):
        asked.tick()
    own_redis.start()
    together.ask(asked.watch.asked())
    resting, at = asked.tick()
    assert at == set(NAMES) and not resting, "another run of Redis"


def test_thousands_that_change_at_once_are_all_told_of(own: Any, monkeypatch: Any) -> None:
    names = tuple(f"g{n}" for n in range(3_000))
    pipe = own.pipeline()
    for name in names:
        pipe.hset(GroupKeys(name).meta, "group_epoch", 1)
    pipe.execute()
    asked = Asked(Watch(), rests_of(names), monkeypatch)
    for _ in range(3):
        resting, at = asked.tick()
    assert resting == set(names) and not at
    for name in names:
        pipe.hset(GroupKeys(name).meta, "group_epoch", 2)
    pipe.execute()
    assert asked.tick() == (set(), set(names))


def test_a_key_that_goes_is_a_change(asked: Asked, own: Any) -> None:
    own.delete(GroupKeys("a").meta)
    assert asked.tick() == ({"b", "c"}, {"a"})
    own.flushall()  # is told as one word for all keys
    assert asked.tick() == (set(), set(NAMES))


@pytest.mark.parametrize("lose", ["CLIENT KILL TYPE normal SKIPME yes", "CLIENT TRACKING OFF"])
def test_where_the_server_has_forgotten_what_was_read_all_are_asked_for(
    asked: Asked, own: Any, lose: str
) -> None:
    [server] = asked.watch._servers.values()
    if "TRACKING" in lose:
        server._tracked._exchanged([tuple(lose.split())])
    else:
        own.execute_command(*lose.split())
    own.hset(GroupKeys("b").meta, "group_epoch", 2)
    assert asked.tick() == ({"a", "c"}, set(NAMES)), "without losing a round"
    while asked.watch._servers[own]._tracked._connection is None:
        asked.tick()
    assert asked.tick() == ({"a", "c"}, {"b"})


def test_one_that_hangs_or_has_no_room_is_read_over_other_connections(
    asked: Asked, own: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    [server] = asked.watch._servers.values()

    def full(*_: Any, **__: Any) -> Any:
        raise redis.ConnectionError("max number of clients reached")

    monkeypatch.setattr(server._tracked._connection, "send_packed_command", full)
    own.hset(GroupKeys("b").meta, "group_epoch", 2)
    assert asked.tick() == ({"a", "c"}, set(NAMES))
    pool = server._tracked._pool
    had = [pool.get_connection() for _ in range(2)]  # two trips go beside each other
    for one in had:
        pool.release(one)
    monkeypatch.setattr(
        pool, "connection_class", type("Full", (pool.connection_class,), {"connect": full})
    )
    own.hset(GroupKeys("a").meta, "group_epoch", 2)
    assert asked.tick() == ({"c"}, set(NAMES))
    assert server._tracked._connection is None


def test_what_another_server_says_under_the_same_name_counts_for_nothing(asked: Asked) -> None:
    [server] = asked.watch._servers.values()
    assert server._tracked.changed(server._tracked.state(), "another/run") is None
    assert server._tracked._connection is None


def test_after_a_restart_all_are_asked_for(asked: Asked, own_redis: EmbeddedRedis) -> None:
    asked.watch._servers.popitem()[1].close()
    assert asked.tick()[1] == set(NAMES)


def test_when_nobody_ticked_all_are_asked_for(asked: Asked) -> None:
    assert asked.tick(Gap(2, 3)) == (set(), set(NAMES))


def test_a_moment_that_comes_by_itself_needs_no_word(
    own: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Heartbeats write no key that is tracked."""
    keys = GroupKeys("a")
    own.hset(keys.meta, "group_epoch", 1)
    seconds, more = own.time()
    now_ms = seconds * 1000 + more // 1000
    own.zadd(keys.beats, {"m": now_ms - 5_000})
    asked = Asked(Watch(), rests_of(("a",), patience_ms=600_000, due_ms=NEVER_MS), monkeypatch)
    for _ in range(3):
        found = asked.tick()
    assert found == ({"a"}, set())
    own.zadd(keys.beats, {"m": now_ms - 4_000})
    assert asked.tick() == ({"a"}, set()), "a beat is no change"
    [server] = asked.watch._servers.values()
    assert server._still["a"] <= now_ms + 1.5 * glances.ALL_READ_MS + 60_000
    comes(server)
    assert asked.tick() == ({"a"}, {"a"})
    own.zadd(keys.ends, {"m": now_ms})
    comes(server)
    assert asked.tick() == (set(), {"a"}), "a lock ran out"


def test_of_which_there_is_another_rest_is_asked_for(asked: Asked) -> None:
    asked.rests["b"] = replace(asked.rests["b"], counted="another")
    assert asked.tick(NEVER, "b") == ({"a", "c"}, {"b"})
    del asked.rests["a"]
    assert asked.tick(NEVER, "a") == ({"c"}, {"b"})


def test_of_which_there_is_another_rest_is_known_after_the_server_was_away(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: Any) -> Any:
        raise StoreUnavailable("away")

    asked.rests["b"] = replace(asked.rests["b"], counted="another")
    with monkeypatch.context() as patch:
        patch.setattr(glances._Reading, "of_server", away)
        with pytest.raises(StoreUnavailable):
            asked.tick(NEVER, "b")
    assert asked.tick() == ({"a", "c"}, {"b"})


def test_what_another_server_has_now_does_not_rest_here(asked: Asked) -> None:
    del asked.rests["a"]
    assert asked.tick() == ({"b", "c"}, set())


def test_whose_moment_comes_is_asked_for(own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    own.hset(GroupKeys("a").meta, "group_epoch", 1)
    seconds, more = own.time()
    due_ms = seconds * 1000 + more // 1000 + 400
    asked = Asked(Watch(), rests_of(("a",), due_ms=due_ms), monkeypatch)
    for _ in range(2):
        assert asked.tick()[0] == {"a"}
    until(lambda: asked.tick() == (set(), {"a"}))


def comes(server: Any) -> None:
    """The moment of a."""
    server._still["a"] = 0
    server._moments[:] = [(0, "a")]


def test_a_server_that_does_not_tell_is_asked_for_all(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, own: Any
) -> None:
    monkeypatch.setattr(tracked, "TRACK", ("CLIENT", "NONSENSE"))
    watch = Asked(Watch(), asked.rests, monkeypatch)
    for _ in range(3):
        assert watch.tick() == (set(NAMES), set(NAMES))
    own.hset(GroupKeys("b").meta, "group_epoch", 2)
    assert watch.tick() == ({"a", "c"}, set(NAMES))


def test_redis_6_2_tells_as_well(
    own_redis: EmbeddedRedis, point_at: Point, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    server = EmbeddedRedis(tmp_path / "old", binary=redis_62_binary())
    server.start()
    try:
        point_at(server.url)
        sync_client().hset(GroupKeys("a").meta, "group_epoch", 1)
        asked = Asked(Watch(), rests_of(("a",)), monkeypatch)
        for _ in range(3):
            found = asked.tick()
        assert found == ({"a"}, set())
        sync_client().hset(GroupKeys("a").meta, "group_epoch", 2)
        assert asked.tick() == (set(), {"a"})
    finally:
        sync_client().close()
        server.stop()
