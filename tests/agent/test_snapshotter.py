"""When a snapshot is written, what is recorded of it, and which files go."""

from pathlib import Path

import pytest

from agent.spark import snapshotter
from agent.spark.commit import PartitionChanges
from agent.spark.effects import StateEffects
from agent.spark.ranges import Range
from agent.spark.snapshotter import Snapshotter
from agent.spark.source import Counted
from agent.state import PartitionState, restore
from assignment.scripts import CommitRequest
from assignment.types import Offset
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
    effects.applied(prepared, world.store.commit(request))


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
                and sorted(r.url for r in found) == files(world)
            ),
            f"snapshot {number}",
            20,
        )
    assert [e.to_offset.ms for e in world.changelog(first)][-3:] == [7, 8, 9]
    assert len(world.changelog(first)) == 4  # from the last entry within the one before
    for end in range(10, 12):
        commit(world, effects, end - 1, end)
    other = PartitionState.open(tmp_path / "other", world.name, first)
    assert restore(world.store, other, first) == Offset(11, 0)
    assert other.get_many(["a"]) == {"a": sum(range(1, 12))}
    newest = Path(world.store.read_snapshots(first)[0].url)
    newest.write_bytes(newest.read_bytes()[:-1])
    other.clear()
    assert restore(world.store, other, first) == Offset(11, 0)
    assert (other.total, other.get_many(["a"])) == (11, {"a": sum(range(1, 12))})
    other.close()


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
