"""A person sets a committed offset: only while it stands still, under a new fence, in one step."""

from pathlib import Path

import pytest

from agent.state.partition import PartitionState
from agent.store.door import pairs
from assignment.pauses import Pause, Pauses, PauseState
from assignment.scripts.agent_side import CommitResult, Granted
from assignment.scripts.dead_letters import Bounds, DeadLetter, dead_letters
from assignment.scripts.offsets import OffsetFacts, OffsetSet, offset_facts, set_offset
from assignment.scripts.pausing import set_pauses
from assignment.types import START, Claim, HeldState, Offset
from assignment.wire import pack_changes
from tests.agent.state_reading import restored
from tests.contract.world import P0, World, offset

ONE = Pauses(version=1, partitions={P0: Pause(actor="ann", reason="again", at_ms=1_000)})


def facts(world: World, wanted: Offset | None = None) -> OffsetFacts:
    return world.run(offset_facts(P0, wanted))


def ends(world: World) -> list[tuple[Offset, Offset, int]]:
    page = world.store.read_changelog(P0, "0-0", 100)
    return [(entry.from_offset, entry.to_offset, entry.total) for entry in page.entries]


def pause(world: World) -> None:
    world.run(set_pauses(ONE, 0))
    world.next_batch("a")


def jump(world: World, to: Offset, total: int = 0, seen: OffsetFacts | None = None) -> OffsetSet:
    return world.run(set_offset(P0, seen or facts(world, to), to, total)).result


@pytest.fixture
def fence(world: World) -> int:
    """Five commits of an event each, snapshots at the second and the fourth; paused."""
    fence = world.runs(a={P0})[0]
    ids = []
    for n in range(5):
        answer = world.commit(P0, fence, offset(n) if n else START, offset(n + 1))
        ids.append(answer.changelog_id)
        if n in (1, 3):
            world.snapshot(P0, fence, offset(n + 1), ids[n])
    pause(world)
    return fence


def test_it_is_refused_until_its_owner_confirmed_that_it_stands_still(world: World) -> None:
    fence = world.runs(a={P0})[0]
    world.commit(P0, fence, START, offset(1), changelog=False)
    assert facts(world).state is None
    assert jump(world, START) is OffsetSet.RUNNING
    world.run(set_pauses(ONE, 0))
    assert facts(world).state is PauseState.PAUSING
    assert jump(world, START) is OffsetSet.RUNNING
    world.next_batch("a")
    seen = facts(world)
    assert jump(world, START, seen=seen) is OffsetSet.DONE
    assert jump(world, START, seen=seen) is OffsetSet.MOVED
    assert world.store.committed([P0]) == {P0: START}


def test_state_goes_back_to_the_end_of_a_commit_under_a_new_fence(world: World, fence: int) -> None:
    seen = facts(world, offset(3))
    assert (seen.committed, seen.total, seen.keeps_state) == (offset(5), 5, True)
    assert (seen.state_oldest, seen.state_at, seen.state_total) == (offset(2), offset(3), 3)
    assert jump(world, offset(3), 3) is OffsetSet.DONE
    assert ends(world)[-1] == (offset(2), offset(3), 3)
    assert [one.offset for one in world.store.read_snapshots(P0)] == [offset(2)]
    after = facts(world)
    assert (after.committed, after.total, after.fence) == (offset(3), 3, fence + 1)
    late = world.commit(P0, fence, offset(3), offset(4))
    assert late.result is CommitResult.FENCED, "whoever held it before commits no more"
    assert world.renew("a", Claim(P0, fence)).held == (False,)
    answer = world.acquire("a", P0)
    assert answer == (Granted(P0, fence + 1, HeldState.RESTORING),), "it kept the lock"
    assert world.kinds()[-3:] == ["released", "acquired", "fenced"]
    world.move("a", P0, fence + 1, HeldState.RESTORING, HeldState.RUNNING)
    world.run(set_pauses(Pauses(version=2), 1))
    assert [one.committed for one in world.next_batch("a")] == [offset(3)]
    assert world.commit(P0, fence + 1, offset(3), offset(5), events=2).applied
    assert ends(world)[-1] == (offset(3), offset(5), 5)


