"""Dead letters that are replayed: asked, bound, committed once; and all that refuses it."""

from collections.abc import Sequence

import pytest

from agent.spark import isolation
from agent.store.door import ScriptCall
from agent.store.events import EventStore
from assignment.pauses import Pause, Pauses
from assignment.scripts import crashes, dead_letters, replays
from assignment.scripts.agent_side import CommitAnswer, CommitResult, SnapshotRecord
from assignment.scripts.dead_letters import Bounds, DeadLetter, Discard, KeptLetter, Replay
from assignment.scripts.offsets import OffsetSet, offset_facts, set_offset
from assignment.scripts.pausing import set_pauses
from assignment.scripts.replays import AT_ONCE_MAX, Bound
from assignment.types import START, HeldState, Offset, Range
from assignment.wire import StreamKeys
from tests.contract.world import P0, World, offset

ALL = Bounds(letters=1_000, through=2**20, raw=100)
ASKED, WAITS, GONE, FULL, DOUBTED = Replay
HERE = offset(10)


def kept(world: World) -> list[KeptLetter]:
    """In the order in which they were kept."""
    return list(reversed(world.run(dead_letters.dead_letters([P0], ALL)).letters))


def ids(world: World) -> list[Offset]:
    return [letter.name.at for letter in kept(world)]


def ask(world: World, *letters: Offset, actor: str = "ann") -> tuple[Replay, ...]:
    return world.run(dead_letters.replay([(P0, one) for one in letters], actor))


def told(world: World) -> list[Offset]:
    found = next(start for start in world.next_batch() if start.partition == P0).replays
    return [] if found is None else [one.at for one in found.letters]


def of(world: World, fence: int, start: Offset = HERE) -> Range:
    (planned,) = world.next_batch()
    return Range(P0, start, start.next, fence, planned.replication_id)


def bind(
    world: World, fence: int, letters: Sequence[Offset], unread: Sequence[DeadLetter] = ()
) -> Bound:
    return world.run(replays.bind(of(world, fence), letters, offset(3), unread))


def replay(world: World, fence: int, letters: Sequence[Offset], **more: object) -> CommitAnswer:
    assert bind(world, fence, letters) is Bound.DONE
    return world.commit(P0, fence, HERE, HERE.next, events=0, **more)


@pytest.fixture
def letters(world: World) -> list[Offset]:
    """Of the entries 1-0 to 5-0, kept by a commit up to HERE."""
    (fence,) = world.runs(a={P0})
    dead = [DeadLetter(f"bad {n}", str(offset(n)), 0, b"{%d" % n) for n in range(1, 6)]
    world.commit(P0, fence, START, HERE, events=9, dead=dead)
    return ids(world)


@pytest.fixture
def fence(world: World, letters: list[Offset]) -> int:
    return world.read().grants[P0].fence


# --- asked ----------------------------------------------------------------------------------------


def test_what_is_asked_waits_is_told_to_its_owner_and_stays(
    world: World, letters: list[Offset]
) -> None:
    assert told(world) == []
    gone = Offset(7, 7)
    assert ask(world, letters[2], letters[0], gone) == (ASKED, ASKED, GONE)
    assert ask(world, letters[0], letters[1], actor="bob") == (WAITS, ASKED)
    (start,) = world.next_batch()
    assert start.replays is not None
    assert [one.at for one in start.replays.letters] == [letters[2], letters[0], letters[1]]
    assert [one.actor for one in start.replays.letters] == ["ann", "ann", "bob"]
    assert [one.asked_by for one in kept(world)] == ["ann", "bob", "ann", "", ""]
    both = [(P0, letters[0]), (P0, letters[4])]
    assert world.run(dead_letters.discard(both)) == (Discard.WAITS, Discard.DONE)
    assert ids(world) == letters[:4]


