"""Where the dashboard looks for snapshots: below the settings' folders, at files alone."""

import json
import os
import threading
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from assignment.coordinator.effects import ReadMirror
from assignment.scripts.agent_side import SnapshotRecord, record_values
from assignment.types import Offset, Partition
from assignment.wire import MANIFEST
from dashboard.coordinator import mirror
from dashboard.models import Group

pytestmark = pytest.mark.django_db
PATIENCE_S = 5.0


def record(url: Path | str, at: int = 5) -> SnapshotRecord:
    return SnapshotRecord(
        url=str(url), offset=Offset(at, 0), changelog_id="3-0", total=1, fence=2**32 + 1
    )


@pytest.fixture
def partition(db: None) -> Partition:
    return Partition("s", 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of that partition, with one snapshot."""
    made = tmp_path / "snapshots" / "g" / "s:1"
    made.mkdir(parents=True)
    (made / "old").touch()
    return made


def newest(folder: Path, partition: Partition) -> tuple[int, bool]:
    """Up to where the mirror goes that knows of one snapshot; whether it was found broken."""
    group = Group.objects.create(name="g", stream="s", partitions=4, settings={})
    group.mirror.create(
        number=1, offset="9-0", total=1, snapshot=[record_values(record(folder / "old"))]
    )
    read = mirror.read(group, ReadMirror())
    return read.snapshots[partition].offset.ms, partition in read.broken


def note(folder: Path, name: str = "new") -> bytes:
    """A manifest that tells of a newer one, which is there."""
    (folder / name).touch()
    return json.dumps([record_values(record(folder / name, at=8))]).encode()


def test_without_the_setting_nothing_is_looked_for(
    folder: Path, partition: Partition, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / MANIFEST).write_bytes(note(folder))
    settings.SNAPSHOT_URLS = []
    monkeypatch.setattr(os, "open", lambda *_, **__: pytest.fail("opened"))
    assert newest(folder, partition) == (5, False)


def test_below_a_folder_of_the_settings_the_manifest_tells_of_a_newer_one(
    folder: Path, partition: Partition, settings: Settings
) -> None:
    (folder / MANIFEST).write_bytes(note(folder))
    settings.SNAPSHOT_URLS = ["s3://bucket/x", f"file://{folder.parents[1]}"]
    assert newest(folder, partition) == (8, False)


def test_another_folder_of_the_same_form_is_not_looked_into(
    folder: Path, partition: Partition, settings: Settings, tmp_path: Path
) -> None:
    (folder / MANIFEST).write_bytes(note(folder))
    settings.SNAPSHOT_URLS = [str(tmp_path / "elsewhere")]
    assert newest(folder, partition) == (5, False)


def test_nothing_but_a_file_is_opened(
    folder: Path, partition: Partition, settings: Settings
) -> None:
    """Whoever opens a FIFO waits for who writes into it."""
    os.mkfifo(folder / MANIFEST)
    settings.SNAPSHOT_URLS = [str(folder.parents[1])]
    writer = threading.Timer(PATIENCE_S, lambda: (folder / MANIFEST).open("wb").close())
    writer.daemon = True
    writer.start()
    assert newest(folder, partition) == (5, False)
    assert writer.is_alive(), "it waited"
    writer.cancel()


def test_no_link_is_followed(
    folder: Path, partition: Partition, settings: Settings, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(note(folder))
    (folder / MANIFEST).symlink_to(secret)
    settings.SNAPSHOT_URLS = [str(folder.parents[1])]
    assert newest(folder, partition) == (5, False)


def test_no_folder_that_is_a_link_is_entered(
    folder: Path, partition: Partition, settings: Settings, tmp_path: Path
) -> None:
    (folder / MANIFEST).write_bytes(note(folder))
    folder.parent.rename(tmp_path / "elsewhere")
    folder.parent.symlink_to(tmp_path / "elsewhere")
    settings.SNAPSHOT_URLS = [str(folder.parents[1])]
    assert newest(folder, partition) == (5, False)


@pytest.mark.parametrize("behind", [" " * 2**16, "[" * 60_000])
def test_a_manifest_that_no_agent_wrote_says_nothing(
    folder: Path, partition: Partition, settings: Settings, behind: str
) -> None:
    """Too long, and nested deeper than it can be read."""
    (folder / MANIFEST).write_bytes(note(folder)[: -1 if "[" in behind else None] + behind.encode())
    settings.SNAPSHOT_URLS = [str(folder.parents[1])]
    assert newest(folder, partition) == (5, False)


def test_one_that_is_gone_is_known_to_be_broken(
    folder: Path, partition: Partition, settings: Settings
) -> None:
    settings.SNAPSHOT_URLS = [str(folder.parents[1])]
    (folder / "old").unlink()
    (folder / "old").mkdir()
    assert newest(folder, partition) == (5, True)
