"""Groups that their agents made: listed, and adopted with what they are."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agent.coordination.founding import Founder
from agent.store.door import RedisDoor
from agent.store.group import GroupStore
from assignment.scripts.group_read import Purpose
from assignment.types import Coordination
from assignment.wire import GROUP_INDEX, StreamKeys
from dashboard import coordinator
from dashboard.actions import adoption, coordination, groups
from dashboard.actions.groups import Refused
from dashboard.actions.roles import Denied, Grant, Rights, Role
from dashboard.live import groups as groups_in_redis
from dashboard.live import queue
from dashboard.models import AuditEntry, AuditSource, Group
from dashboard.records import rights
from dashboard.records.audit import By
from tests.dashboard.agents import FakeAgent, make_group
from tests.dashboard.people import granted, logged_in

ANN = By("ann", AuditSource.PAGE)


@pytest.fixture
def founded(store: Any, redis_url: str, group_name: str, db: None) -> Any:
    """Its store; no dashboard knows it."""
    found = GroupStore(RedisDoor(redis_url), group_name)
    flags = {"stream": f"s-{group_name}", "partitions": 4, "strategy": "averagely"}
    assert Founder(found, flags).make_group()
    yield found
    store.srem(GROUP_INDEX, group_name)


def test_a_group_that_its_agents_made_is_listed_and_adopted(
    founded: GroupStore, client: Client, admin_user: Any
) -> None:
    client.force_login(admin_user)
    assert f"/adopt-group/{founded.group}/" in client.get("/groups/").content.decode()
    before = founded.meta()
    answer = client.post(f"/adopt-group/{founded.group}/")
    assert answer.headers["Location"] == f"/groups/{founded.group}/"
    group = Group.objects.get(name=founded.group)
    assert (group.values, group.coordination) == (before.settings, Coordination.CLIENT)
    after = founded.meta()
    assert (after.identity, before.identity) == (group.identity, "")
    assert after.coordination is Coordination.CLIENT
    assert (after.group_epoch, after.settings_epoch) == (before.group_epoch, before.settings_epoch)
    assert AuditEntry.objects.get(action="adopt group").actor == admin_user.get_username()
    assert f"/adopt-group/{founded.group}/" not in client.get("/groups/").content.decode()


def test_a_long_list_costs_one_round_trip_and_ends(
    founded: GroupStore, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = [f"{founded.group}-gone-{n}" for n in range(3)]
    store.sadd(GROUP_INDEX, *gone)
    asked: list[Any] = []
    client = groups_in_redis.sync_client()
    pipeline = client.pipeline
    monkeypatch.setattr(client, "pipeline", lambda **o: asked.append(o) or pipeline(**o))
    monkeypatch.setattr(groups_in_redis, "sync_client", lambda: client)
    try:
        names = [founded.group, *gone]
        assert [one.name for one in groups_in_redis.look_at(names)] == [founded.group]
        assert len(asked) == 1
        monkeypatch.setattr(adoption, "ADOPTABLE_MAX", 0)
        found = adoption.adoptable()
        assert found.groups == [] and found.more >= 4
    finally:
        store.srem(GROUP_INDEX, *gone)


def test_over_a_stream_that_others_read_it_takes_the_right_in_those_too(
    founded: GroupStore, store: Any
) -> None:
    stream = f"s-{founded.group}"
    store.sadd(StreamKeys(stream).groups, f"other-{founded.group}")
    of_one = Grant(role=Role.ADMIN, pattern=founded.group)
    held = Rights((of_one,))
    with pytest.raises(Denied, match="takes that right in each group that reads it"):
        adoption.adopt(founded.group, By("carl", AuditSource.PAGE, rights=held))
    assert not Group.objects.exists()
    held = Rights((of_one, Grant(role=Role.ADMIN, pattern="other-*")))
    adoption.adopt(founded.group, By("carl", AuditSource.PAGE, rights=held))
    assert Group.objects.exists()


def test_its_history_begins_with_what_redis_still_has(founded: GroupStore) -> None:
    group = Group(name=founded.group)  # as an agent needs it, without a record
    member = FakeAgent(group, "a")
    member.start()
    group = adoption.adopt(founded.group, ANN)
    coordinator.tick()
    assert list(group.member_records.values_list("member_id", flat=True)) == ["a"]


def test_what_cannot_be_adopted_is_refused(founded: GroupStore) -> None:
    with pytest.raises(Refused, match="'nowhere' is not in Redis"):
        adoption.adopt("nowhere", ANN)
    with pytest.raises(Refused, match="made by its agents: adopt it"):
        groups.create_group(founded.group, stream="s", partitions=1, by=ANN)
    adoption.adopt(founded.group, ANN)
    with pytest.raises(Refused, match="has a record here already"):
        adoption.adopt(founded.group, ANN)
    Group.objects.get(name=founded.group).delete()
    with pytest.raises(Refused, match="belongs to another dashboard"):
        adoption.adopt(founded.group, ANN)


def test_a_name_whose_founder_was_killed_before_it_made_the_group_is_free(
    founded: GroupStore,
) -> None:
    founded.door.ask("DEL", founded.keys.meta)
    group = groups.create_group(founded.group, ANN, stream=f"t-{founded.group}", partitions=2)
    assert founded.meta().identity == group.identity


def test_one_that_its_agents_made_anew_after_a_wipe_is_ours_again(founded: GroupStore) -> None:
    group = adoption.adopt(founded.group, ANN)
    founded.door.ask("DEL", founded.keys.meta)
    flags = {"stream": f"s-{founded.group}", "partitions": 4, "strategy": "averagely"}
    assert Founder(founded, flags).make_group()
    coordinator.tick()
    assert founded.meta().identity == group.identity


def test_a_wipe_does_not_take_a_switch_back(founded: GroupStore) -> None:
    queue.ticker_lives("of a worker")
    group = adoption.adopt(founded.group, ANN)
    coordination.switch(group, Coordination.SERVER, ANN)
    founded.door.ask("DEL", founded.keys.meta)
    flags = {"stream": f"s-{founded.group}", "partitions": 4, "strategy": "averagely"}
    assert Founder(founded, flags).make_group()
    coordinator.tick()
    coordinator.tick()
    group.refresh_from_db()
    assert (founded.meta().coordination, group.coordination) == (Coordination.SERVER,) * 2


def test_of_two_dashboards_one_adopts_it(
    founded: GroupStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = groups_in_redis.read

    def slow(name: str, purpose: Purpose, *more: Any) -> Any:
        view = read(name, purpose, *more)
        founded.door.ask("HSET", founded.keys.meta, "identity", "of-another-dashboard")
        return view

    with monkeypatch.context() as patched:
        patched.setattr(adoption.live_groups, "read", slow)
        with pytest.raises(Refused, match="went to another dashboard"):
            adoption.adopt(founded.group, ANN)
    assert founded.meta().identity == "of-another-dashboard"
    assert not Group.objects.filter(name=founded.group).exists()


@pytest.mark.parametrize(
    ("said", "is_listed"),
    [
        (["admin * allow"], True),
        (["admin {} allow"], True),
        (["admin {} stage"], True),
        (["admin another-* allow"], False),
        (["operator * allow"], False),
        (["admin * allow", "viewer {} deny"], False),
        (["admin * allow", "admin {} deny"], False),
    ],
)
def test_it_is_listed_to_those_who_may_adopt_it(
    founded: GroupStore, said: list[str], is_listed: bool
) -> None:
    make_group(f"open-{founded.group}")  # else the page is that of no group
    carl = User.objects.create(username="carl")
    for one in said:
        role, pattern, effect = one.split()
        granted(carl, role, pattern.format(founded.group), effect)
    page = logged_in(carl).get("/groups/").content.decode()
    assert (f"/adopt-group/{founded.group}/" in page) == is_listed
    names = [one.name for one in adoption.adoptable(rights.of_user(carl)).groups]
    assert (founded.group in names) == is_listed
