"""States, plans, fenced commits and snapshots (coordination.md section 2; pipeline.md 3 and 4)."""

from itertools import pairwise

import pytest

from assignment.errors import InvalidInput
from assignment.scripts import dead_letters
from assignment.scripts.agent_side import BatchStart, CommitAnswer, CommitResult, SnapshotResult
from assignment.scripts.dead_letters import Discard
from assignment.scripts.values import INCARNATION_MAX
from assignment.types import INCARNATION_STEP, START, Claim, HeldState, Offset
from assignment.wire import ChangelogEntry, pack_changes, pack_ids, unpack_changes, unpack_ids
from tests.contract.world import P0, P1, P2, World, commit_of, offset

RESTORING, RUNNING = HeldState.RESTORING, HeldState.RUNNING
REVOKING, REVOKED = HeldState.REVOKING, HeldState.REVOKED
DONE, ALREADY = CommitResult.DONE, CommitResult.ALREADY
MOVED, FENCED = CommitResult.MOVED, CommitResult.FENCED


def commits(world: World, fence: int, count: int, first: int = 0) -> list[str]:
    """So many of P0, each of one offset; the ids of their changelog entries."""
    ends = range(first, first + count)
    answers = [world.commit(P0, fence, offset(n), offset(n + 1)) for n in ends]
    return [answer.changelog_id for answer in answers]


def changelog(world: World) -> tuple[ChangelogEntry, ...]:
    return world.store.read_changelog(P0, "0-0", 9).entries


# --- states and plans -----------------------------------------------------------------------------


def test_a_state_changes_only_from_the_expected_fence_and_state(alone: World) -> None:
    fence = alone.fence("a", P0)
    assert not alone.move("a", P0, fence + 1, RESTORING, RUNNING)
    assert not alone.move("a", P0, fence, RUNNING, REVOKING)
    assert not alone.move("b", P0, fence, RESTORING, RUNNING)
    assert not alone.move("a", P1, fence, RESTORING, RUNNING)
    assert alone.move("a", P0, fence, RESTORING, RUNNING)
    assert alone.store.owned("a")[P0].state is RUNNING


def test_a_plan_holds_what_is_running_with_its_offset_and_total(world: World) -> None:
    world.stand(a={P0, P1, P2})
    first, second = world.running("a", P0), world.running("a", P1)
    world.fence("a", P2)  # still restoring
    world.commit(P1, second, START, offset(7), events=5)
    of = world.read().run_id.partition("/")[2]
    assert set(world.next_batch()) == {
        BatchStart(P0, first, START, 0, replication_id=of),
        BatchStart(P1, second, offset(7), 5, replication_id=of),
    }


def test_a_plan_leaves_out_what_has_no_live_lock(world: World) -> None:
    fence, other = world.runs(a={P0, P1})
    world.let_expire("a", Claim(P0, fence))
    assert [p.partition for p in world.next_batch()] == [P1]
    world.assign(a={P1}, b=set())
    assert world.next_batch()[0].fence == other


def test_a_plan_turns_draining_into_drained_and_hints_so(world: World) -> None:
    fence, other = world.runs(a={P0, P1})
    world.move("a", P0, fence, RUNNING, REVOKING)
    assert world.store.owned("a")[P0].state is REVOKING
    after = world.store.last_hints(world.keys.hints("a"))
    assert [p.fence for p in world.next_batch()] == [other]
    assert world.store.owned("a")[P0].state is REVOKED
    assert world.store.wait_hints(after, 1).reasons == {"revoked"}
    assert not world.move("a", P0, fence, REVOKING, RUNNING)


# --- commits --------------------------------------------------------------------------------------


def test_a_commit_moves_offset_changelog_and_total_together(world: World, fence: int) -> None:
    changes, ids = pack_changes({"k": {"n": 1}, "gone": None}), pack_ids([5, 6, 2**40])
    answer = world.commit(P0, fence, START, Offset(9, 3), events=3, changes=changes, ids=ids)
    assert (answer.result, answer.committed) == (DONE, Offset(9, 3))

    page = world.store.read_changelog(P0, "0-0", 10)
    (entry,) = page.entries
    assert page.committed == Offset(9, 3)
    assert entry.entry_id == answer.changelog_id
    assert (entry.from_offset, entry.to_offset, entry.fence) == (START, Offset(9, 3), fence)
    assert (entry.total, entry.events) == (3, 3)
    assert unpack_changes(entry.changes) == {"k": {"n": 1}, "gone": None}
    assert unpack_ids(entry.ids) == [5, 6, 2**40]
    assert world.read().applied[P0].total == 3
    assert world.store.committed([P0, P1]) == {P0: Offset(9, 3), P1: START}


