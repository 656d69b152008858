"""How a replica gets to the committed offset: from its changelog, a snapshot, or not at all."""

import multiprocessing
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from agent.state.errors import SnapshotBroken, StateLost
from agent.state.files import replicas_in
from agent.state.partition import PartitionState
from agent.state.restore import PAGE_FIRST, restore, tail_steps
from agent.state.snapshots import snapshot_steps, write_snapshot
from assignment.scripts.agent_side import SnapshotRecord
from assignment.types import START, Offset
from tests.agent.state_reading import PARTITION, Changelog, content, entry, restored

CRASHES = (
    (PartitionState, "take_over"),
    (PartitionState, "add"),
    (PartitionState, "finish"),
    (PartitionState, "apply"),
    (PartitionState, "_write"),
    (os, "symlink"),
    (os, "replace"),
    (Path, "unlink"),
)


def _restore_and_crash(folder: Path, log, number: int) -> None:
    """Ends without a word before the step `number`."""
    state = PartitionState.open(folder, "demo", PARTITION)
    left = [number]

    def counted(real):
        def step(*arguments, **options):
            left[0] -= 1
            if left[0] == 0:
                os._exit(7)
            return real(*arguments, **options)

        return step

    for owner, name in CRASHES:
        setattr(owner, name, counted(getattr(owner, name)))
    restore(log, state, PARTITION)
    os._exit(0)


def test_restore_that_is_killed_at_any_step_leaves_the_old_replica_or_the_new(tmp_path, source):
    source.apply(entry(0, 9, a=3, b=3))
    log = Changelog(entry(9, 12, b=4))
    log.snapshots = [write_snapshot(source, str(tmp_path / "snapshots"), "demo", fence=5)]
    first = PartitionState.open(tmp_path, "demo", PARTITION)
    first.take_over()
    first.apply(entry(0, 5, a=1))
    first.close()
    found, number, ended = [], 0, 7
    while ended == 7:
        number += 1
        copy = tmp_path / str(number)
        shutil.copytree(tmp_path / "demo", copy / "demo", symlinks=True)
        process = multiprocessing.get_context("fork").Process(
            target=_restore_and_crash, args=(copy, log, number)
        )
        process.start()
        process.join(30)
        ended = process.exitcode
        assert replicas_in(copy, "demo") == [PARTITION]
        assert len(list((copy / "demo").glob("*.lmdb"))) == 1  # the rest is removed
        left = PartitionState.open(copy, "demo", PARTITION)
        found.append((left.offset.ms, content(left)))
        assert restored(log, left, PARTITION) == Offset(12, 0)
        left.close()
    old, new = (5, {"a": 1}), (12, {"a": 3, "b": 4})
    assert found == [old] * found.count(old) + [new] * found.count(new)
    assert ended == 0 and found.count(old) > 8 and found.count(new) > 2


def tailed(log, state, partition):
    steps = tail_steps(log, state, partition)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def test_tail_brings_a_replica_forward(state):
    state.apply(entry(0, 5, a=1))
    log = Changelog(entry(0, 5, a=1), entry(5, 8, b=2), entry(8, 9, a=None))
    assert tailed(log, state, PARTITION) == Offset(9, 0)
    assert content(state) == {"b": 2}


def test_tail_reads_more_pages_than_one(state):
    log = Changelog(*(entry(n, n + 1, **{f"k{n}": n}) for n in range(100)))
    assert tailed(log, state, PARTITION) == Offset(100, 0)
    assert len(content(state)) == 100


def test_tail_that_does_not_end_at_the_committed_offset_is_a_gap(state):
    assert tailed(Changelog(entry(0, 5), committed=9), state, PARTITION) is None
    assert tailed(Changelog(committed=9), state, PARTITION) is None


def test_restore_without_a_snapshot_reads_the_whole_changelog(state):
    log = Changelog(entry(0, 5, a=1), entry(5, 8, a=2))
    assert restored(log, state, PARTITION) == Offset(8, 0)
    assert content(state) == {"a": 2}


def test_replica_above_the_committed_offset_is_thrown_away(state):
    state.apply(entry(0, 5, a=1))
    state.apply(entry(5, 9, b=1))
    log = Changelog(entry(0, 5, a=1), entry(5, 7, a=7))
    assert restored(log, state, PARTITION) == Offset(7, 0)
    assert content(state) == {"a": 7}


def test_replica_is_believed_where_nothing_but_the_offset_is_left_of_its_history(state):
    """It is the only copy there is."""
    state.apply(entry(0, 5, a=1))
    assert restored(Changelog(committed=5), state, PARTITION) == Offset(5, 0)
    assert content(state) == {"a": 1}


