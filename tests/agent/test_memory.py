"""What agents without a database find again after Redis was wiped."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.coordination import memory
from agent.coordination.coordinator import Coordinator
from agent.coordination.founding import Founder
from agent.coordination.memory import BEFORE, Memory
from agent.state.errors import StateError
from agent.state.keeping import write_manifest
from agent.store.group import GroupStore
from assignment.scripts.agent_side import SnapshotRecord
from assignment.types import NO_EPOCH, GroupSettings, Offset, Partition

P0, P1 = Partition("s", 0), Partition("s", 1)
SETTINGS = GroupSettings(stream="s", partitions=3, stateful=True)


@pytest.fixture
def store(redis_url: str, group_name: str) -> Iterator[GroupStore]:
    store = GroupStore.connect(redis_url, group_name)
    yield store
    store.close()


def test_an_incarnation_is_kept_once_and_never_goes_back(tmp_path: Path) -> None:
    one, other = Memory(str(tmp_path), "g"), Memory(str(tmp_path), "g")
    assert (one.highest(), other.keep(0)) == (0, False)
    assert one.keep(3)
    assert not other.keep(3), "the first of two has it"
    assert other.keep(5) and not one.keep(4)
    assert (one.highest(), Memory(str(tmp_path), "g").highest()) == (5, 5)
    assert Memory(str(tmp_path), "another").highest() == 0


@pytest.mark.parametrize("where", ["disk", "memory"])
def test_whoever_stood_still_between_reading_and_writing_takes_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    folder = str(tmp_path) if where == "disk" else f"memory://{tmp_path}"
    slow, quick = Memory(folder, "g"), Memory(folder, "g")
    assert slow.keep(5)
    write = memory.make_new

    def late(url: str, data: bytes) -> None:
        monkeypatch.setattr(memory, "make_new", write)
        assert quick.keep(6) and quick.keep(7)
        write(url, data)

    monkeypatch.setattr(memory, "make_new", late)
    assert not slow.keep(6), "another one has it"
    assert Memory(folder, "g").highest() == 7


def test_whoever_writes_below_what_was_kept_meanwhile_has_not_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """6 is free still, and 7 is taken."""
    slow, quick = (Memory(str(tmp_path), "g") for _ in range(2))
    write = memory.make_new

    def late(url: str, data: bytes) -> None:
        monkeypatch.setattr(memory, "make_new", write)
        assert quick.keep(7)
        write(url, data)

    monkeypatch.setattr(memory, "make_new", late)
    assert not slow.keep(6)
    assert slow.highest() == 7


def test_what_an_earlier_version_kept_is_known(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / BEFORE).write_text("6")
    kept = Memory(str(tmp_path), "g")
    assert not kept.keep(6) and kept.keep(7)
    assert Memory(str(tmp_path), "g").highest() == 7


def test_whoever_cannot_read_it_chooses_none(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / BEFORE).write_text("many")
    kept = Memory(str(tmp_path), "g")
    with pytest.raises(StateError, match=r"holds b'many', not an incarnation"):
        kept.keep(7)


def test_the_newest_whole_snapshot_of_each_partition_is_found(tmp_path: Path) -> None:
    def written(partition: Partition, ms: int, *, whole: bool) -> SnapshotRecord:
        url = tmp_path / "g" / str(partition) / f"{ms}-0-1-1-aa.snapshot"
        url.parent.mkdir(parents=True, exist_ok=True)
        if whole:
            url.touch()
        record = SnapshotRecord(
            url=str(url), offset=Offset(ms, 0), changelog_id="0-0", total=ms, fence=2**32 + 1
        )
        write_manifest(str(tmp_path), "g", partition, record)
        return record

    older, _ = written(P0, 1, whole=True), written(P0, 2, whole=False)
    gone = written(P1, 3, whole=False)
    mirror = Memory(str(tmp_path), "g").mirror(SETTINGS)
    assert mirror.snapshots == {P0: older, P1: gone}
    assert (mirror.broken, mirror.offsets) == ({P1}, {P0: older.offset, P1: gone.offset})


def test_whoever_cannot_read_it_any_more_chooses_none(store: GroupStore, tmp_path: Path) -> None:
    Founder(store, {"stream": f"s-{store.group}", "partitions": 1}).make_group()
    store.door.ask("DEL", store.keys.meta.replace(":meta", ":hold"))
    kept = Memory(str(tmp_path), "g")
    kept.keep(5)
    (tmp_path / "g" / BEFORE).write_text("many")  # another wrote 6, and the disk broke
    coordinator = Coordinator(store, "a", lambda: NO_EPOCH, kept, lambda *_, **values: None)
    with pytest.raises(StateError):
        coordinator.turn()
    assert store.meta().incarnation == 0


def test_whoever_cannot_write_it_goes_on_and_keeps_it_later(
    store: GroupStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(url: str, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    Founder(store, {"stream": f"s-{store.group}", "partitions": 1}).make_group()
    store.door.ask("DEL", store.keys.meta.replace(":meta", ":hold"))
    kept = Memory(str(tmp_path), "g")
    kept.keep(5)
    coordinator = Coordinator(store, "a", lambda: NO_EPOCH, kept, lambda *_, **values: None)
    with monkeypatch.context() as patched:
        patched.setattr("agent.coordination.memory.make_new", full)
        coordinator.turn()
    assert (store.meta().incarnation, kept.highest()) == (6, 5)
    coordinator.turn()
    assert Memory(str(tmp_path), "g").highest() == 6
