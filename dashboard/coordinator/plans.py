"""What becomes of plans by themselves: their request is taken, refused or fulfilled; they expire,
and one that runs ends when everything that it began has ended.
"""

from collections.abc import Mapping, Sequence

from django.db.models import Q

from assignment import wire
from assignment.coordinator import effects
from assignment.coordinator.approved import Approved, Base
from assignment.types import Coordination, GroupSettings, Partition, TargetRow
from dashboard import models
from dashboard.live.groups import redis_now_ms
from dashboard.models import Plan, PlanKind, PlanState, RequestState, ScaleDownState
from dashboard.records import audit
from dashboard.records.audit import By
from dashboard.records.planned import PROBLEM_MAX, WAITING, Content
from dashboard.records.queries import plans as queries

BEGUN_WITHIN_MS = 60_000  # whoever began it was killed before it could
NOT_WHOLE = "the stored plan is not the one that was looked at"
NOT_BEGUN = "the process that ran it ended before it could begin"


def approved_of(content: Content, group: models.Group) -> Approved:
    """The target of a plan as the rules take it."""

    def row(roles: Mapping[str, Sequence[int]]) -> TargetRow:
        values = {role: [str(Partition(group.stream, n)) for n in ns] for role, ns in roles.items()}
        return wire.read_target({"target_epoch": 0, **values})

    changes = content.inputs.get("settings")
    base = content.base
    return Approved(
        base=Base(base["incarnation"], base["group_epoch"], base["target_epoch"]),
        mode_epoch=base["mode_epoch"],
        strategy=content.strategy,
        rows={member: row(roles) for member, roles in content.rows.items()},
        unable=frozenset(content.unable),
        even_is_best=content.metrics["avoidable"] is not None,
        settings=GroupSettings.of(changes) if changes else None,
    )


def take_request(group: models.Group, effect: effects.TakeRequest) -> bool:
    """Again, by one that found it taken: it was killed before it could store the target."""
    rows = group.requests.filter(
        pk=effect.request.pk,
        state__in=(RequestState.PENDING, RequestState.TAKEN),
        plan__state=PlanState.RUNNING,
    )
    return bool(rows.update(state=RequestState.TAKEN))


def refused(plan: Plan, why: str) -> None:
    """Its target was not stored. Of a strategy change the settings are changed nevertheless. To be
    asked in `audit.atomic`.
    """
    state = PlanState.PARTLY_DONE if plan.kind == PlanKind.STRATEGY else PlanState.STALE
    _end(plan, state, audit.automatically(why), problem=why)


def advance(group: models.Group, effect: effects.AdvancePlans) -> None:
    due = Q(state__in=WAITING, expires_at_ms__lte=queries.now_ms())
    for plan in group.plans.filter(due).defer("packed"):
        with audit.atomic():
            expire(plan)
    settle(group)


def settle(group: models.Group) -> None:
    """Ends the plan that runs, once everything that it began has ended."""
    for plan in group.plans.filter(state=PlanState.RUNNING).defer("packed"):
        with audit.atomic():
            _settle(plan)


def expire(plan: Plan) -> bool:
    """False: it was decided or run meanwhile."""
    by = audit.automatically("nobody ran it in time")
    return _end(plan, PlanState.EXPIRED, by, frm=WAITING, problem=by.reason)


def become_stale(plan: Plan, why: str, by: By) -> bool:
    """False: it was decided or run meanwhile."""
    return _end(plan, PlanState.STALE, by, frm=(PlanState.DRAFT, *WAITING), problem=why)


def fail(plan: Plan, why: str, by: By) -> bool:
    return _end(plan, PlanState.FAILED, by, problem=why)


def _settle(plan: Plan) -> None:
    match plan.kind:
        case PlanKind.SCALE_DOWN:
            _settle_scale_down(plan)
        case PlanKind.COORDINATION:
            _settle_coordination(plan)
        case _:
            request = models.RebalanceRequest.objects.filter(plan=plan).first()
            whole = request.rebalance.whole if request and request.rebalance else None
            if whole is not None and whole.ended_at_ms is not None:
                finish(plan, whole.ended_at_ms)


def _settle_scale_down(plan: Plan) -> None:
    Plan.objects.select_for_update().get(pk=plan.pk)  # whoever begins it holds it
    row = models.ScaleDown.objects.filter(plan=plan).first()
    if row is None:
        if redis_now_ms() - (plan.started_at_ms or 0) > BEGUN_WITHIN_MS:
            fail(plan, NOT_BEGUN, audit.automatically(NOT_BEGUN))
        return
    rebalances = plan.group.rebalances.filter(first=None)
    if row.state == ScaleDownState.RUNNING or rebalances.filter(ended_at_ms=None).exists():
        return
    since = rebalances.filter(at_ms__gte=plan.started_at_ms).values_list("ended_at_ms", flat=True)
    ended_at_ms = max([row.ended_at_ms or row.asked_at_ms, *filter(None, since)])
    cancelled = PlanState.CANCELLED if row.state == ScaleDownState.CANCELLED else None
    finish(plan, ended_at_ms, cancelled)


def _settle_coordination(plan: Plan) -> None:
    """Whoever ran it was killed in between: it is known by what is so now."""
    if redis_now_ms() - (plan.started_at_ms or 0) <= BEGUN_WITHIN_MS:
        return
    if Coordination(plan.group.coordination) is Coordination(plan.content.inputs["mode"]):
        finish(plan, queries.now_ms())
    else:
        fail(plan, NOT_BEGUN, audit.automatically(NOT_BEGUN))


def finish(plan: Plan, ended_at_ms: int, state: PlanState | None = None) -> None:
    """With what became of its moves. To be asked in `audit.atomic`."""
    if not plan.is_whole:
        fail(plan, NOT_WHOLE, audit.automatically(NOT_WHOLE))
        return
    plan.ended_at_ms = ended_at_ms
    counts = queries.counted(queries.compared(plan, is_over=True))
    by = audit.automatically("everything that it began has ended")
    _end(plan, state or queries.ended_as(counts), by, ended_at_ms=ended_at_ms, moved=counts)


def _end(
    plan: Plan,
    state: PlanState,
    by: By,
    frm: tuple[PlanState, ...] = (PlanState.RUNNING,),
    **columns: object,
) -> bool:
    """Conditional: of two that end it one does."""
    columns = {"ended_at_ms": queries.now_ms(), "problem": ""} | columns
    columns["problem"] = str(columns["problem"])[:PROBLEM_MAX]
    rows = Plan.objects.filter(pk=plan.pk, state__in=frm)
    if not rows.update(state=state, **columns):
        return False
    audit.record(
        by,
        f"plan {state.value}",
        plan.group,
        object=str(plan),
        before={"state": plan.state},
        after={"state": state.value, "moved": columns.get("moved")},
    )
    plan.refresh_from_db()
    return True
