"""Random operations: the fake and the real servers answer the same and hold the same after them.

A failing sequence prints its seed and its operations. Planted bugs show that a difference is found.
"""

import random
from typing import Any

import pytest

from agent.store.door import Door
from assignment import invariants
from assignment.invariants import FaultKind
from tests.contract.random_ops import Generator
from tests.contract.side import Operation, Side
from tests.contract.world import World
from tests.fakes import FakeDoor, FakeRedis, script_bugs

SEQUENCES_PER_SEED = 20
SEEDS = range(5)  # with the sequences of each: 100 on each server
SEQUENCES_UNTIL_FOUND = 200


def run_sequence(door: Door, name: str, rng: random.Random) -> None:
    model, real = World(FakeDoor(FakeRedis()), name), World(door, name)
    sides = Side(model), Side(real)
    done: list[Operation] = []
    for operation in Generator(rng, model).operations():
        done.append(operation)
        answers = [side.do(operation) for side in sides]
        assert answers[0] == answers[1], "the answers differ after\n" + "\n".join(map(str, done))
    seen = [side.seen() for side in sides]
    for part, value in seen[0].items():
        assert value == seen[1][part], f"{part} differs after\n" + "\n".join(map(str, done))
    check_history(real)


def check_history(world: World) -> None:
    """Fences of a partition only grow, one owner at a time, ends not before starts."""
    group = world.read()
    last: dict[Any, Any] = {}
    for event in world.events():
        if event.kind == "fenced":
            continue
        before = last.get(event.partition)
        if event.kind == "acquired":
            assert before is None or before.kind != "acquired", "two owners"
            assert before is None or (event.fence > before.fence and event.at_ms >= before.at_ms)
        else:
            assert (before.kind, before.fence) == ("acquired", event.fence)
            assert event.at_ms >= before.at_ms
        last[event.partition] = event
    for partition, grant in group.grants.items():
        event = last[partition]
        assert event.fence == grant.fence
        assert (grant.ended or "acquired") == event.kind
        assert grant.ended is None or grant.until_ms == event.at_ms
    assert not [f for f in invariants.faults(group) if f.kind is FaultKind.LOCK]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_operations_answer_and_leave_the_same(real_world: World, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(SEQUENCES_PER_SEED):
        run_sequence(real_world.door, f"{real_world.keys.group}-{number}", rng)


# --- planted bugs: each would break a promise, each must be found ---------------------------------


PLANTED = (
    "commit_without_fence_check", "commit_never_says_already", "renew_that_takes_back",
    "acquire_with_fence_reused", "release_does_not_compare", "snapshot_trims_to_itself",
    "evict_without_beat_check", "set_target_ignores_the_coordinator",
    "set_target_keeps_every_ready_learner", "report_takes_late_ones",
    "report_never_hears_of_ready_learners", "join_forgets_that_it_was_told_to_leave",
    "drain_changes_no_epoch", "switch_without_compare", "switch_that_moves",
    "acquire_forgets_the_mode", "set_target_forgets_the_mode",
    "release_that_leaves_what_was_owned",
)  # fmt: skip


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(
    valkey: Door, group_name: str, monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    getattr(script_bugs, bug)(monkeypatch)
    rng = random.Random(1)
    with pytest.raises(AssertionError, match="differ"):
        for number in range(SEQUENCES_UNTIL_FOUND):
            run_sequence(valkey, f"{group_name}-{number}", rng)
