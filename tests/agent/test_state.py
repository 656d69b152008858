"""State on disk: what a changelog entry does to a replica, and who may write it."""

import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent.state import files
from agent.state.errors import StateError, StateLost, WriterReplaced
from agent.state.files import remove_replica, replicas_in
from agent.state.partition import Applied, PartitionState
from agent.state.restore import restore
from assignment.types import START, Offset, Partition
from tests.agent.state_reading import PARTITION, Changelog, content, entry, values_of


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
