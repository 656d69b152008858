"""State on disk: what a changelog entry does to a replica; how one gets to the committed offset."""

import multiprocessing
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent.state import files
from agent.state.errors import SnapshotBroken, StateError, StateLost, WriterReplaced
from agent.state.files import remove_replica, replicas_in
from agent.state.partition import Applied, PartitionState
from agent.state.restore import PAGE_FIRST, restore, tail_steps
from agent.state.snapshots import snapshot_steps, write_snapshot
from assignment.scripts.agent_side import SnapshotRecord
from assignment.types import START, Offset, Partition
from assignment.wire import ChangelogEntry, ChangelogPage, pack_changes
from tests.agent.state_reading import restored, values_of

PARTITION = Partition("flights", 3)


def entry(
    start: int, end: int, total: int | None = None, fence: int = 5, **changes
) -> ChangelogEntry:
    """The effects of the entries in (start, end], under the id end-7 in the changelog."""
    return ChangelogEntry(
        entry_id=f"{end}-7",
        from_offset=Offset(start, 0),
        to_offset=Offset(end, 0),
        fence=fence,
        total=end if total is None else total,
        events=end - start,
        changes=pack_changes(changes),
        ids=b"",
    )


class Changelog:
    """What Redis would answer: untrimmed entries, recorded snapshots, the committed offset."""

    def __init__(self, *entries: ChangelogEntry, committed: int | None = None) -> None:
        self.entries = list(entries)
        last = entries[-1].to_offset if entries else START
        self.committed = last if committed is None else Offset(committed, 0)
        self.snapshots: list[SnapshotRecord] = []

    def read_changelog(self, partition, after, count):
        later = [e for e in self.entries if Offset.parse(e.entry_id) > Offset.parse(after)]
        return ChangelogPage(later[:count], self.committed)

    def read_snapshots(self, partition):
        return self.snapshots


@pytest.fixture
def state(tmp_path):
    opened = PartitionState.open(tmp_path, "demo", PARTITION)
    opened.take_over()
    yield opened
    opened.close()


def content(state: PartitionState) -> dict:
    with state.reading() as reading:
        return dict(reading.items())


def test_new_replica_is_empty_at_the_start(state):
    assert (state.offset, state.total, state.changelog_id, content(state)) == (START, 0, "0-0", {})


def test_entry_moves_values_offset_and_total_together(state):
    assert state.apply(entry(0, 5, a=[1], b={"n": 2})) is Applied.APPLIED
    assert state.apply(entry(5, 9, a=None, c="x")) is Applied.APPLIED
    assert values_of(state, ["a", "b", "c", "d"]) == {"b": {"n": 2}, "c": "x"}
    assert (state.offset, state.total, state.changelog_id) == (Offset(9, 0), 9, "9-7")


def test_entry_not_above_the_replica_is_skipped(state):
    state.apply(entry(0, 5, a=1))
    assert state.apply(entry(0, 5, a=2)) is Applied.SKIPPED
    assert content(state) == {"a": 1}


def test_entry_that_starts_elsewhere_is_a_gap_and_changes_nothing(state):
    state.apply(entry(0, 5, a=1))
    assert state.apply(entry(6, 9, a=2)) is Applied.GAP
    assert (state.offset, content(state)) == (Offset(5, 0), {"a": 1})


def test_keys_of_any_length_and_script_come_back(state):
    changes = {"": 0, "é" * 400: 1, "k" * 5000: [2], "k" * 5001: 3}
    state.apply(entry(0, 1, **changes))
    assert content(state) == changes
    assert values_of(state, changes) == changes
    state.apply(entry(1, 2, **{"k" * 5000: None}))
    assert "k" * 5000 not in content(state)


def test_replica_is_there_after_a_restart(tmp_path):
    first = PartitionState.open(tmp_path, "demo", PARTITION)
    first.take_over()
    first.apply(entry(0, 5, a=1))
    first.close()
    second = PartitionState.open(tmp_path, "demo", PARTITION)
    assert (second.offset, content(second)) == (Offset(5, 0), {"a": 1})
    second.close()


def test_replica_of_an_earlier_boot_is_thrown_away(tmp_path):
    first = PartitionState.open(tmp_path, "demo", PARTITION)
    first.take_over()
    first.apply(entry(0, 5, a=1))
    first.close()
    link = files.link_of(first.path.parent, PARTITION)
    file = link.with_name(f"{PARTITION}.00000000.1.lmdb")
    files.make_current(link.with_name(f"{PARTITION}.00000000.current"), file)
    first.path.rename(file)
    link.unlink()
    second = PartitionState.open(tmp_path, "demo", PARTITION)
    assert second.offset == START
    assert not list(second.path.parent.glob("*.00000000.*"))
    second.close()


def _read_in_another_process(folder: Path, answer) -> None:
    state = PartitionState.open(folder, "demo", PARTITION)
    answer.put((str(state.offset), content(state)))
    state.close()


def test_a_batch_reads_while_a_snapshot_is_read_and_a_close_waits_for_both(state):
    """A snapshot of a million keys takes seconds; the batches of its partition go on."""
    with ThreadPoolExecutor(2) as threads:
        with state.reading() as snapshot:
            assert threads.submit(content, state).result(timeout=30) == {}
            closed = threads.submit(state.close)
            with pytest.raises(TimeoutError):
                closed.result(timeout=0.2)
            assert not list(snapshot.items())
        closed.result(timeout=30)
    with pytest.raises(StateError, match="is closed"):
        content(state)


def test_another_process_reads_what_was_written(state, tmp_path):
    state.apply(entry(0, 5, a=1))
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=_read_in_another_process, args=(tmp_path, answer))
    process.start()
    assert answer.get(timeout=30) == ("5-0", {"a": 1})
    process.join(timeout=30)


