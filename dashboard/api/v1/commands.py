"""What people's programs do to groups, by the same actions as pages and commands; each is audited.

`expected_epoch` is compared when the command begins: what changes the group after that is met by
the action itself, which decides by what is there then.
"""

from typing import Any

from django.http import Http404, HttpRequest
from ninja import Status

from assignment.scripts.group_read import Purpose
from dashboard.actions import adoption, at_once, repair
from dashboard.actions import groups as actions
from dashboard.api.v1 import answers, doors, forms, outcomes
from dashboard.api.v1.reading import group_named, router
from dashboard.api.v1.reads import told
from dashboard.live import groups as live_groups
from dashboard.models import Group, Plan


def current(name: str, body: forms.OfGroup) -> Group:
    """The group, as long as its epoch is the one that was decided by. Raises Http404, Refused and
    StoreUnavailable.
    """
    group, expected = group_named(name), body.expected_epoch
    if expected is not None:
        found = live_groups.read(name, Purpose.LOOK).meta.group_epoch
        if found != expected:
            raise actions.Refused(f"group {name!r} is at group_epoch {found}, not {expected}")
    return group


def made(plan: Plan) -> Status[Any]:
    return Status(202, {"plan": plan.pk, "kind": plan.kind, "state": plan.state})


@router.post(
    "/groups",
    response={201: answers.GroupTold},
    url_name="groups",
    operation_id="create_group",
)
def create_group(request: HttpRequest, body: forms.NewGroup) -> Any:
    """A new group over a stream, which is made when it is not there yet."""
    made = actions.create_group(
        body.name,
        doors.by(request, body.reason),
        stream=body.stream,
        partitions=body.partitions,
        **forms.said(body.settings),
    )
    return Status(201, told(request, made))


@router.post(
    "/groups/{name}/adopt",
    response={201: answers.GroupTold},
    url_name="adopt",
    operation_id="adopt_group",
)
def adopt(request: HttpRequest, name: forms.GroupName, body: forms.Command) -> Any:
    """A record of a group that its agents made with Redis alone; nothing changes for them."""
    group = adoption.adopt(name, doors.by(request, body.reason))
    return Status(201, told(request, group))


@router.get(
    "/groups/{name}/settings",
    response=dict[str, Any],
    url_name="settings",
    operation_id="read_settings",
)
def settings(request: HttpRequest, name: forms.GroupName) -> Any:
    """The group's settings, each with its value."""
    return told(request, group_named(name))["settings"]


@router.patch(
    "/groups/{name}/settings",
    response={200: answers.GroupTold, 202: outcomes.PlanMade},
    url_name="settings",
    operation_id="change_settings",
)
def change_settings(request: HttpRequest, name: forms.GroupName, body: forms.SettingsChange) -> Any:
    """Changes those that are named, together or not at all. A change of strategy is a plan; 202: it
    waits for another's approval.
    """
    by, changes = doors.by(request, body.reason), forms.said(body.settings)
    found = at_once.change_settings(current(name, body), changes, by)
    return made(found) if isinstance(found, Plan) else told(request, found)


@router.post(
    "/groups/{name}/coordination",
    response={200: outcomes.Switched, 202: outcomes.PlanMade},
    url_name="coordination",
    operation_id="switch_coordination",
)
def switch(request: HttpRequest, name: forms.GroupName, body: forms.Switch) -> Any:
    """Who computes its targets: the dashboard (server) or its agents (client). 202: the plan waits
    for another's approval.
    """
    group, by = current(name, body), doors.by(request, body.reason)
    found = at_once.switch(group, body.coordination, by, expected=body.expected_mode_epoch)
    if isinstance(found, Plan):
        return made(found)
    before, after = found
    return {
        "coordination": after.coordination,
        "mode_epoch": after.mode_epoch,
        "incarnation": after.incarnation,
        "changed": before.mode != after.mode,
    }


@router.post(
    "/groups/{name}/rebalances",
    response={202: outcomes.PlanMade},
    url_name="rebalances",
    operation_id="request_rebalance",
)
def request_rebalance(
    request: HttpRequest, name: forms.GroupName, body: forms.RebalanceAsked
) -> Any:
    """A new target, by the group's own strategy or, this once, by another: a plan that runs, or
    that waits for another's approval.
    """
    group = current(name, body)
    own = group.values
    strategy = body.strategy or own.strategy
    parameters = body.parameters or (own.strategy_parameters if strategy == own.strategy else {})
    by = doors.by(request, body.reason)
    return made(at_once.rebalance(group, by, strategy=strategy, parameters=parameters))


@router.post(
    "/groups/{name}/partitions/{int:number}/skip",
    response={202: outcomes.Skipped},
    url_name="skip",
    operation_id="skip_event",
)
def skip(
    request: HttpRequest, name: forms.GroupName, number: forms.Key, body: forms.SkipAsked
) -> Any:
    """Lets a partition that is halted at an event go on behind it."""
    group = current(name, body)
    if number >= group.partitions:
        raise Http404(f"Group {name} has partitions 0 to {group.partitions - 1}.")
    done = actions.skip_event(group, number, body.entry, doors.by(request, body.reason))
    return Status(202, {"partition": f"{group.stream}:{number}", "entry": str(done.entry)})


@router.get(
    "/groups/{name}/repair",
    response=outcomes.Repaired,
    url_name="repair",
    operation_id="look_for_damage",
)
def look(request: HttpRequest, name: forms.GroupName) -> Any:
    """What of the group cannot be read or counted on in Redis; changes nothing."""
    return {"applied": False, "findings": repair.look(group_named(name))}


@router.post(
    "/groups/{name}/repair",
    response=outcomes.Repaired,
    url_name="repair",
    operation_id="repair_group",
)
def mend(request: HttpRequest, name: forms.GroupName, body: forms.Mending) -> Any:
    """Mends what is found."""
    group, by = group_named(name), doors.by(request, body.reason)
    if body.incarnation is not None:
        repair.accept_incarnation(group, body.incarnation, by)
    return {"applied": True, "findings": repair.mend(group, by)}
