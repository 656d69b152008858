"""The Redis Cluster of tests and checks, struck as they strike it; why scripts declare a guard."""

import pytest
import redis

from assignment.keys import GroupKeys
from assignment.slots import slot_of
from dashboard.evaluation.cluster_servers import Cluster

HALF = """redis.call('HINCRBY', KEYS[1], 'n', 1)
redis.call('GET', string.sub(KEYS[1], 1, -5) .. 'lock:p:0')
return redis.call('HINCRBY', KEYS[1], 'n', 1)"""  # finds a key as it goes, as a group's scripts do


def test_a_slot_is_moved_and_its_primary_replaced_and_the_cluster_is_whole_again(
    cluster: Cluster, group_name: str
) -> None:
    source = cluster.primary_of(group_name)
    source.ask("SET", group_name, "kept")
    target = cluster.move_slot(group_name)
    assert target is not source and target.ask("GET", group_name) == b"kept"
    target.ask("SET", group_name, "settled")
    target.ask("WAIT", 1, 5_000)
    dead = cluster.fail_over(group_name)
    assert dead is target
    after = cluster.primary_of(group_name)
    assert after is not dead and after.ask("GET", group_name) == b"settled"
    cluster.revive(dead)
    assert len(cluster.primaries) == 3 and len(cluster.living) == 6


def test_a_script_that_declares_no_guard_is_broken_off_half_way_by_a_move(
    cluster: Cluster, group_name: str
) -> None:
    """What it wrote before it met a key that is gone, or never was, stays written."""
    keys = GroupKeys(group_name)
    source = cluster.primary_of(keys.meta)
    source.ask("HSET", keys.meta, "n", 0)
    with cluster.moving(keys.meta) as move:
        with pytest.raises(redis.ResponseError, match="non local key"):
            source.ask("EVAL", HALF, 1, keys.meta)
        assert source.ask("HGET", keys.meta, "n") == b"1", "half done"
        with pytest.raises(redis.exceptions.TryAgainError):
            source.ask("EVAL", HALF, 2, *keys.of_script)
        assert source.ask("HGET", keys.meta, "n") == b"1", "not begun"
        move.move([keys.meta])
        with pytest.raises(redis.exceptions.AskError):
            source.ask("EVAL", HALF, 2, *keys.of_script)
    assert cluster.primary_of(keys.meta) is move.target
    assert move.target.ask("EVAL", HALF, 2, *keys.of_script) == 3
    assert slot_of(keys.guard) == move.slot