def test_totals_add_up_from_the_base_of_the_first_commit(world: World, fence: int) -> None:
    world.commit(P0, fence, START, offset(1), events=2, base_total=2**40)
    world.commit(P0, fence, offset(1), offset(2), events=3, base_total=999)
    assert world.read().applied[P0].total == 2**40 + 5


def test_a_commit_repeated_after_a_lost_reply_is_answered_already(world: World, fence: int) -> None:
    done = world.commit(P0, fence, START, offset(5))
    again = world.commit(P0, fence, START, offset(5))
    assert (again.result, again.committed) == (ALREADY, offset(5))
    assert again.changelog_id == done.changelog_id
    assert world.read().applied[P0].total == 1
    assert len(changelog(world)) == 1


def test_a_commit_that_another_server_planned_is_moved_unless_it_is_there(
    world: World, fence: int
) -> None:
    (planned,) = world.next_batch()
    other = world.commit(P0, fence, START, offset(5), replication_id="e" * 40)
    assert (other.result, other.committed) == (MOVED, START)
    own = world.commit(P0, fence, START, offset(5), replication_id=planned.replication_id)
    again = world.commit(P0, fence, START, offset(5), replication_id="e" * 40)
    assert (own.result, again.result) == (DONE, ALREADY)


def test_the_id_of_a_changelog_entry_names_the_server_whatever_its_clock_says(
    world: World, fence: int
) -> None:
    (planned,) = world.next_batch()
    (first,) = map(Offset.parse, commits(world, fence, 1))
    ahead_ms = first.ms + 3_600_000
    world.door.ask("XSETID", world.keys.changelog(P0), f"{ahead_ms}-7")
    later = [Offset.parse(commits(world, fence, 1, n)[0]) for n in (1, 2)]
    assert {one.seq for one in (first, *later)} == {int(planned.replication_id[-8:], 16)}
    assert [one.ms for one in later] == [ahead_ms + 1, ahead_ms + 2]


def test_a_commit_from_another_offset_is_moved_and_changes_nothing(
    world: World, fence: int
) -> None:
    world.commit(P0, fence, START, offset(5))
    for low, high in ((START, offset(4)), (START, offset(6)), (offset(6), offset(7))):
        assert world.commit(P0, fence, low, high) == CommitAnswer(MOVED, offset(5))
    assert len(changelog(world)) == 1


def test_a_commit_under_an_older_fence_is_refused_and_changes_nothing(world: World) -> None:
    (old,) = world.runs(a={P0}, b=set())
    world.commit(P0, old, START, offset(1))
    world.let_expire("a", Claim(P0, old))
    world.assign(b={P0})
    new = world.fence("b", P0)
    for low, high in ((1, 2), (0, 1)):  # also what would be `already` under its own fence
        answer = world.commit(P0, old, offset(low), offset(high))
        assert answer == CommitAnswer(FENCED, last_fence=new)
    assert world.read().offsets[P0] == offset(1)
    assert len(changelog(world)) == 1
    assert world.commit(P0, new, offset(1), offset(2), "b").result is DONE


def test_a_refused_commit_is_in_history_once_per_fence_and_counted_each_time(
    world: World, moved: tuple[int, int]
) -> None:
    old, new = moved
    for _ in range(3):
        world.commit(P0, old, START, offset(1))
    event = world.events()[-1]
    assert (event.kind, event.member_id, event.fence) == ("fenced", "a", old)
    assert world.kinds() == ["acquired", "expired", "acquired", "fenced"]
    assert world.read().meta.refused_commits == 3
    world.let_expire("b", Claim(P0, new))
    world.assign(a={P0})
    world.fence("a", P0)
    world.commit(P0, new, START, offset(1), "b")
    assert (world.events()[-1].kind, world.events()[-1].fence) == ("fenced", new)


def test_a_fence_that_was_never_granted_is_refused(alone: World) -> None:
    assert alone.commit(P0, 5, START, offset(1)) == CommitAnswer(FENCED, last_fence=0)
    fence = alone.running("a", P0)
    answer = alone.commit(P0, fence + 1, START, offset(1))
    assert answer == CommitAnswer(FENCED, last_fence=fence)


def test_a_commit_after_the_lease_ended_is_taken_until_there_is_a_newer_fence(
    world: World, fence: int
) -> None:
    """No clock decides it: nor when the partition moved and came back."""
    world.let_expire("a", Claim(P0, fence))
    world.sweep()
    assert world.commit(P0, fence, START, offset(1)).result is DONE
    second = world.fence("a", P0)
    assert world.commit(P0, fence, offset(1), offset(2)).result is FENCED
    assert world.commit(P0, second, offset(1), offset(2)).result is DONE


