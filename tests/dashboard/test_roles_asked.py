"""Whatever is done to a group asks the matrix first, and says in whose name it asks."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from assignment.scripts.dead_letters import LetterId
from assignment.types import Offset
from dashboard.actions import groups, offsets, repair
from dashboard.actions.roles import (
    LOOKING,
    MATRIX,
    OF_NO_GROUP,
    Action,
    Denied,
    NeedsApproval,
    Rights,
)
from dashboard.models import AgentToken, AuditEntry, AuditSource, Group, Occurrence, Plan, ScaleDown
from dashboard.pages.views import base
from dashboard.records import audit, rights
from dashboard.records.audit import By
from tests.dashboard.people import granted, of
from tests.dashboard.scaling import Scene

EARLIEST = offsets.Wanted(offsets.To.EARLIEST)


def asked_of_a_group(group: Group, by: By) -> dict[str, tuple[Action, Any]]:
    """Each thing that is done to a group: the action that it is, and how it is asked for."""
    token = AgentToken.objects.create(group=group, name="t", digest="d")
    row = ScaleDown(group=group, pk=1, members={}, live=1)
    noted = Occurrence(group=group, pk=1, rule="conflict")
    plan = Plan(group=group, proposed_by="ann", kind="rebalance")
    from dashboard.actions import (
        adoption,
        attention,
        coordination,
        dead_letters,
        drafting,
        pausing,
        plans,
        scale_down,
    )
    from dashboard.actions.coordination import Coordination

    client = Coordination.CLIENT
    return {
        "create_group": (
            Action.MAKE_GROUP,
            lambda: groups.create_group("new", by, stream="s", partitions=1),
        ),
        "adopt": (Action.MAKE_GROUP, lambda: adoption.adopt("new", by)),
        "settings": (Action.CHANGE_SETTINGS, lambda: groups.change_settings(group, {}, by)),
        "switch": (Action.CHANGE_SETTINGS, lambda: coordination.switch(group, client, by)),
        "rebalance": (
            Action.REBALANCE,
            lambda: plans.run_now(group, drafting.rebalance(group, "sticky", None), by),
        ),
        "approve": (Action.APPROVE, lambda: plans.approve(plan, by, digest="")),
        "skip": (Action.SKIP_EVENT, lambda: groups.skip_event(group, 0, "1-1", by)),
        "offset": (Action.SET_OFFSETS, lambda: offsets.set_offset(group, 0, EARLIEST, "", by)),
        "discard": (
            Action.DISCARD_LETTERS,
            lambda: dead_letters.discard(group, [LetterId(0, Offset(1, 1))], by),
        ),
        "discard_found": (
            Action.DISCARD_LETTERS,
            lambda: dead_letters.discard_found(group, dead_letters.Which(), by),
        ),
        "replay": (
            Action.REPLAY_LETTERS,
            lambda: dead_letters.replay(group, [LetterId(0, Offset(1, 1))], by),
        ),
        "replay_found": (
            Action.REPLAY_LETTERS,
            lambda: dead_letters.replay_found(group, dead_letters.Which(), by),
        ),
        "pause": (Action.PAUSE, lambda: pausing.pause(group, by)),
        "resume": (Action.PAUSE, lambda: pausing.resume(group, by, [0])),
        "acknowledge": (Action.ACKNOWLEDGE, lambda: attention.acknowledge(noted, by, 1)),
        "limits": (Action.CHANGE_SETTINGS, lambda: attention.change_limits(group, {}, by)),
        "token": (Action.MANAGE_TOKENS, lambda: groups.create_token(group, by)),
        "revoke": (Action.MANAGE_TOKENS, lambda: groups.revoke_token(token, by)),
        "rotate": (Action.MANAGE_TOKENS, lambda: groups.rotate_token(token, by)),
        "repair": (Action.REPAIR, lambda: repair.mend(group, by)),
        "start": (Action.SCALE_DOWN, lambda: scale_down.start(group, by, members=["a"])),
        "extend": (Action.SCALE_DOWN, lambda: scale_down.extend(row, 1, by)),
        "force": (Action.SCALE_DOWN, lambda: scale_down.force(row, "a", by)),
        "abort": (Action.SCALE_DOWN, lambda: scale_down.abort(row, by)),
    }


@pytest.mark.parametrize("effect", ["none", "stage", "deny"])
def test_who_may_not_is_refused_before_anything_is_done(group: Group, effect: str) -> None:
    held = {
        "none": Rights(),
        "stage": of("stage admin *"),
        "deny": of("allow admin *", "deny admin *"),
    }[effect]
    by = By("bob", AuditSource.COMMAND, "why", rights=held)
    before = set(AuditEntry.objects.values_list("pk", flat=True))
    result = "denied: to {} in group {!r} needs approval" if effect == "stage" else "denied: to {}"
    for name, (action, ask) in asked_of_a_group(group, by).items():
        audit.floods.forget()
        with pytest.raises(NeedsApproval if effect == "stage" else Denied, match=action.value):
            ask()
        entry = AuditEntry.objects.exclude(pk__in=before).get()
        assert (entry.actor, entry.action, entry.reason) == ("bob", action.value, "why"), name
        target = "new" if action is Action.MAKE_GROUP else group.name
        assert entry.object == entry.group == target, name
        assert entry.result.startswith(result.format(action.value, target)), name
        before.add(entry.pk)
    assert set(Group.objects.all()) == {group} and AgentToken.objects.count() == 1


def test_every_action_of_a_group_is_asked_for(group: Group) -> None:
    asked = {action for action, _ in asked_of_a_group(group, By("x", "page")).values()}
    assert asked == set(MATRIX) - OF_NO_GROUP - LOOKING


def test_an_operators_scale_down_does_not_change_settings(scene: Scene) -> None:
    bob = User.objects.create(username="bob")
    granted(bob, "operator")
    by = By("bob", AuditSource.PAGE, rights=rights.of_user(bob))
    from dashboard.actions import scale_down

    with pytest.raises(Denied, match="to change settings"):
        scale_down.start(scene.group, by, members=["S1"], eager=False)
    assert scale_down.start(scene.group, by, members=["S1"], eager=True).actor == "bob"


def test_pages_say_who_asks_in_one_place() -> None:
    """`By` without rights is the system itself: no page may make one."""
    pages = Path(base.__file__).parents[1]
    files = [p for room in (pages, pages.parent / "push") for p in room.rglob("*.py")]
    assert [p.name for p in files if re.search(r"\bBy\(", p.read_text())] == ["base.py"]