def test_replica_of_another_history_is_thrown_away_though_its_offset_is_equal(state):
    """Redis lost the commits above 5; those after them came to the same offset."""
    state.apply(entry(0, 5, a=1))
    state.apply(entry(5, 9, a=2, lost=True))
    log = Changelog(entry(0, 5, a=1), entry(5, 9, fence=2**32 + 1, a=3))
    assert restored(log, state, PARTITION) == Offset(9, 0)
    assert (state.fence, content(state)) == (2**32 + 1, {"a": 3})


def test_replica_of_another_server_is_thrown_away_though_its_fence_is_equal_too(state):
    """The holder went on under its fence where Redis had lost its commit; ids were given again."""
    state.apply(entry(0, 5, a=1))
    state.apply(entry(5, 9, a=2, lost=True))
    log = Changelog(entry(0, 5, a=1), replace(entry(5, 9, a=3), entry_id="9-8"))
    assert restored(log, state, PARTITION) == Offset(9, 0)
    assert content(state) == {"a": 3}


def test_replica_that_began_on_another_server_is_thrown_away_half_way(state):
    """A page comes from before a failover, the next one from after it."""
    before = [entry(n, n + 1, a=n, lost=True) for n in range(PAGE_FIRST)]
    after = [replace(entry(n, n + 1, a=n), entry_id=f"{n + 1}-8") for n in range(PAGE_FIRST + 1)]
    log = Changelog(*before, committed=PAGE_FIRST + 1)
    steps = tail_steps(log, state, PARTITION)
    next(steps)
    log.entries = after
    with pytest.raises(StopIteration) as end:
        while True:
            next(steps)
    assert (end.value.value, state.offset) == (None, Offset(PAGE_FIRST, 0))


def test_replica_that_a_commit_of_another_history_goes_on_from_is_thrown_away(state):
    state.apply(entry(0, 9, a=2, lost=True))
    later = 2**32 + 1
    log = Changelog(entry(0, 9, fence=later, a=3), entry(9, 12, fence=later, b=1))
    assert restored(log, state, PARTITION) == Offset(12, 0)
    assert content(state) == {"a": 3, "b": 1}


def test_replica_is_believed_at_a_recorded_snapshot_when_the_changelog_is_gone(state):
    state.apply(entry(0, 5, a=1))
    log = Changelog(committed=5)
    log.snapshots = [
        SnapshotRecord(url="gone", offset=Offset(5, 0), changelog_id="5-7", total=5, fence=5)
    ]
    assert restored(log, state, PARTITION) == Offset(5, 0)


@pytest.fixture
def source(tmp_path):
    """Another member's replica, which writes the snapshots."""
    opened = PartitionState.open(tmp_path / "other", "demo", PARTITION)
    opened.take_over()
    yield opened
    opened.close()


def test_snapshot_gives_the_same_state(state, source, tmp_path):
    source.apply(entry(0, 5, a=[1, 2], **{"k" * 900: "long"}))
    written = write_snapshot(source, str(tmp_path / "snapshots"), "demo", fence=5)
    list(snapshot_steps(state, written))
    assert content(state) == content(source)
    assert (state.offset, state.total, state.changelog_id) == (Offset(5, 0), 5, "5-7")
    assert written.url.startswith(f"{tmp_path}/snapshots/demo/flights:3/5-0-5-")


def test_snapshot_goes_to_any_fsspec_url(state, source):
    source.apply(entry(0, 5, a=1))
    written = write_snapshot(source, "memory://snapshots", "demo", fence=5)
    list(snapshot_steps(state, written))
    assert content(state) == {"a": 1}


def test_restore_takes_the_snapshot_and_the_changelog_after_it(state, source, tmp_path):
    source.apply(entry(0, 5, a=1, b=1))
    written = write_snapshot(source, str(tmp_path), "demo", fence=5)
    log = Changelog(entry(5, 8, b=2))  # what led to 5 is trimmed
    log.snapshots = [written]
    assert restored(log, state, PARTITION) == Offset(8, 0)
    assert content(state) == {"a": 1, "b": 2}


@pytest.mark.parametrize("harm", ["cut", "flip", "gone", "empty"])
def test_broken_snapshot_is_passed_over_for_the_one_before(state, source, tmp_path, harm):
    source.apply(entry(0, 5, a=1))
    before = write_snapshot(source, str(tmp_path), "demo", fence=5)
    source.apply(entry(5, 8, a=2))
    newest = write_snapshot(source, str(tmp_path), "demo", fence=5)
    path = Path(newest.url)
    data = path.read_bytes()
    harmed = {
        "cut": data[:-20],
        "flip": data[:40] + bytes([data[40] ^ 1]) + data[41:],
        "empty": b"",
    }
    path.unlink() if harm == "gone" else path.write_bytes(harmed[harm])
    with pytest.raises(SnapshotBroken, match=path.name):
        list(snapshot_steps(state, newest))
    assert state.offset == START
    log = Changelog(entry(5, 8, a=2), entry(8, 9, c=3))
    log.snapshots = [newest, before]
    assert restored(log, state, PARTITION) == Offset(9, 0)
    assert content(state) == {"a": 2, "c": 3}


