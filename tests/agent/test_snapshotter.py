"""When a snapshot is written, what is recorded of it, and which files go."""

import os
from pathlib import Path

import pytest

from agent.spark import snapshotter
from agent.spark.commit import PartitionChanges
from agent.spark.effects import StateEffects
from agent.spark.reading import Counted
from agent.spark.snapshotter import Snapshotter
from agent.state.keeping import read_manifest, removable, write_manifest
from agent.state.partition import PartitionState
from agent.state.snapshots import write_snapshot
from assignment.scripts import agent_side
from assignment.scripts.agent_side import CommitRequest, SnapshotRecord
from assignment.types import Offset, Partition, Range
from tests.agent.state_reading import restored, values_of
from tests.e2e.spark_world import SparkWorld, until


@pytest.fixture
def world(redis_url: str, group_name: str, tmp_path: Path) -> SparkWorld:
    return SparkWorld(redis_url, group_name, tmp_path)


@pytest.fixture
def effects(world: SparkWorld, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(snapshotter, "SNAPSHOT_ENTRIES", 3)
    snapshots = Snapshotter(world.store, str(world.folder / "snapshots"), trim=lambda: True)
    made = StateEffects(
        world.store,
        str(world.folder / "state"),
        world.name,
        lambda old, change: (old or 0) + change["n"],
        snapshots,
    )
    yield made
    made.close()


def commit(world: SparkWorld, effects: StateEffects, start: int, end: int) -> None:
    """One event with the effect n = its offset on one key."""
    first = world.partitions[0]
    one = Range(first, Offset(start, 0), Offset(end, 0), world.fences[first])
    changes = PartitionChanges([("a", {"n": end}), (f"k{end}", {"n": 1})])
    prepared = effects.prepare(one, Counted(1, str(one.to_offset)), one.from_offset, changes)
    assert prepared is not None
    request = CommitRequest(
        partition=first,
        member_id="m1",
        fence=one.fence,
        from_offset=one.from_offset,
        to_offset=one.to_offset,
        events=1,
        changes=prepared.packed,
    )
    effects.applied(prepared, world.store.run(agent_side.commit(request)))


def files(world: SparkWorld) -> list[str]:
    folder = world.folder / "snapshots"
    return sorted(str(path) for path in folder.rglob("*.snapshot"))


def test_snapshots_bound_the_changelog_and_lead_to_the_state(world, effects, tmp_path) -> None:
    first = world.partitions[0]
    for number in range(1, 4):
        for end in range(number * 3 - 2, number * 3 + 1):
            commit(world, effects, end - 1, end)
        until(
            lambda number=number: (
                len(found := world.store.read_snapshots(first)) == min(number, 2)
                and found[0].offset == Offset(number * 3, 0)
                and len(files(world)) == number  # the one before the last may be mirrored still
            ),
            f"snapshot {number}",
            20,
        )
    assert [e.to_offset.ms for e in world.changelog(first)][-3:] == [7, 8, 9]
    assert len(world.changelog(first)) == 4  # from the last entry within the one before
    for end in range(10, 12):
        commit(world, effects, end - 1, end)
    other = PartitionState.open(tmp_path / "other", world.name, first)
    assert restored(world.store, other, first) == Offset(11, 0)
    assert values_of(other, ["a"]) == {"a": sum(range(1, 12))}
    newest = Path(world.store.read_snapshots(first)[0].url)
    newest.write_bytes(newest.read_bytes()[:-1])
    other.clear()
    assert restored(world.store, other, first) == Offset(11, 0)
    assert (other.total, values_of(other, ["a"])) == (11, {"a": sum(range(1, 12))})
    other.close()


MINUTE_MS = 60_000


def url(age_minutes: float) -> str:
    return f"/s/g/flights:0/5-0-7-{int((1_000 - age_minutes) * MINUTE_MS)}-abcd.snapshot"


def removed(*ages: float, named: tuple[float, ...] = ()) -> list[str]:
    """Of files so many minutes old."""
    return removable(map(url, ages), {*map(url, named)}, 1_000 * MINUTE_MS)


def test_snapshot_files_go_by_age_and_never_by_count() -> None:
    assert removed(*(n / 100 for n in range(100))) == []
    assert removed(61, 70) == [url(70), url(61)]


def test_of_the_files_of_an_hour_one_in_ten_minutes_stays() -> None:
    gone = removed(*range(2, 61))
    stay = [age for age in range(2, 61) if url(age) not in gone]
    assert stay == [10, 20, 30, 40, 50, 60]
    assert removed(*stay) == []


def test_a_snapshot_file_that_a_record_names_stays_whatever_its_age() -> None:
    assert removed(61, 5_000, 500, named=(5_000, 61)) == [url(500)]


def test_a_snapshot_of_another_form_of_name_counts_as_old() -> None:
    older = "/s/g/flights:0/5-0-7-abcd.snapshot"
    assert removable([older], set(), 1_000 * MINUTE_MS) == [older]


def test_manifest_names_the_newest_two_and_never_goes_back(tmp_path: Path) -> None:
    """After a Redis that came from a backup its owner writes older ones."""
    first = Partition("flights", 0)
    folder = str(tmp_path)

    def record(number: int, fence: int) -> SnapshotRecord:
        return SnapshotRecord(
            url=f"u{number}", offset=Offset(number, 0), changelog_id="0-0", total=1, fence=fence
        )

    older, newer, later = record(5, 7), record(8, 7), record(6, 2**32 + 1)
    for one in (older, newer, record(3, 7)):
        write_manifest(folder, "g", first, one)
    assert read_manifest(folder, "g", first) == (newer, older)
    assert write_manifest(folder, "g", first, later) == [later, newer]


def test_manifest_goes_back_where_a_person_set_the_offset_back(tmp_path: Path) -> None:
    """The next fence of the same Redis goes on below what the one before it had reached."""
    first, folder = Partition("flights", 0), str(tmp_path)

    def record(number: int, fence: int) -> SnapshotRecord:
        return SnapshotRecord(
            url=f"u{number}", offset=Offset(number, 0), changelog_id="0-0", total=1, fence=fence
        )

    older, undone, since = record(4, 7), record(8, 7), record(6, 8)
    for one in (older, undone):
        write_manifest(folder, "g", first, one)
    assert write_manifest(folder, "g", first, since) == [since, older]


def test_snapshot_is_on_the_disk_before_it_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File and folders: a changelog is trimmed on its strength, and power may fail."""
    done: list[str] = []
    real_sync, real_replace = os.fsync, os.replace

    def sync(opened: int) -> None:
        done.append(Path(f"/proc/self/fd/{opened}").resolve().name)
        real_sync(opened)

    def replace(source: Path, target: Path) -> None:
        done.append("replace")
        real_replace(source, target)

    state = PartitionState.open(tmp_path / "state", "g", Partition("flights", 0))
    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", replace)
    write_snapshot(state, str(tmp_path / "snapshots"), "g", fence=0)
    state.close()
    *folders, file, replaced, folder = done
    assert folders == [tmp_path.name, "snapshots", "g"]
    assert (file.endswith(".unfinished"), replaced, folder) == (True, "replace", "flights:0")


def test_snapshot_of_a_fenced_owner_leaves_no_file(world, effects) -> None:
    commit(world, effects, 0, 1)
    first = world.partitions[0]
    fence = world.fences[first]
    world.take_over(first)
    state = effects._state(first)
    Snapshotter(world.store, str(world.folder / "snapshots"), trim=lambda: True).write(state, fence)
    assert files(world) == []
    assert world.store.read_snapshots(first) == ()


def test_folder_that_cannot_be_written_is_one_warning(world, effects, caplog) -> None:
    (world.folder / "snapshots").write_text("a file, not a folder")
    for end in range(1, 8):
        commit(world, effects, end - 1, end)
    assert world.store.read_snapshots(world.partitions[0]) == ()
    assert world.committed()[0] == Offset(7, 0)