def test_so_many_of_a_partition_wait_and_so_many_are_in_a_batch(
    world: World, fence: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = [DeadLetter("bad", "11-0", n, b"") for n in range(AT_ONCE_MAX)]
    world.commit(P0, fence, HERE, offset(11), dead=dead)
    monkeypatch.setattr(dead_letters, "WAITING_MAX", AT_ONCE_MAX + 1)
    answers = ask(world, *ids(world))
    assert answers == (ASKED,) * (AT_ONCE_MAX + 1) + (FULL,) * 4
    assert told(world) == ids(world)[:AT_ONCE_MAX]


def test_a_letter_that_no_consumer_wrote_is_not_replayed(
    world: World, letters: list[Offset]
) -> None:
    for fields in (("entry", "x"), ("entry", "1-0", "fence", "1", "index", "x"), ("entry", "1-0")):
        world.door.ask("XADD", world.keys.dead(P0), "*", *fields)
    assert ask(world, *ids(world)[5:]) == (DOUBTED,) * 3
    assert [one.is_sure for one in kept(world)] == [True] * 5 + [False] * 3


def test_what_is_paused_waits(world: World, letters: list[Offset]) -> None:
    ask(world, letters[0])
    world.run(set_pauses(Pauses(version=1, group=Pause(actor="ann", reason="", at_ms=1)), 0))
    assert world.next_batch() == ()
    world.run(set_pauses(Pauses(version=2), 1))
    assert told(world) == letters[:1]


# --- bound and committed --------------------------------------------------------------------------


def test_the_commit_removes_what_is_bound_and_counts_no_event_again(
    world: World, fence: int, letters: list[Offset]
) -> None:
    ask(world, *letters[:3])
    unread = DeadLetter("replayed by ann: still bad", "2-0", None, b"\xff\x00 whole")
    assert bind(world, fence, letters[:2], [unread]) is Bound.DONE
    before = world.read().applied[P0].total
    for result in (CommitResult.DONE, CommitResult.ALREADY):
        answer = world.commit(P0, fence, HERE, HERE.next, events=0, changes=b"c")
        assert answer.result is result
    assert ids(world)[:3] == letters[2:]
    (new,) = kept(world)[3:]
    assert (new.reason, new.entry, new.index, new.raw) == (
        *("replayed by ann: still bad", "2-0", None),
        b"\xff\x00 whole",
    )
    assert (told(world), new.asked_by, new.is_sure) == ([letters[2]], "", True)
    assert world.read().applied[P0].total == before == 9
    entry = world.store.read_changelog(P0, "0-0", 9).entries[-1]
    assert (entry.from_offset, entry.to_offset, entry.events) == (HERE, HERE.next, 0)
    assert world.door.ask("EXISTS", world.keys.replaying(P0)) == 0


def test_what_is_bound_is_planned_again_as_it_is(
    world: World, fence: int, letters: list[Offset]
) -> None:
    """Its batch was lost, and a sink may have its effects."""
    ask(world, letters[0])
    assert bind(world, fence, letters[:1]) is Bound.DONE
    ask(world, letters[1])
    assert told(world) == letters[:1]
    assert bind(world, fence, letters[:2]) is Bound.MOVED
    world.release("a", {P0: fence})
    newer = world.running("a", P0)
    assert told(world) == letters[:1]
    assert replay(world, newer, letters[:1]).result is CommitResult.DONE
    assert told(world) == [letters[1]]


def test_nothing_is_bound_but_by_its_owner_where_it_stands(
    world: World, fence: int, letters: list[Offset]
) -> None:
    assert bind(world, fence, letters[:1]) is Bound.MOVED  # nobody asked
    ask(world, *letters)
    assert bind(world, fence, []) is Bound.MOVED
    assert bind(world, fence + 1, letters) is Bound.FENCED
    one = of(world, fence)
    other = Range(P0, HERE, HERE.next, fence, "e" * 40)
    assert world.run(replays.bind(other, letters, offset(1), [])) is Bound.MOVED
    world.commit(P0, fence, HERE, offset(11))
    assert world.run(replays.bind(one, letters, offset(1), [])) is Bound.MOVED
    assert told(world) == letters


def test_a_commit_of_events_leaves_what_was_bound_asked(
    world: World, fence: int, letters: list[Offset]
) -> None:
    ask(world, *letters)
    assert bind(world, fence, letters) is Bound.DONE
    world.commit(P0, fence, HERE, offset(11))
    assert (ids(world), told(world)) == (letters, letters)
    assert world.door.ask("EXISTS", world.keys.replaying(P0)) == 0


def test_a_commit_that_is_refused_settles_nothing(
    world: World, fence: int, letters: list[Offset]
) -> None:
    ask(world, *letters)
    assert bind(world, fence, letters) is Bound.DONE
    world.release("a", {P0: fence})
    world.running("a", P0)
    assert world.commit(P0, fence, HERE, HERE.next).result is CommitResult.FENCED
    assert (ids(world), told(world)) == (letters, letters)


def test_what_a_consumer_that_knows_no_replay_went_past_is_doubted(
    world: World, fence: int, letters: list[Offset]
) -> None:
    """Its script moves the offset alone: whether a sink had the effects nobody knows."""
    ask(world, *letters)
    assert bind(world, fence, letters) is Bound.DONE
    world.door.ask("HSET", world.keys.offsets, str(P0), str(offset(11)))
    one = of(world, fence, offset(11))
    assert world.run(replays.bind(one, letters, offset(1), [])) is Bound.MOVED
    assert (ids(world), told(world)) == (letters, [])
    assert set(ask(world, *letters)) == {DOUBTED}


# --- crashes --------------------------------------------------------------------------------------


def test_a_letter_that_ends_its_consumer_is_found_and_kept_with_the_reason(
    world: World, fence: int, letters: list[Offset]
) -> None:
    """Three crashes, then half as many after each, as of suspects; no other waits for ever."""
    poison, at, crashed = letters[3], HERE, []
    ask(world, *letters)
    while batch := told(world):
        one = of(world, fence, at)
        if poison in batch:
            assert world.run(crashes.crash("it ended", 0, [one], len(batch))) == 1
            crashed.append(len(batch))
            assert len(crashed) < 20
            if len(crashed) > 2 and world.next_batch()[0].replays.is_over:
                assert world.run(replays.narrow(one, len(batch))) is Bound.DONE
                assert world.run(replays.narrow(one, len(batch))) is Bound.MOVED
        else:
            assert world.run(replays.bind(one, batch, offset(1), [])) is Bound.DONE
            answer = world.commit(P0, fence, at, at.next, events=0)
            assert answer.result is CommitResult.DONE
            at = at.next
        (start,) = world.next_batch()
        assert isolation.others([start]) == [start] and start.suspect is None
    assert crashed == [5, 5, 5, 3, 3, 3, 2, 2, 2, 1]
    (new,) = kept(world)
    assert (new.reason, new.entry) == ("replayed by ann: it ends the consumer: it ended", "4-0")


@pytest.mark.parametrize("count", [1, 3])
def test_what_a_sink_has_is_settled_also_when_its_consumer_crashed_the_third_time(
    world: World, fence: int, letters: list[Offset], count: int
) -> None:
    """Right after the sink took it in: what was bound stays so until the sink was looked at."""
    ask(world, *letters[:count])
    one = of(world, fence)
    for _ in range(2):
        assert world.run(crashes.crash("it ended", 0, [one], count)) == 1
    assert bind(world, fence, letters[:count]) is Bound.DONE
    assert world.run(crashes.crash("it ended", 0, [one], count)) == 1
    answer = world.commit(
        *(P0, fence, one.from_offset, one.to_offset), events=0, changelog=False, sink_fence=fence
    )
    assert answer.result is CommitResult.DONE
    assert (ids(world), told(world)) == (letters[count:], [])


def test_a_crash_under_another_fence_is_no_letters(
    world: World, fence: int, letters: list[Offset]
) -> None:
    ask(world, letters[0])
    one = of(world, fence)
    world.release("a", {P0: fence})
    world.running("a", P0)
    assert [world.run(crashes.crash("it ended", 0, [one], 1)) for _ in range(4)] == [0] * 4
    assert told(world) == letters[:1]


# --- offsets that are set, and losses -------------------------------------------------------------


def jump(world: World, to: Offset) -> OffsetSet:
    facts = world.run(offset_facts(P0, to))
    return world.run(set_offset(P0, facts, to, facts.state_total)).result


def pause(world: World) -> None:
    pauses = Pauses(version=1, partitions={P0: Pause(actor="ann", reason="", at_ms=1)})
    world.run(set_pauses(pauses, 0))
    world.next_batch()


def goes_on(world: World) -> int:
    """Under the new fence, which is answered; it stands still again."""
    fence = world.read().grants[P0].fence
    assert world.move("a", P0, fence, HeldState.RESTORING, HeldState.RUNNING)
    world.next_batch()
    return fence


@pytest.fixture
def two_commits(world: World) -> list[Offset]:
    """Letters of the entries 1-0, kept up to 2-0, and 4-0, kept up to HERE."""
    (fence,) = world.runs(a={P0})
    at = START
    for low, high in ((offset(1), offset(2)), (offset(4), HERE)):
        world.commit(P0, fence, at, high, dead=[DeadLetter("bad", str(low), 0, b"{")])
        at = high
    return ids(world)


def test_set_back_no_letter_is_replayed_whose_entry_is_read_again(
    world: World, two_commits: list[Offset]
) -> None:
    assert ask(world, *two_commits) == (ASKED, ASKED)
    pause(world)
    assert jump(world, offset(2)) is OffsetSet.DONE
    world.run(set_pauses(Pauses(version=2), 1))
    assert ids(world) == two_commits
    assert ask(world, *two_commits) == (ASKED, DOUBTED)


def test_not_set_back_to_where_letters_were_replayed_that_would_be_lost(
    world: World, two_commits: list[Offset]
) -> None:
    fence = world.read().grants[P0].fence
    ask(world, two_commits[0])
    one = of(world, fence)
    assert world.run(replays.bind(one, two_commits[:1], offset(1), [])) is Bound.DONE
    assert world.commit(P0, fence, HERE, HERE.next, events=0).result is CommitResult.DONE
    world.commit(P0, fence, HERE.next, offset(11))
    pause(world)
    facts = world.run(offset_facts(P0, offset(2)))
    assert facts.replayed == ((HERE.next, offset(1)),)
    assert (facts.would_lose(offset(2)), facts.would_lose(HERE.next)) == (HERE.next, None)
    assert jump(world, offset(2)) is OffsetSet.REPLAYED
    assert jump(world, HERE.next) is OffsetSet.DONE
    goes_on(world)
    assert jump(world, START) is OffsetSet.DONE  # its entry is read again
    assert world.run(offset_facts(P0)).replayed == ()


def test_a_snapshot_that_redis_is_led_to_may_have_effects_of_letters(
    world: World, letters: list[Offset]
) -> None:
    ask(world, *letters[:2])
    world.another_run()
    record = SnapshotRecord(url="f", offset=offset(20), changelog_id="0-0", total=9, fence=1)
    assert world.restore(2, {P0: record}) == 1
    assert told(world) == []
    assert set(ask(world, *letters)) == {DOUBTED}


def bring(world: World, fence: int, to: Offset) -> CommitAnswer:
    return world.commit(P0, fence, HERE, to, changelog=False, sink_fence=fence)


def test_what_brings_redis_to_a_sink_settles_what_was_bound(
    world: World, fence: int, letters: list[Offset]
) -> None:
    ask(world, *letters)
    again = DeadLetter("again", "1-0", 0, b"{")
    assert bind(world, fence, letters[:2], [again]) is Bound.DONE
    world.release("a", {P0: fence})
    newer = world.running("a", P0)
    assert bring(world, newer, HERE.next).result is CommitResult.DONE
    assert told(world) == letters[2:]
    assert [one.reason for one in kept(world)] == ["bad 3", "bad 4", "bad 5", "again"]
    assert world.run(offset_facts(P0)).replayed == ()


def test_what_brings_redis_to_a_sink_after_no_loss_was_events(
    world: World, fence: int, letters: list[Offset]
) -> None:
    ask(world, *letters[:2])
    assert bring(world, fence, offset(12)).result is CommitResult.DONE
    assert told(world) == letters[:2]
    assert ask(world, letters[4]) == (ASKED,)


@pytest.mark.parametrize("is_raised", [False, True])
def test_what_brings_redis_to_a_sink_after_a_loss_may_have_been_letters(
    world: World, fence: int, letters: list[Offset], is_raised: bool
) -> None:
    ask(world, *letters[:2])
    world.another_run()
    if is_raised:
        world.set_incarnation(2)
    assert bring(world, fence, offset(12)).result is CommitResult.DONE
    assert (ids(world), told(world)) == (letters, [])
    assert set(ask(world, *letters)) == {DOUBTED}


def test_doubts_are_so_many_and_none_is_forgotten(world: World) -> None:
    """The oldest become one, which doubts more: here each goes less far back than the next."""
    (fence,) = world.runs(a={P0})
    for n in range(1, 31):
        dead = [DeadLetter("bad", str(offset(n)), 0, b"")]
        world.commit(P0, fence, offset(n - 1) if n > 1 else START, offset(n), dead=dead)
    pause(world)
    for n in range(2, 30):
        assert jump(world, offset(n)) is OffsetSet.DONE
        fence = goes_on(world)
        for at in (n, n + 1):
            world.commit(P0, fence, offset(at), offset(at + 1))
    assert [one.name.at for one in kept(world) if one.is_sure] == ids(world)[:2]
    assert len(world.door.ask("HGET", world.keys.doubts, str(P0)).split()) == 2 * 20


# --- room between ids -----------------------------------------------------------------------------


def test_room_is_made_above_whatever_is_there(world: World, group_name: str) -> None:
    key = StreamKeys(group_name).entries(0)
    seen = []
    for count in (3, 1):
        seen.append(world.door.run(ScriptCall("make_room", [key], [str(count)])))
    assert seen == [b"0-3", b"0-4"]
    world.door.ask("XADD", key, f"5-{2**64 - 2}", "a", "b")
    assert world.door.run(ScriptCall("make_room", [key], ["2"])) == b"6-2"
    world.door.ask("XADD", key, "*", "a", "b")
    raw = world.door.ask("XINFO", "STREAM", key)
    facts = dict(zip(raw[::2], raw[1::2], strict=True))
    assert facts[b"length"] == 2
    assert facts.get(b"entries-added", 2) == 2


def test_no_range_goes_to_an_id_that_is_no_entrys(world: World, group_name: str) -> None:
    events, key = EventStore(world.door), StreamKeys(group_name).entries(0)
    of_stream = type(P0)(group_name, 0)
    assert not events.is_gap_after(of_stream, START)
    for seq in (1, 2):
        world.door.ask("XADD", key, f"9-{seq}", "a", "b")
    assert events.is_gap_after(of_stream, START)
    assert not events.is_gap_after(of_stream, Offset(9, 1))
    assert not events.is_gap_after(of_stream, Offset(9, 2))
    world.door.run(ScriptCall("make_room", [key], ["1"]))
    assert events.is_gap_after(of_stream, Offset(9, 2))
    assert events.bounds([(of_stream, Offset(9, 2))], 10, 1_000)[0].to_offset == Offset(9, 2)