def test_fences_are_exact_and_told_apart_at_the_highest_incarnation(world: World) -> None:
    world.stand(INCARNATION_MAX, a={P0})
    fence = world.fence("a", P0, INCARNATION_MAX)
    assert fence == INCARNATION_MAX * INCARNATION_STEP + 1
    assert world.commit(P0, fence - 1, START, offset(1)).result is FENCED
    assert world.commit(P0, fence, START, offset(1)).result is DONE
    assert changelog(world)[0].fence == fence
    world.release("a", {P0: fence})
    assert world.fence("a", P0, INCARNATION_MAX) == fence + 1 == world.read().grants[P0].fence


def test_dead_letters_ride_in_the_commit_and_only_in_one_that_is_done(
    world: World, fence: int
) -> None:
    letter = dead_letters.DeadLetter
    dead = letter("no JSON", "5-0", 0, b"\xff{"), letter("no key", "5-0", 3, b"")
    for _ in range(2):
        world.commit(P0, fence, START, offset(5), events=4, dead=dead)
    world.commit(P0, fence + 1, offset(5), offset(6), dead=dead)
    raw = world.door.ask("XRANGE", world.keys.dead(P0), "-", "+")
    letters = [dict(zip(f[::2], f[1::2], strict=True)) for _, f in raw]
    assert [(x[b"reason"], x[b"index"], x[b"raw"], x[b"fence"]) for x in letters] == [
        (b"no JSON", b"0", b"\xff{", b"%d" % fence),
        (b"no key", b"3", b"", b"%d" % fence),
    ]


def test_dead_letters_are_found_from_the_newest_on_and_go_once(world: World, fence: int) -> None:
    dead = [dead_letters.DeadLetter(why, "5-0", n, b"raw") for n, why in enumerate(("No", "yes"))]
    world.commit(P0, fence, START, offset(5), events=2, dead=dead)
    bounds = dead_letters.Bounds(letters=1, through=100, raw=2)
    first = world.run(dead_letters.dead_letters([P0, P1], bounds))
    [yes] = first.letters
    assert (yes.reason, yes.entry, yes.index, yes.size, yes.raw) == ("yes", "5-0", 1, 3, b"ra")
    assert first.next == yes.name
    then = world.run(dead_letters.dead_letters([P0, P1], bounds, reason="nO", below=yes.name.at))
    [no] = then.letters
    assert (no.index, then.next) == (0, None)
    past = dead_letters.dead_letters([P0], bounds, until_ms=no.name.at.ms - 1)
    assert world.run(past).letters == ()
    both = [(P0, no.name.at), (P1, no.name.at)]
    assert world.run(dead_letters.discard(both)) == (Discard.DONE, Discard.GONE)
    assert world.run(dead_letters.discard(both)) == (Discard.GONE, Discard.GONE)
    assert world.run(dead_letters.dead_letters([P0], bounds)).letters == (yes,)


def test_a_commit_without_changelog_moves_only_the_offset(world: World, fence: int) -> None:
    answer = world.commit(P0, fence, START, offset(5), changelog=False)
    assert answer == CommitAnswer(DONE, offset(5))
    again = world.commit(P0, fence, START, offset(5), changelog=False)
    assert again == CommitAnswer(ALREADY, offset(5))
    assert changelog(world) == ()


def test_commits_of_a_batch_stand_each_for_itself(world: World) -> None:
    fences = dict(zip((P0, P1, P2), world.runs(a={P0, P1, P2}), strict=True))
    world.let_expire("a", Claim(P1, fences[P1]))
    world.fence("a", P1)
    requests = [commit_of(partition, at, START, offset(1)) for partition, at in fences.items()]
    results = [answer.result for answer in world.store.commit_many(requests)]
    assert results == [DONE, FENCED, DONE]


@pytest.mark.parametrize(("low", "high"), [(5, 5), (6, 5)])
def test_a_commit_that_does_not_go_forward_is_refused(alone: World, low: int, high: int) -> None:
    with pytest.raises(InvalidInput, match="does not go forward"):
        alone.commit(P0, 1, offset(low), offset(high))


def test_a_commit_of_nothing_only_asks_whether_the_fence_holds(world: World, fence: int) -> None:
    world.commit(P0, fence, START, offset(5))
    before = world.read()
    for at in (START, offset(5)):
        answer = world.commit(P0, fence, at, at, events=0)
        assert (answer.result, answer.committed) == (MOVED, offset(5))
    assert (world.read().applied, world.read().offsets) == (before.applied, before.offsets)
    assert world.commit(P0, fence - 1, START, START, events=0).result is FENCED
    assert world.read().meta.refused_commits == 1


