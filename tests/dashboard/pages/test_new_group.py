"""POST /new-group/: a group made in the browser."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from assignment.types import GroupSettings
from dashboard.live import groups as live_groups
from dashboard.models import AuditEntry, Group
from tests.dashboard.people import granted, logged_in


def test_a_group_is_made_and_its_tokens_come_next(
    visitor: Client, store: object, group_name: str
) -> None:
    values = {"name": group_name, "stream": f"s-{group_name}", "partitions": 6}
    answer = visitor.post("/new-group/", values | {"strategy": "sticky"})
    assert answer["Location"] == f"/groups/{group_name}/tokens/"
    group = Group.objects.get(name=group_name)
    assert (group.partitions, group.created_by) == (6, "ann")
    assert AuditEntry.objects.get(action="create group").group == group_name


def test_a_group_is_made_with_a_strategy_and_its_parameters(
    visitor: Client, store: object, group_name: str
) -> None:
    values = {"name": group_name, "stream": group_name, "partitions": 6, "strategy": "zone_nearby"}
    answer = visitor.post("/new-group/", values)
    assert "zone_nearby: parameter partition_zones is missing" in answer.content.decode()
    visitor.post("/new-group/", values | {"strategy_parameters": '{"partition_zones": {}}'})
    assert Group.objects.get().values.strategy_parameters == {"partition_zones": {}}


STATE = ("stateful", "standby_replicas", "learners_max", "acceptable_lag_records")


def test_a_group_is_made_stateful(visitor: Client, store: object, group_name: str) -> None:
    values = {"name": group_name, "stream": group_name, "partitions": 6, "strategy": "sticky"}
    state = {"stateful": "on", "standby_replicas": "1", "learn_partial_rebalance": "False"}
    visitor.post("/new-group/", values | state | {"scale_down_timeout_ms": "600000"})
    found = Group.objects.get().values
    assert [getattr(found, name) for name in STATE] == [True, 1, 0, 0]
    assert (found.learn_partial_rebalance, found.scale_down_timeout_ms) == (False, 600_000)


def test_a_form_without_state_makes_the_defaults(
    visitor: Client, store: object, group_name: str
) -> None:
    values = {"name": group_name, "stream": group_name, "partitions": 6, "strategy": "sticky"}
    visitor.post("/new-group/", values)
    assert Group.objects.get().values == GroupSettings(stream=group_name, partitions=6)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "two words"}, "is not a name"),
        ({"name": ""}, "This field is required"),
        ({"partitions": 0}, "&#x27;0&#x27;: must be 1 or more"),
        ({"partitions": "1M"}, "&#x27;1M&#x27;: must be 100\u202f000 or less"),
        ({"strategy": "random"}, "not one of the available choices"),
        ({"standby_replicas": "-1"}, "&#x27;-1&#x27; is no whole number like 500"),
        ({"standby_replicas": "11"}, "&#x27;11&#x27;: must be 10 or less"),
        ({"learners_max": "many"}, "&#x27;many&#x27; is no whole number like 500"),
        ({"learn_partial_rebalance": "maybe"}, "not one of the available choices"),
        ({"scale_down_timeout_ms": "1e9"}, "&#x27;1e9&#x27; is no duration like 10 s"),
    ],
)
def test_what_is_wrong_is_named(
    visitor: Client, store: object, group_name: str, changes: dict[str, object], said: str
) -> None:
    values = {"name": group_name, "stream": group_name, "partitions": 6, "strategy": "sticky"}
    answer = visitor.post("/new-group/", values | changes)
    assert answer.status_code == 200
    assert said in answer.content.decode()
    assert not Group.objects.exists()


def test_a_name_that_is_taken(visitor: Client, group: Group) -> None:
    values = {"name": group.name, "stream": "other", "partitions": 6, "strategy": "sticky"}
    answer = visitor.post("/new-group/", values)
    assert "exists already" in answer.content.decode()


@pytest.mark.parametrize(
    ("further", "code"),
    [
        ([], 403),
        ([("viewer", "{}", "deny")], 403),
        ([("admin", "{}", "stage")], 403),
        ([("admin", "{}", "allow")], 302),
    ],
)
def test_over_a_stream_that_others_read_it_takes_the_right_in_those_too(
    group: Group, further: list[tuple[str, str, str]], code: int
) -> None:
    """Else whoever may make groups of one name reads any stream by them."""
    carl = User.objects.create(username="carl")
    granted(carl, "admin", "team-*")
    for role, pattern, effect in further:
        granted(carl, role, pattern.format(group.name), effect)
    name = f"team-{group.name}"
    values = {"name": name, "stream": group.stream, "partitions": 4, "strategy": "sticky"}
    answer = logged_in(carl).post("/new-group/", values)
    assert answer.status_code == code
    if code == 403:
        page = answer.content.decode()
        assert f"over stream &#x27;{group.stream}&#x27; takes that right in each group" in page
        assert AuditEntry.objects.get(action="make a group").group == name
    assert Group.objects.filter(name=name).exists() == (code == 302)
    assert (name in live_groups.readers(group.stream)) == (code == 302)
