"""POST /new-group/: a group made in the browser."""

import pytest
from django.test import Client

from dashboard.models import AuditEntry, Group


def test_a_group_is_made_and_its_tokens_come_next(
    visitor: Client, store: object, group_name: str
) -> None:
    values = {"name": group_name, "stream": f"s-{group_name}", "partitions": 6}
    answer = visitor.post("/new-group/", values | {"strategy": "sticky"})
    assert answer["Location"] == f"/groups/{group_name}/tokens/"
    group = Group.objects.get(name=group_name)
    assert (group.partitions, group.created_by) == (6, "ann")
    assert AuditEntry.objects.get().action == "create group"


def test_a_group_is_made_with_a_strategy_and_its_parameters(
    visitor: Client, store: object, group_name: str
) -> None:
    values = {"name": group_name, "stream": group_name, "partitions": 6, "strategy": "zone_nearby"}
    answer = visitor.post("/new-group/", values)
    assert "zone_nearby: parameter partition_zones is missing" in answer.content.decode()
    visitor.post("/new-group/", values | {"strategy_parameters": '{"partition_zones": {}}'})
    assert Group.objects.get().values.strategy_parameters == {"partition_zones": {}}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "two words"}, "is not a name"),
        ({"name": ""}, "This field is required"),
        ({"partitions": 0}, "greater than or equal to 1"),
        ({"partitions": 1_000_000}, "less than or equal to 100000"),
        ({"strategy": "random"}, "not one of the available choices"),
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
