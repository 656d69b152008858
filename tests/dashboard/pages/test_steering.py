"""/groups/<name>/settings/ and rebalance/: what changes a group, and its trace in the audit."""

import re

import pytest
from django.test import Client

from assignment.strategies import NAMES
from dashboard.models import AuditEntry, Group, RebalanceRequest
from tests.dashboard.agents import FakeAgent
from tests.dashboard.scenes import settle


def sent(group: Group, **changes: object) -> dict[str, object]:
    """The settings form as a browser sends it."""
    values = {k: v for k, v in group.settings.items() if k not in ("stream", "partitions")}
    values |= changes
    return {k: v for k, v in values.items() if v is not False and v is not None}


def test_settings_are_saved_and_audited(visitor: Client, group: Group) -> None:
    address = f"/groups/{group.name}/settings/"
    answer = visitor.post(address, sent(group, strategy="averagely", reason="even blocks"))
    assert (answer.status_code, answer["Location"]) == (302, address)
    group.refresh_from_db()
    assert group.values.strategy == "averagely"
    entry = AuditEntry.objects.first()
    assert entry is not None
    assert (entry.actor, entry.reason, entry.source) == ("ann", "even blocks", "page")
    assert (entry.before, entry.after) == ({"strategy": "sticky"}, {"strategy": "averagely"})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"renew_ms": 9_000}, "lease_ms 10000 is below three times renew_ms 9000"),
        ({"session_timeout_ms": 20_000}, "session_timeout_ms 20000 is above lease_ms 10000"),
        ({"lease_ms": 1}, "greater than or equal to 50"),
        ({"strategy": "random"}, "random is not one of the available choices"),
        ({"lease_ms": ""}, "This field is required"),
    ],
)
def test_wrong_settings_are_named_and_nothing_changes(
    visitor: Client, group: Group, changes: dict[str, object], said: str
) -> None:
    before = group.settings
    answer = visitor.post(f"/groups/{group.name}/settings/", sent(group, **changes))
    assert answer.status_code == 200
    assert said in answer.content.decode()
    group.refresh_from_db()
    assert group.settings == before


def moves(page: str) -> dict[str, int]:
    found = re.findall(r'<tr data-strategy="(\w+)">.*?data-moves="(\d+)"', page)
    return {name: int(count) for name, count in found}


def test_the_preview_is_the_cores_own_answer(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    page = visitor.get(f"/groups/{group.name}/rebalance/").content.decode()
    found = moves(page)
    assert found["sticky"] == 0
    assert found["averagely"] > 0
    assert page.index("sticky") < page.index("recommended")
    assert set(found) == set(NAMES) - {"config", "zone", "zone_nearby"}
    assert next(iter(found)) == "sticky"
    assert "cannot be used now: config: parameter config_map is missing" in page


def test_what_was_previewed_is_what_runs(
    visitor: Client, group: Group, agents: list[FakeAgent]
) -> None:
    address = f"/groups/{group.name}/rebalance/"
    predicted = moves(visitor.get(address).content.decode())["averagely"]
    answer = visitor.post(address, {"strategy": "averagely", "reason": "blocks for the night"})
    assert answer["Location"] == f"/groups/{group.name}/history/"
    settle(group, agents)
    last = group.rebalances.first()
    assert last is not None
    assert (last.moved, last.planned, last.actor) == (predicted, True, "ann")
    assert (last.strategy, last.reason) == ("averagely", "blocks for the night")
    page = visitor.get(f"/groups/{group.name}/history/").content.decode()
    assert "blocks for the night" in page


@pytest.mark.parametrize("values", [{"strategy": "sticky"}, {"strategy": "odd", "reason": "x"}, {}])
def test_a_rebalance_needs_a_strategy_and_a_reason(
    visitor: Client, group: Group, agents: list[FakeAgent], values: dict[str, str]
) -> None:
    answer = visitor.post(f"/groups/{group.name}/rebalance/", values)
    assert answer.status_code == 200
    assert b'role="alert"' in answer.content
    assert not RebalanceRequest.objects.exists()


def test_looking_changes_nothing(visitor: Client, group: Group, agents: list[FakeAgent]) -> None:
    epochs = list(group.rebalances.values_list("target_epoch", flat=True))
    visitor.get(f"/groups/{group.name}/rebalance/")
    settle(group, agents)
    assert list(group.rebalances.values_list("target_epoch", flat=True)) == epochs
