"""Snapshot records are accepted only below the agent's own --snapshot-url."""

import json
from pathlib import Path

import pytest

from agent.state.errors import StateError
from agent.state.places import is_below
from agent.state.snapshots import remove_snapshot
from agent.store.group import GroupStore
from assignment.scripts.agent_side import SnapshotRecord, record_values
from assignment.types import Offset, Partition
from tests.fakes import FakeDoor, FakeRedis

FILE = "orders/orders:3/5-0-7-1700000000000-ab12.snapshot"


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        (f"/data/snapshots/{FILE}", "/data/snapshots"),
        (f"/data/snapshots/{FILE}", "/data/snapshots/"),
        (f"file:///data/snapshots/{FILE}", "/data/snapshots"),
        (f"/data/snapshots/{FILE}", "file:///data/snapshots"),
        (f"snapshots/{FILE}", "snapshots"),
        (f"s3://bucket/a/{FILE}", "s3://bucket/a"),
        (f"s3://bucket/{FILE}", "s3://bucket"),
        (f"S3://Bucket/{FILE}", "s3://bucket/"),
    ],
)
def test_below(url: str, folder: str) -> None:
    assert is_below(url, folder)


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("/etc/passwd", "/data/snapshots"),
        (f"/data/other/{FILE}", "/data/snapshots"),
        (f"/data/snapshots2/{FILE}", "/data/snapshots"),
        (f"/data/snapshots/../other/{FILE}", "/data/snapshots"),
        ("/data/snapshots/orders/../x", "/data/snapshots"),
        ("/data/snapshots/../../etc/passwd", "/data/snapshots"),
        ("/data/snapshots/orders/orders:3/..", "/data/snapshots"),
        ("/data/snapshots/orders/orders:3/", "/data/snapshots"),
        ("/data/snapshots/orders", "/data/snapshots"),
        (f"/data/snapshots//{FILE}", "/data/snapshots"),
        (f"http://s3/bucket/a/{FILE}", "s3://bucket/a"),
        (f"s3://another/a/{FILE}", "s3://bucket/a"),
        (f"s3://bucket/b/{FILE}", "s3://bucket/a"),
        (f"s3://user@bucket/a/{FILE}", "s3://bucket/a"),
        ("s3://bucket/a/orders/orders:3/x.snapshot?versionId=1", "s3://bucket/a"),
        ("s3://bucket/a/orders/orders:3/%2e%2e", "s3://bucket/a"),
        ("s3://bucket/a/orders/zip::file/x", "s3://bucket/a"),
        ("zip://a::file:///etc/passwd", "/"),
        ("", "/data"),
    ],
)
def test_not_below(url: str, folder: str) -> None:
    assert not is_below(url, folder)


def test_a_forged_record_is_as_if_it_were_not_there() -> None:
    partition, folder = Partition("s", 0), "/data/snapshots"

    def record(url: str) -> SnapshotRecord:
        return SnapshotRecord(url=url, offset=Offset(5, 0), changelog_id="5-0", total=1, fence=7)

    good, forged = record(f"{folder}/g/s:0/x.snapshot"), record("/etc/shadow")
    store = GroupStore(FakeDoor(FakeRedis()), "g", snapshots_below=folder)
    text = json.dumps([record_values(forged), record_values(good)])
    store.door.ask("HSET", store.keys.snapshots, str(partition), text)
    assert store.read_snapshots(partition) == (good,)


def test_nothing_outside_is_deleted(tmp_path: Path) -> None:
    outside = tmp_path / "precious"
    outside.write_text("x")
    inside = tmp_path / "snapshots" / "g" / "s:0" / "x.snapshot"
    inside.parent.mkdir(parents=True)
    inside.write_text("x")
    folder = str(tmp_path / "snapshots")
    with pytest.raises(StateError, match="is not below"):
        remove_snapshot(str(outside), folder)
    remove_snapshot(str(inside), folder)
    assert outside.exists() and not inside.exists()
