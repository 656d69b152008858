"""Records that nobody's script wrote: who may write to a group's keys harms that group at most."""

import json
from contextlib import suppress
from typing import Any

import pytest
from django.forms.models import model_to_dict

from assignment.scripts.dashboard_side import request_rebalance
from assignment.types import Reason
from assignment.wire import GroupKeys
from dashboard import coordinator
from dashboard.actions import at_once, groups
from dashboard.live import groups as live_groups
from dashboard.live.connection import StoreUnavailable
from dashboard.live.scripts import run
from dashboard.models import AuditEntry, AuditSource, Group, Rebalance, Tenure
from dashboard.records.audit import By
from tests.dashboard.agents import FakeAgent, make_group, tick

pytestmark = pytest.mark.django_db


def killed(*_: Any) -> None:
    raise StoreUnavailable("killed in between")


def test_a_record_that_no_target_made_is_dropped_and_changes_nothing(
    group: Group, agent: FakeAgent, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above all no row of another group, by its number."""

    agent.start()
    with monkeypatch.context() as patch, suppress(StoreUnavailable):
        patch.setattr(live_groups, "drop_from_outbox", killed)
        coordinator.rebalance(group.name)
    [entry], row = live_groups.outbox(group.name), Rebalance.objects.get()
    sound, before = json.loads(entry.record.partition("\n")[0]), model_to_dict(row)
    other = make_group(f"{group.name}-b")
    told: list[tuple[Any, Any, Any]] = [
        (1, 1, sound | {"id": row.pk}),
        (1, 1, sound | {"pk": row.pk, "group_id": group.pk}),
        (1, 1, sound | {"outcome": "done"}),
        (1, 1, sound | {"score": 10**400}),
        (1, 1, sound | {"moved": 2**40}),
        (1, 1, sound | {"cause": "mood"}),
        (1, 1, sound | {"causes": [{"reason": "join", "member": ["a"]}]}),
        (1, 1, sound | {"target": "bWFw"}),
        (1, 1, sound | {"partitions": 3}),
        (1, 1, "x" * 10_000),
        (1, 2**60, sound),
        (2**40, 1, sound),
        (2, 1, sound),
        (1, 1_000, sound),
        ("many", 1, sound),
    ]
    keys = GroupKeys(other.name)
    store.hset(keys.meta, "group_epoch", 1)
    for incarnation, epoch, record in told:
        values = {"incarnation": incarnation, "epoch": epoch, "record": json.dumps(record)}
        store.xadd(keys.outbox, values)
    store.xadd(keys.outbox, {"x": b"\xff"})
    assert tick() == 2
    assert not store.xlen(keys.outbox)
    row.refresh_from_db()
    assert {**model_to_dict(row), "outcome": before["outcome"]} == before
    other.refresh_from_db()
    assert (other.incarnation, other.rebalances.count()) == (1, 0)
    audited = AuditEntry.objects.filter(action="quarantined", group=other)
    assert audited.get().reason.startswith(f"{len(told) + 1} records of targets cannot be kept")
    assert other.gaps.get().records_lost == len(told) + 1
    store.hset(keys.meta, "incarnation", 2)
    store.xadd(keys.outbox, {"incarnation": 2, "epoch": 1, "record": entry.record})
    tick()
    assert other.rebalances.get().incarnation == 2


def test_nobody_is_behind_a_record_that_the_dashboard_did_not_compute(
    group: Group, agent: FakeAgent, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither who changed settings nor whose wish it says it fulfils, though the text is sound."""
    agent.start()
    with monkeypatch.context() as patch, suppress(StoreUnavailable):
        patch.setattr(live_groups, "drop_from_outbox", killed)
        coordinator.rebalance(group.name)
    [entry] = live_groups.outbox(group.name)
    tick()
    carol = By("carol", AuditSource.PAGE, "carol's reason")
    groups.change_settings(group, {"learners_max": 1}, carol)
    request = at_once.rebalance(group, carol, strategy="sticky").request
    text, _, seal = entry.record.partition("\n")
    forged = json.dumps(json.loads(text) | {"cause": "learners", "requests": [request.pk]})
    store.hset(GroupKeys(group.name).meta, "group_epoch", 1_000)
    for epoch, record in enumerate((forged, f"{forged}\n{seal}", entry.record), 900):
        values = {"incarnation": 1, "epoch": epoch, "record": record}
        store.xadd(GroupKeys(group.name).outbox, values)
    tick()
    rows = group.rebalances.filter(target_epoch__gte=900)
    assert list(rows.values_list("planned", "actor", "reason")) == [(False, "evenkeel", "")] * 3
    assert not AuditEntry.objects.filter(action="rebalance", actor="carol").exists()
    request.refresh_from_db()
    assert request.state == "pending"


def test_a_change_of_settings_is_behind_one_rebalance(group: Group, agent: FakeAgent) -> None:
    """Whoever may call the group's scripts may say so again."""
    agent.start()
    coordinator.rebalance(group.name)
    tick()
    carol = By("carol", AuditSource.PAGE, "carol's reason")
    groups.change_settings(group, {"stateful": True, "standby_replicas": 1}, carol)
    for _ in range(2):
        coordinator.rebalance(group.name)
        tick()
        run(request_rebalance(Reason.STATEFUL), group.name)
    rows = group.rebalances.order_by("target_epoch").values_list("cause", "actor")
    assert list(rows)[1:] == [("stateful", "carol"), ("stateful", "evenkeel")]


def test_an_event_that_no_lock_made_is_dropped_and_the_history_goes_on(
    group: Group, agent: FakeAgent, store: Any
) -> None:
    keys = GroupKeys(group.name)
    bad: list[dict[str, Any]] = [
        {"x": b"\xff"},
        {"seq": 1, "type": "mood", "partition": "s:1", "member": "a", "fence": 1, "at_ms": 1},
        {
            "seq": 1,
            "type": "acquired",
            "partition": "s:1",
            "member": "a",
            "fence": 1,
            "at_ms": "-1",
        },
        {
            "seq": 10**30,
            "type": "acquired",
            "partition": "s:1",
            "member": "a",
            "fence": 1,
            "at_ms": 1,
        },
    ]
    for fields in bad:
        store.xadd(keys.events, fields)
        store.xadd(keys.control, fields)
    agent.start()
    coordinator.rebalance(group.name)
    agent.follow()
    elsewhere = {"seq": 4, "type": "acquired", "member": "a", "fence": 1, "at_ms": 1}
    store.xadd(keys.events, elsewhere | {"partition": f"{group.stream}:9999999999999999"})
    assert tick() == 1
    assert Tenure.objects.count() == 4
    assert store.xlen(keys.events) == 5