@pytest.mark.parametrize("changes", [{}, {"a": [1, 2]}], ids=["without-keys", "with-one"])
def test_no_byte_of_a_snapshot_may_be_wrong(state, source, tmp_path, changes):
    source.apply(entry(0, 5, **changes))
    written = write_snapshot(source, str(tmp_path), "demo", fence=5)
    path = Path(written.url)
    data = path.read_bytes()
    for at, byte in enumerate(data):
        path.write_bytes(data[:at] + bytes([byte ^ 1]) + data[at + 1 :])
        with pytest.raises(SnapshotBroken):
            list(snapshot_steps(state, written))
    assert (state.offset, content(state)) == (START, {})


@pytest.mark.parametrize("trimmed", [True, False])
def test_snapshot_that_leads_nowhere_is_passed_over_too(state, source, tmp_path, trimmed):
    """Written of effects whose commit Redis lost, recorded when it had gone on in another step."""
    source.apply(entry(0, 5, a=1))
    before = write_snapshot(source, str(tmp_path), "demo", fence=5)
    source.apply(entry(5, 8, a=2))
    newest = write_snapshot(source, str(tmp_path), "demo", fence=5)
    log = Changelog(*([] if trimmed else [entry(0, 5, a=1)]), entry(5, 9, a=3))
    log.snapshots = [newest, before] if trimmed else [newest]
    assert restored(log, state, PARTITION) == Offset(9, 0)
    assert content(state) == {"a": 3}


def test_state_that_nothing_leads_to_is_lost_and_says_so(state):
    log = Changelog(entry(5, 8, a=2))
    with pytest.raises(StateLost, match="flights:3"):
        restore(log, state, PARTITION)


def test_committed_offset_without_any_changelog_is_lost_state(state):
    with pytest.raises(StateLost, match="flights:3"):
        restore(Changelog(committed=8), state, PARTITION)


def test_replica_follows_a_redis_that_was_moved_forward_to_a_newer_snapshot(
    state, source, tmp_path
):
    """Its changelog ends at 5, where its backup was taken, and goes on from the snapshot."""
    source.apply(entry(0, 5, a=1))
    state.apply(entry(0, 5, a=1))
    source.apply(entry(5, 8, b=2))
    written = write_snapshot(source, str(tmp_path / "snapshots"), "demo", fence=5)
    log = Changelog(entry(0, 5, a=1), committed=8)
    log.snapshots = [replace(written, changelog_id="5-7")]
    assert restored(log, state, PARTITION) == Offset(8, 0)
    log = Changelog(entry(0, 5, a=1), entry(8, 9, fence=2**32 + 1, c=3))
    log.snapshots = [replace(written, changelog_id="5-7")]
    assert restored(log, state, PARTITION) == Offset(9, 0)
    assert content(state) == {"a": 1, "b": 2, "c": 3}


def test_restored_state_after_a_wipe_stands_at_its_own_snapshot(state, source, tmp_path):
    source.apply(entry(0, 5, a=1))
    log = Changelog(committed=5)
    log.snapshots = [write_snapshot(source, str(tmp_path), "demo", fence=5)]
    state.apply(entry(0, 9, a=9))
    assert restored(log, state, PARTITION) == Offset(5, 0)
    assert content(state) == {"a": 1}


def test_a_snapshot_that_lies_elsewhere_is_not_opened_and_is_named(state, source, tmp_path):
    source.apply(entry(0, 5, a=1))
    own = write_snapshot(source, str(tmp_path / "own"), "demo", fence=5)
    source.apply(entry(5, 8, b=2))
    forged = write_snapshot(source, str(tmp_path / "elsewhere"), "demo", fence=5)
    log = Changelog(entry(5, 8, b=3))
    log.snapshots, log.elsewhere = [forged, own], [forged]
    assert restored(log, state, PARTITION) == Offset(8, 0)
    assert content(state) == {"a": 1, "b": 3}
    log = Changelog(committed=9)
    log.snapshots = log.elsewhere = [forged]
    with pytest.raises(StateLost, match=f"not below --snapshot-url: '{forged.url}'"):
        restore(log, state, PARTITION)


def test_a_record_that_lies_elsewhere_still_tells_whose_history_it_is(state):
    state.apply(entry(0, 9, a=2, lost=True))
    log = Changelog(committed=9)
    record = SnapshotRecord(
        url="elsewhere", offset=Offset(9, 0), changelog_id="9-8", total=9, fence=5
    )
    log.snapshots = log.elsewhere = [record]
    with pytest.raises(StateLost):
        restore(log, state, PARTITION)