@pytest.mark.parametrize("number", [1, 7])
def test_where_no_state_leads_nothing_is_changed(world: World, fence: int, number: int) -> None:
    """Below the oldest snapshot, and between two commits."""
    to = offset(1) if number == 1 else Offset(offset(3).ms, offset(3).seq + 1)
    before, entries = facts(world), ends(world)
    assert facts(world, to).state_at == (None if number == 1 else offset(3))
    assert jump(world, to) is OffsetSet.NO_STATE
    assert (facts(world), ends(world)) == (before, entries)


def test_state_that_is_skipped_forward_stays_and_replicas_are_led_there(
    world: World, fence: int
) -> None:
    assert jump(world, offset(9), 9) is OffsetSet.DONE
    assert ends(world)[-1] == (offset(5), offset(9), 9)
    last = world.store.read_changelog(P0, "0-0", 100).entries[-1]
    assert (last.events, last.fence) == (0, fence + 1)
    assert facts(world).total == 9


@pytest.mark.parametrize("was_set_back", [False, True])
def test_state_of_which_nothing_is_kept_is_led_forward_too(
    world: World, tmp_path: Path, was_set_back: bool
) -> None:
    """Begun at the end of a stream, or set back to its beginning before; whatever is on disk."""
    fence = world.runs(a={P0})[0]
    state = PartitionState.open(tmp_path, world.store.group, P0)
    if was_set_back:
        world.commit(P0, fence, START, offset(9), changes=pack_changes({"k": 9}))
        restored(world.store, state, P0)
    pause(world)
    if was_set_back:
        assert jump(world, START) is OffsetSet.DONE
        [granted] = world.acquire("a", P0)
        assert isinstance(granted, Granted)
        world.move("a", P0, granted.fence, HeldState.RESTORING, HeldState.RUNNING)
        world.next_batch("a")
    answer = world.run(set_offset(P0, facts(world), offset(9), 9, state=True))
    assert answer.result is OffsetSet.DONE
    assert restored(world.store, state, P0) == offset(9)
    with state.reading() as reading:
        assert (dict(reading.items()), reading.total) == ({}, 9)
    state.close()


def test_state_goes_back_to_nothing(world: World, fence: int) -> None:
    assert jump(world, START) is OffsetSet.DONE
    assert (ends(world), world.store.read_snapshots(P0)) == ([], ())
    assert facts(world).committed == START
    assert not facts(world).keeps_state


def test_without_an_owner_whoever_comes_next_has_a_higher_fence(world: World, fence: int) -> None:
    world.let_expire("a", Claim(P0, fence))
    assert facts(world).state is PauseState.UNOWNED
    assert jump(world, offset(4), 4) is OffsetSet.DONE
    assert world.commit(P0, fence, offset(4), offset(5)).result is CommitResult.FENCED
    assert world.fence("a", P0) == fence + 2


def test_letters_that_were_kept_before_it_was_set_back_are_not_brought_again(world: World) -> None:
    """By a SQL sink, which stays where it is; others of its batches are, also below that offset."""
    (fence,) = world.runs(a={P0})
    for n in range(2):
        dead = [DeadLetter("kept", str(offset(n + 1)), 0, b"")]
        world.commit(P0, fence, offset(n), offset(n + 1), changelog=False, dead=dead)
    pause(world)
    assert jump(world, START) is OffsetSet.DONE
    world.move("a", P0, fence + 1, HeldState.RESTORING, HeldState.RUNNING)
    for n, under in enumerate((fence, fence + 1, fence)):
        dead = [DeadLetter(f"brought {n + 1}", str(offset(n + 1)), 0, b"")]
        brought = world.commit(
            *(P0, fence + 1, offset(n), offset(n + 1)),
            changelog=False,
            sink_fence=under,
            dead=dead,
        )
        assert brought.result is CommitResult.DONE
    letters = world.run(dead_letters([P0], Bounds(letters=9, through=2**20, raw=9))).letters
    reasons = [one.reason for one in letters][::-1]
    assert reasons == ["kept", "kept", "brought 2", "brought 3"]
    stored = world.door.ask("XREVRANGE", world.keys.dead(P0), "+", "-", "COUNT", 2)
    fences = [int(dict(pairs(fields))[b"fence"]) for _, fields in stored]
    assert fences == [fence, fence + 1], "as old as its batch"
