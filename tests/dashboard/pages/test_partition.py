"""GET /groups/<name>/partitions/<number>/: ownership over time, drawn and as a table."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from assignment.troubles import Halted, HaltReason, Unserved, UnservedReason
from assignment.types import Partition
from assignment.wire import GroupKeys
from dashboard.live.connection import sync_client
from dashboard.models import AuditEntry, Group, Tenure
from tests.dashboard.agents import FakeAgent
from tests.dashboard.people import granted, logged_in


def test_the_page_has_every_interval(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    page = visitor.get(f"/groups/{group.name}/partitions/0/?span=all").content.decode()
    stored = Tenure.objects.get(group=group, number=0)
    assert re.findall(r'data-partition="[^"]+" data-fence="(\d+)"', page) == [str(stored.fence)]
    assert f"/members/{stored.member_id}/" in page
    assert 'data-first="0" data-last="0"' in page


def test_the_lookup_by_time(visitor: Client, group: Group, agents: list[FakeAgent]) -> None:
    stored = Tenure.objects.get(group=group, number=0)
    address = f"/groups/{group.name}/partitions/0/?at="
    assert "Owner at" in visitor.get(address + str(stored.started_ms)).content.decode()
    early = visitor.get(address + str(stored.started_ms - 1)).content.decode()
    assert "Nobody held the lock" in early


# --- what stands still ---


def halt(agent: FakeAgent, number: int, entry: str = "7-1") -> None:
    partition = Partition(agent.group.stream, number)
    why = "the consumer ended with code 13"
    halted = Halted(partition=partition, reason=HaltReason.CRASH, entry=entry, why=why)
    agent.halted = [halted]
    agent.beat()


@pytest.fixture
def operator(user: User) -> Client:
    granted(user, "operator")
    return logged_in(user)


def owned_number(agent: FakeAgent) -> int:
    return min(partition.number for partition in agent.held)


def test_a_halted_partition_says_where_and_why_in_the_page_and_in_the_list(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    number = owned_number(agents[0])
    halt(agents[0], number)
    page = visitor.get(f"/groups/{group.name}/partitions/{number}/").content.decode()
    assert '<dt>Halted</dt><dd id="halted">at entry <span class="mono">7-1</span>' in page
    assert "an event that ends its consumer each time" in page
    assert "the consumer ended with code 13" in page
    assert 'at <span class="mono">7-1</span>' in (
        visitor.get(f"/groups/{group.name}/partitions/").content.decode()
    )


def test_who_may_not_skip_is_told_why_and_is_refused(
    viewer: Client, group: Group, agents: list[FakeAgent]
) -> None:
    number = owned_number(agents[0])
    halt(agents[0], number)
    address = f"/groups/{group.name}/partitions/{number}/"
    page = viewer.get(address).content.decode()
    why = "To skip an event takes the role operator or admin in group"
    assert f'disabled title="{why}' in page
    answer = viewer.post(f"{address}?do=skip", {"entry": "7-1", "reason": "broken"})
    assert answer.status_code == 403
    assert not AuditEntry.objects.filter(action="skip event").exists()
    entry = AuditEntry.objects.get(action="skip an event")
    assert (entry.actor, entry.group) == ("bob", group.name)
    assert entry.result.startswith("denied: to skip an event takes")


def test_an_event_is_skipped_with_a_reason_and_audited(
    operator: Client, group: Group, agents: list[FakeAgent]
) -> None:
    number = owned_number(agents[0])
    halt(agents[0], number)
    address = f"/groups/{group.name}/partitions/{number}/"
    assert 'href="?do=skip&amp;entry=7-1"' in operator.get(address).content.decode()
    asked = operator.get(f"{address}?do=skip&entry=7-1").content.decode()
    assert 'name="entry" value="7-1"' in asked
    without = operator.post(f"{address}?do=skip", {"entry": "7-1", "reason": ""})
    assert "This field is required" in without.content.decode()
    done = operator.post(f"{address}?do=skip", {"entry": "7-1", "reason": "broken"})
    assert (done.status_code, done["Location"]) == (302, address)
    entry = AuditEntry.objects.get(action="skip event")
    assert (entry.actor, entry.reason, entry.after) == ("ann", "broken", {"entry": "7-1"})
    key = GroupKeys(group.name).skips
    asked_for = sync_client().hget(key, f"{group.stream}:{number}")
    assert asked_for == b'7-1 {"actor": "ann", "reason": "broken"}'


def test_an_event_that_is_past_already_is_not_skipped_and_that_is_audited(
    operator: Client, group: Group, agents: list[FakeAgent]
) -> None:
    number = owned_number(agents[0])
    halt(agents[0], number)
    sync_client().hset(GroupKeys(group.name).offsets, f"{group.stream}:{number}", "7-1")
    answer = operator.post(
        f"/groups/{group.name}/partitions/{number}/?do=skip", {"entry": "7-1", "reason": "x"}
    )
    assert "is past entry 7-1 already" in answer.content.decode()
    entry = AuditEntry.objects.get(action="skip event")
    assert entry.result.startswith("refused: ")


def test_what_no_member_can_serve_says_so_with_each_reason(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    partition = min(agents[0].held)
    one = Unserved(reason=UnservedReason.RESTORE, left_ms=200_000, why="disk full")
    for agent in agents:
        agent.unserved = {partition: one}
    agents[0].release([partition])
    for agent in agents:
        agent.beat()
    page = visitor.get(f"/groups/{group.name}/partitions/{partition.number}/").content.decode()
    assert "cannot be served by any member" in page
    assert page.count("its state cannot be restored there; tried again at") == 2
    listed = visitor.get(f"/groups/{group.name}/partitions/").content.decode()
    assert "cannot be served by any member" in listed


def test_a_partition_that_is_not_there(visitor: Client, group: Group) -> None:
    assert visitor.get(f"/groups/{group.name}/partitions/4/").status_code == 404
