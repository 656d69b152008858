"""Snapshot records are accepted only below the agent's own --snapshot-url."""

from pathlib import Path

import pytest

from agent.state.errors import StateError
from agent.state.places import is_below
from agent.state.snapshots import remove_snapshot
from agent.store.group import GroupStore
from assignment.scripts.agent_side import SnapshotRecord
from assignment.types import Offset, Partition
from tests.fakes import FakeDoor, FakeRedis

GROUP, PARTITION = "orders", Partition("orders", 3)
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
        (f"/{FILE}", "/"),
        (f"memory://{FILE}", "memory://"),
        (f"memory://a/{FILE}", "memory://a"),
    ],
)
def test_below(url: str, folder: str) -> None:
    assert is_below(url, folder, GROUP, PARTITION)


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
        ("/data/snapshots/another/orders:3/x.snapshot", "/data/snapshots"),
        ("/data/snapshots/orders/orders:4/x.snapshot", "/data/snapshots"),
        ("/data/snapshots/orders/orders:3/sub/x.snapshot", "/data/snapshots"),
        ("zip://a::file:///etc/passwd", "/"),
        ("", "/data"),
    ],
)
def test_not_below(url: str, folder: str) -> None:
    assert not is_below(url, folder, GROUP, PARTITION)


def record(url: str) -> SnapshotRecord:
    return SnapshotRecord(url=url, offset=Offset(5, 0), changelog_id="5-0", total=1, fence=7)


def test_only_what_lies_where_the_groups_snapshots_do_is_its_own() -> None:
    store = GroupStore(FakeDoor(FakeRedis()), GROUP, snapshots_below="/data/snapshots")
    assert store.is_own_snapshot(PARTITION, record(f"/data/snapshots/{FILE}"))
    assert not store.is_own_snapshot(PARTITION, record("/etc/shadow"))
    assert not store.is_own_snapshot(Partition("orders", 4), record(f"/data/snapshots/{FILE}"))


def test_nothing_outside_is_deleted(tmp_path: Path) -> None:
    outside = tmp_path / "precious"
    outside.write_text("x")
    folder = tmp_path / "snapshots"
    inside = folder / FILE
    inside.parent.mkdir(parents=True)
    inside.write_text("x")
    with pytest.raises(StateError, match="is no snapshot of orders:3 below"):
        remove_snapshot(str(outside), str(folder), GROUP, PARTITION)
    remove_snapshot(str(inside), str(folder), GROUP, PARTITION)
    assert outside.exists() and not inside.exists()
