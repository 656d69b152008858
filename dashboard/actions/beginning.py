"""What running a plan begins, by its kind: in the database with the plan's own step, then told to
Redis. Whether it may be run is asked before (plans.py).
"""

import logging
from collections.abc import Callable
from typing import Any

from assignment.errors import EvenkeelError
from assignment.types import Coordination
from dashboard import coordinator
from dashboard.actions import coordination, groups, scale_down
from dashboard.actions.groups import Refused
from dashboard.coordinator import plans as ends
from dashboard.live.connection import StoreUnavailable
from dashboard.models import Group, Plan, PlanKind, RebalanceRequest
from dashboard.records import audit
from dashboard.records.audit import By
from dashboard.records.queries.plans import now_ms

log = logging.getLogger(__name__)

Told = Callable[[By], None]  # what is done once the database has it, with the approval's right


def _begin_rebalance(plan: Plan, by: By) -> Told:
    _request(plan, by, plan.content.inputs["strategy"], plan.content.inputs["parameters"])
    return lambda entitled: _ask(plan.group)


def _begin_strategy(plan: Plan, by: By) -> Told:
    """Its request is there before Redis hears of the settings: no other target comes first."""
    inputs = plan.content.inputs
    changes = {name: inputs[name] for name in inputs.keys() - {"settings"}}
    plan.group = groups.store_settings(plan.group, changes, by)
    if plan.group.settings != inputs["settings"]:
        raise Refused("other settings were changed since the plan was made: make another")
    _request(plan, by, inputs["strategy"], inputs["strategy_parameters"])
    return lambda entitled: _tell_and_ask(plan.group)


def _begin_scale_down(plan: Plan, by: By) -> Told:
    def tell(entitled: By) -> None:
        inputs = {name: plan.content.inputs[name] for name in SCALE_DOWN_INPUTS}
        _or_failed(plan, by, lambda: scale_down.start(plan.group, entitled, plan=plan, **inputs))

    return tell


SCALE_DOWN_INPUTS = ("members", "percent", "timeout_ms", "at_deadline", "eager", "force_all")


def _begin_switch(plan: Plan, by: By) -> Told:
    def tell(entitled: By) -> None:
        mode, epoch = Coordination(plan.content.inputs["mode"]), plan.content.base["mode_epoch"]
        switch = coordination.switch
        _or_failed(plan, by, lambda: switch(plan.group, mode, entitled, expected=epoch))
        with audit.atomic():
            ends.finish(plan, now_ms())

    return tell


BEGIN: dict[PlanKind, Callable[[Plan, By], Told]] = {
    PlanKind.REBALANCE: _begin_rebalance,
    PlanKind.STRATEGY: _begin_strategy,
    PlanKind.SCALE_DOWN: _begin_scale_down,
    PlanKind.COORDINATION: _begin_switch,
}


def _or_failed(plan: Plan, by: By, deed: Callable[[], Any]) -> None:
    try:
        deed()
    except EvenkeelError as error:
        # What became of a switch that nobody answered is seen by the tick.
        if not (isinstance(error, StoreUnavailable) and plan.kind == PlanKind.COORDINATION):
            with audit.atomic():
                ends.fail(plan, str(error), by)
        raise


def _request(plan: Plan, by: By, strategy: str, parameters: Any) -> None:
    RebalanceRequest.objects.create(
        group=plan.group,
        actor=by.actor,
        reason=plan.reason,
        strategy=strategy,
        parameters=parameters,
        plan=plan,
    )


def _ask(group: Group) -> None:
    try:
        coordinator.want_rebalance(group.name)
    except StoreUnavailable as error:
        log.warning("plan of group=%s waits for Redis: %s", group.name, error)


def _tell_and_ask(group: Group) -> None:
    groups.tell(group)
    _ask(group)