# --- reading the changelog ------------------------------------------------------------------------


def test_a_changelog_is_read_in_pages_each_with_the_committed_offset(
    world: World, fence: int
) -> None:
    commits(world, fence, 5)
    first = world.store.read_changelog(P0, "0-0", 3)
    rest = world.store.read_changelog(P0, first.entries[-1].entry_id, 3)
    read = [e.to_offset for e in (*first.entries, *rest.entries)]
    assert read == [offset(n) for n in range(1, 6)]
    assert first.committed == rest.committed == offset(5)
    assert first.total == rest.total == 5
    assert world.store.read_changelog(P0, rest.entries[-1].entry_id, 3).entries == ()
    assert world.store.read_changelog(P1, "0-0", 3) == ((), START, -1)


def test_whoever_waits_for_changelogs_hears_which_have_something_new(world: World) -> None:
    fences = dict(zip((P0, P1), world.runs(a={P0, P1}), strict=True))
    first = {p: world.commit(p, at, START, offset(1)).changelog_id for p, at in fences.items()}
    assert world.store.wait_changelogs({P0: "0-0", P1: "0-0", P2: "0-0"}, 1) == {P0, P1}
    assert world.store.wait_changelogs(first, 1) == set()
    world.commit(P1, fences[P1], offset(1), offset(2))
    assert world.store.wait_changelogs(first, 1) == {P1}


# --- snapshots ------------------------------------------------------------------------------------


def test_a_snapshot_is_recorded_beside_the_one_before_it(world: World, fence: int) -> None:
    ids = commits(world, fence, 3)
    assert world.store.read_snapshots(P0) == ()
    for n, entry_id in enumerate(ids, 1):
        assert world.snapshot(P0, fence, offset(n), entry_id) is SnapshotResult.DONE
    newest, before = world.store.read_snapshots(P0)
    assert (newest.offset, before.offset) == (offset(3), offset(2))
    of = f"file:///{offset(3)}", ids[2], fence
    assert (newest.url, newest.changelog_id, newest.fence) == of
    assert world.read().snapshots[P0] == (newest, before)


@pytest.mark.parametrize(("trim", "first"), [(True, 2), (False, 1)])
def test_a_snapshot_trims_the_changelog_up_to_the_one_before_unless_told_not_to(
    world: World, fence: int, trim: bool, first: int
) -> None:
    ids = commits(world, fence, 4)
    world.snapshot(P0, fence, offset(2), ids[1], trim=trim)
    assert len(changelog(world)) == 4
    world.snapshot(P0, fence, offset(4), ids[3], trim=trim)
    assert [e.to_offset for e in changelog(world)] == [offset(n) for n in range(first, 5)]


def test_a_snapshot_under_an_older_fence_is_refused(world: World, fence: int) -> None:
    (entry_id,) = commits(world, fence, 1)
    world.let_expire("a", Claim(P0, fence))
    world.fence("a", P0)
    assert world.snapshot(P0, fence, offset(1), entry_id) is SnapshotResult.FENCED
    assert world.store.read_snapshots(P0) == ()


def test_a_snapshot_not_above_the_recorded_or_above_the_committed_is_old(
    world: World, fence: int
) -> None:
    ids = commits(world, fence, 3)
    world.snapshot(P0, fence, offset(2), ids[1])
    for number, entry_id in ((2, ids[1]), (1, ids[0]), (4, ids[2])):
        assert world.snapshot(P0, fence, offset(number), entry_id) is SnapshotResult.OLD
    assert [r.offset for r in world.store.read_snapshots(P0)] == [offset(2)]


def test_a_snapshot_of_a_commit_that_redis_lost_since_is_old(world: World, fence: int) -> None:
    """The offset is there again, by another commit."""
    (lost,) = commits(world, fence, 1)
    world.door.ask("DEL", world.keys.changelog(P0))
    world.door.ask("HDEL", world.keys.offsets, str(P0))
    other = str(Offset(Offset.parse(lost).ms + 1, 0))
    world.door.ask("XADD", world.keys.changelog(P0), other, "another", "commit")
    commits(world, fence, 1)
    assert world.snapshot(P0, fence, offset(1), lost) is SnapshotResult.OLD


def test_offsets_of_snapshots_are_ordered_as_numbers(world: World, fence: int) -> None:
    offsets = START, Offset(9, 10), Offset(10, 0)
    entry = [world.commit(P0, fence, *ends).changelog_id for ends in pairwise(offsets)]
    for at, entry_id in zip((Offset(9, 9), *offsets[1:]), (entry[0], *entry), strict=True):
        assert world.snapshot(P0, fence, at, entry_id) is SnapshotResult.DONE
