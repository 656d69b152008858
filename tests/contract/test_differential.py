"""Random operations: the fake and the real servers answer the same and hold the same after them.

A failing sequence prints its seed and its operations. Planted bugs show that a difference is found.
"""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agent.store import Door
from tests.contract.random_ops import Generator
from tests.contract.side import Operation, Side
from tests.contract.world import World
from tests.fakes import FakeDoor, FakeRedis, owners
from tests.fakes.group import Group
from tests.fakes.scripts import SCRIPTS
from tests.fakes.server import b

SEQUENCES_PER_SEED = 20
SEEDS = range(5)  # with the sequences of each: 100 on each server
SEQUENCES_UNTIL_FOUND = 60


def run_sequence(door: Door, name: str, rng: random.Random) -> None:
    model, real = World(FakeDoor(FakeRedis()), name), World(door, name)
    sides = Side(model), Side(real)
    done: list[Operation] = []
    for operation in Generator(rng, model).operations():
        done.append(operation)
        answers = [side.do(operation) for side in sides]
        told = "\n".join(map(shown, done))
        assert answers[0] == answers[1], f"the answers differ after\n{told}"
    seen = [side.seen() for side in sides]
    for part, value in seen[0].items():
        assert value == seen[1][part], f"{part} differs after\n" + "\n".join(map(shown, done))
    check_history(real)


def shown(operation: Operation) -> str:
    return json.dumps(operation, default=str)


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
    for partition, lock in group.locks.items():
        assert (group.grants[partition].fence, group.grants[partition].ended) == (lock.fence, None)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_operations_answer_and_leave_the_same(real_world: World, seed: int) -> None:
    rng = random.Random(seed)
    for number in range(SEQUENCES_PER_SEED):
        run_sequence(real_world.door, f"{real_world.keys.group}-{number}", rng)


# --- planted bugs: each would break a promise, each must be found ---------------------------------


def commit_ignores_the_fence(g: Group, args: Sequence[str], raw: Sequence[str | bytes]) -> Any:
    last = str(g.last_fence(args[0]))
    return owners.commit(g, [*args[:2], last, *args[3:]], [*raw[:2], last, *raw[3:]])


def commit_never_says_already(g: Group, args: Sequence[str], raw: Sequence[str | bytes]) -> Any:
    answer = owners.commit(g, args, raw)
    return ["moved", answer[1]] if answer[0] == "already" else answer


def renew_revives(g: Group, args: Sequence[str], raw: Sequence[str | bytes]) -> Any:
    for partition, fence in owners.pairs(args, 2):
        grant = g.grant(partition)
        if grant and grant[:2] == (int(fence), args[0]) and not g.holder(partition):
            g.set_lock(partition, args[0], int(fence), g.now + 1)
    return owners.renew(g, args)


def acquire_reuses_a_fence(g: Group, args: Sequence[str], raw: Sequence[str | bytes]) -> Any:
    answer = owners.acquire(g, args)
    for one in answer[1:]:
        if one[1] == "granted" and one[3] == "restoring":
            fence = max(1, int(one[2]) - 1)
            g.set_lock(one[0], args[0], fence, g.now + 60_000)
    return answer


def release_does_not_compare(g: Group, args: Sequence[str], raw: Sequence[str | bytes]) -> Any:
    claims = [(p, str(g.last_fence(p))) for p, _ in owners.pairs(args, 1)]
    return owners.release(g, [args[0], *(part for claim in claims for part in claim)])


def snapshot_trims_to_itself(g: Group, args: Sequence[str], raw: Sequence[str | bytes]) -> Any:
    answer = owners.snapshot(g, args)
    if answer == "done":
        g.server.streams.pop(f"{g.prefix}changelog:{args[0]}", None)
    return answer


def evict_ignores_newer_beats(g: Group, args: Sequence[str], raw: Sequence[str | bytes]) -> Any:
    return SCRIPTS_AS_THEY_ARE["evict"](g, [args[0], str(g.now), args[2]], raw)


def set_target_ignores_the_coordinator(
    g: Group, args: Sequence[str], raw: Sequence[str | bytes]
) -> Any:
    current = g.meta("coordinator_epoch", args[0])
    return SCRIPTS_AS_THEY_ARE["set_target"](g, [current, *args[1:]], raw)


def report_takes_late_ones(g: Group, args: Sequence[str], raw: Sequence[str | bytes]) -> Any:
    stored = g.hash("reports").get(args[0])
    if stored:
        number, _, rest = stored.split(b" ", 2)
        g.hash("reports")[args[0]] = b" ".join((number, b("0"), rest))
    return SCRIPTS_AS_THEY_ARE["report"](g, args, raw)


def report_never_hears_of_ready_learners(
    g: Group, args: Sequence[str], raw: Sequence[str | bytes]
) -> Any:
    return SCRIPTS_AS_THEY_ARE["report"](g, [*args[:10], ""], raw)


def join_forgets_that_it_was_told_to_leave(
    g: Group, args: Sequence[str], raw: Sequence[str | bytes]
) -> Any:
    if g.is_member(args[0]):
        g.set_row(args[0], g.row(args[0]) | {"drain": ""})
    return SCRIPTS_AS_THEY_ARE["join"](g, args, raw)


def set_drain_changes_no_epoch(g: Group, args: Sequence[str], raw: Sequence[str | bytes]) -> Any:
    epoch = g.meta("group_epoch")
    answer = SCRIPTS_AS_THEY_ARE["set_drain"](g, args, raw)
    g.set_meta("group_epoch", epoch)
    return [epoch, *answer[1:]]


def set_target_keeps_every_ready_learner(
    g: Group, args: Sequence[str], raw: Sequence[str | bytes]
) -> Any:
    rows = {member: g.row(member) for member in g.hash("members")}
    answer = SCRIPTS_AS_THEY_ARE["set_target"](g, args, raw)
    for member, row in rows.items():
        g.set_row(member, row)
    return answer


SCRIPTS_AS_THEY_ARE = dict(SCRIPTS)
PLANTED = {
    "commit": (commit_ignores_the_fence, commit_never_says_already),
    "renew": (renew_revives,),
    "acquire": (acquire_reuses_a_fence,),
    "release": (release_does_not_compare,),
    "snapshot": (snapshot_trims_to_itself,),
    "evict": (evict_ignores_newer_beats,),
    "set_target": (set_target_ignores_the_coordinator, set_target_keeps_every_ready_learner),
    "report": (report_takes_late_ones, report_never_hears_of_ready_learners),
    "join": (join_forgets_that_it_was_told_to_leave,),
    "set_drain": (set_drain_changes_no_epoch,),
}


@pytest.mark.parametrize(
    ("name", "broken"), [(name, bug) for name, bugs in PLANTED.items() for bug in bugs]
)
def test_a_planted_bug_is_found(
    doors: dict[str, Door],
    group_name: str,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    broken: Callable[..., Any],
) -> None:
    monkeypatch.setitem(SCRIPTS, name, broken)
    rng = random.Random(1)
    with pytest.raises(AssertionError, match="differ"):
        for number in range(SEQUENCES_UNTIL_FOUND):
            run_sequence(doors["valkey"], f"{group_name}-{number}", rng)