def _write_in_another_process(folder: Path, steps) -> None:
    """Does one step at a time, and answers what became of it."""
    state = PartitionState.open(folder, "demo", PARTITION)
    with ExitStack() as stack:
        _answer_steps(state, stack, steps)
    state.close()


def _answer_steps(state: PartitionState, stack: ExitStack, steps) -> None:
    other = None
    while (step := steps.recv()) is not None:
        name, arguments = step
        try:
            if name == "begin":
                other = stack.enter_context(state.replacement())
            elif name == "become_other":
                state.become(other)
            else:
                writer = other if name.endswith("_other") else state
                getattr(writer, name.removesuffix("_other"))(*arguments)
            steps.send("done")
        except WriterReplaced:
            steps.send("replaced")


@pytest.fixture
def other_writer(tmp_path):
    """A writer of the same file, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_write_in_another_process, args=(tmp_path, theirs))
    process.start()

    def ask(name: str, *arguments) -> str:
        ours.send((name, arguments))
        assert ours.poll(30)
        return ours.recv()

    yield ask
    ours.send(None)
    process.join(timeout=30)


def test_restore_that_was_paused_cannot_finish_what_another_began_anew(state, other_writer):
    """Else the replica would say that it is whole and lack what the one before had added."""
    state.apply(entry(0, 3, old=1))
    assert other_writer("take_over") == "done"
    assert other_writer("begin") == "done"
    assert other_writer("add_other", [("a", 1)]) == "done"
    state.take_over()
    with state.replacement() as other:
        other.add([("a", 1)])
        assert other_writer("add_other", [("b", 2)]) == "done"  # to a file of its own
        assert other_writer("finish_other", Offset(5, 0), 5, "5-7", 5) == "done"
        assert other_writer("become_other") == "replaced"
        assert other_writer("add", [("b", 2)]) == "replaced"
        assert other_writer("finish", Offset(5, 0), 5, "5-7", 5) == "replaced"
        assert other_writer("clear") == "replaced"
        assert (state.offset, content(state)) == (Offset(3, 0), {"old": 1})
        other.add([("b", 3)])
        other.finish(Offset(5, 0), 5, "5-7", 5)
        state.become(other)
    assert (state.offset, content(state)) == (Offset(5, 0), {"a": 1, "b": 3})


def test_writer_whose_replica_was_taken_over_changes_nothing(state, other_writer):
    state.apply(entry(0, 5, a=1))
    assert other_writer("apply", entry(5, 8, a=2)) == "replaced"
    assert other_writer("take_over") == "done"
    with pytest.raises(WriterReplaced, match="flights:3"):
        state.apply(entry(5, 8, a=3))
    assert other_writer("apply", entry(5, 8, a=2)) == "done"
    assert (state.offset, content(state)) == (Offset(8, 0), {"a": 2})


@pytest.mark.parametrize("harm", [b"", b"x" * 9_000, bytes(4_000)])
def test_file_that_is_no_state_any_more_is_a_lost_replica(tmp_path, harm):
    first = PartitionState.open(tmp_path, "demo", PARTITION)
    first.take_over()
    first.apply(entry(0, 5, a=1))
    first.close()
    first.path.write_bytes(harm)
    second = PartitionState.open(tmp_path, "demo", PARTITION)
    assert second.offset == START
    second.take_over()
    assert second.apply(entry(0, 5, a=1)) is Applied.APPLIED
    second.close()


def test_replica_stays_as_it_is_when_nothing_leads_to_the_committed_offset(state):
    """It may be the only copy there is."""
    state.apply(entry(0, 5, a=1))
    with pytest.raises(StateLost, match="flights:3"):
        restore(Changelog(committed=9), state, PARTITION)
    assert (state.offset, content(state)) == (Offset(5, 0), {"a": 1})
    assert len(list(state.path.parent.glob("*.lmdb"))) == 1


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


def test_full_disk_is_said_and_nothing_is_changed(state, monkeypatch):
    state.apply(entry(0, 5, a=1))
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=1, f_frsize=4_096))
    with pytest.raises(StateError, match="no space left"):
        PartitionState.open(state.path.parents[1], "demo", Partition("flights", 4))
    assert not list(state.path.parent.glob("flights:4*"))


def test_replicas_of_a_folder_are_found_and_removed(tmp_path):
    for number in (3, 11):
        PartitionState.open(tmp_path, "demo", Partition("flights", number)).close()
    folder = tmp_path / "demo"
    (folder / "flights:5.00000000.lmdb").touch()
    (folder / "flights:5.00000000.lmdb-lock").touch()
    (folder / "flights:6.00000000.current").touch()
    (folder / "notes.txt").touch()
    (folder / "flights.lmdb").touch()
    assert replicas_in(tmp_path, "demo") == [Partition("flights", 11), PARTITION]
    remove_replica(tmp_path, "demo", PARTITION)
    remove_replica(tmp_path, "demo", PARTITION)
    names = {p.name.split(".")[0] for p in folder.iterdir()}
    assert names == {"flights:11", "notes", "flights"}
    assert replicas_in(tmp_path, "nothing") == []


def test_whoever_has_a_removed_replica_open_can_tell(state, tmp_path):
    assert state.is_there
    remove_replica(tmp_path, "demo", PARTITION)
    assert not state.is_there
    state.path.touch()
    assert not state.is_there


def test_whoever_has_a_replica_open_that_was_replaced_can_tell(state, other_writer):
    assert other_writer("take_over") == other_writer("begin") == other_writer("become_other")
    assert not state.is_there
    with pytest.raises(WriterReplaced):
        state.apply(entry(0, 5, a=1))


# --- tail and restore


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
