"""What is recorded and told of a member whose processes come one after the other (KIP-345)."""

from typing import Any

import pytest

from assignment.scripts import dashboard_side, heartbeat
from assignment.scripts.group_read import Purpose
from assignment.wire import Heartbeat
from dashboard import coordinator
from dashboard.live import groups as live_groups
from dashboard.live.scripts import run
from dashboard.models import Group, MemberRecord
from tests.dashboard.agents import make_group, until

pytestmark = pytest.mark.django_db
FAST = {
    "lease_ms": 1_500,
    "renew_ms": 500,
    "session_timeout_ms": 1_200,
    "heartbeat_ms": 300,
    "grace_ms": 1_000,
}


def start(group: Group, secret: str) -> None:
    row = {"instance": "i", "host": f"host of {secret}"}
    run(dashboard_side.join("i", secret, row), group.name)
    beat = Heartbeat(member="i", secret=secret, report=1, sequence=1, complete=True)
    run(heartbeat.report(beat), group.name)
    coordinator.tick()


def stop(group: Group, secret: str) -> None:
    run(dashboard_side.leave("i", secret, stops=True), group.name)


def test_the_next_process_goes_on_with_the_stay_and_without_one_the_member_has_left(
    store: Any, group_name: str
) -> None:
    group = make_group(group_name, **FAST, instance_timeout_ms=300)
    start(group, "one")
    (stay,) = MemberRecord.objects.all()
    stop(group, "one")
    start(group, "two")
    (same,) = MemberRecord.objects.all()
    assert (same.pk, same.host, same.end) == (stay.pk, "host of two", None)
    stop(group, "two")

    def has_left() -> bool:
        coordinator.tick()
        return MemberRecord.objects.filter(end="left").exists()

    until(has_left)
    assert not live_groups.read(group.name, Purpose.LOOK).members
