"""What a rebalance would do, strategies side by side, also with members more or fewer in thought;
then it is run as it was shown, or proposed to somebody else who may approve it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse

from assignment.coordinator.approved import Base, base_of
from assignment.coordinator.record import Move
from assignment.errors import InvalidInput
from assignment.scripts.group_read import GroupRead
from dashboard.actions import at_once, drafting, plans
from dashboard.actions.groups import Refused
from dashboard.live.connection import StoreUnavailable
from dashboard.models import Group, Plan
from dashboard.pages import strips
from dashboard.pages.forms import RebalanceForm
from dashboard.pages.views import base
from dashboard.records.audit import By
from dashboard.records.planned import PlannedMove
from dashboard.records.queries import plans as plan_queries
from dashboard.records.queries import previews

IDLE = "Nothing would move: each partition stays with its owner."
IN_THOUGHT = "Members are added or removed in thought: there is nothing to run."
CHANGED = "The group changed since this preview was made: look at it again."
BESIDE = ("preview", "propose", "add", "remove")  # sent with the form's own fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Members in thought."""

    add: int = 0
    remove: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.add or self.remove)


def rebalance_preview(request: HttpRequest, name: str) -> HttpResponse:
    """GET and POST with `preview` look, else POST makes a plan of what is shown and runs it, or
    proposes it. What would move nothing is not run.
    """
    seen, previewing = base.see(name), "preview" in request.POST
    form = RebalanceForm(base.sent(request), settings=seen.group.values, previewing=previewing)
    strategy, parameters = form.chosen
    asked, problem = _asked(request)
    found, unknown = _looked_at(name, strategy, parameters, asked)
    chosen = found.chosen(request.POST.get("strategy", "")) if found else None
    idle = IN_THOUGHT if asked else IDLE if chosen and chosen.is_idle else ""
    if form.is_bound and idle and not previewing:
        form.add_error(None, idle)
    make = partial(_make, seen.group, form, is_proposed="propose" in request.POST)
    plan = None if previewing else base.attempt(request, form, make, also=BESIDE)
    if plan:
        said = "The plan is proposed: somebody else may approve it."
        if plan.started_at_ms is not None:
            said = "The plan runs."
        return base.done(request, said, "plan", name, plan.pk)
    context = base.group_context(seen, "rebalance_preview") | {
        "form": form,
        "rule": previews.RULE,
        "found": found,
        "chosen": chosen,
        "idle": idle,
        "why_idle": idle or IDLE,
        "asked": asked,
        "asked_problem": problem,
        "epochs": found and _text(base_of(found.view)),
        "looked": _with_costs(seen.group, found) if found else [],
        "present": seen.snapshot.members if seen.snapshot else (),
    }
    if unknown:
        context["problem"] = unknown
    return base.show(request, "preview", context)


def _asked(request: HttpRequest) -> tuple[Asked, str]:
    """Nobody with a sentence, when it cannot be read."""
    values = base.sent(request) or request.GET
    add, remove = values.get("add", "").strip() or "0", tuple(values.getlist("remove"))
    if not (add.isascii() and add.isdecimal() and len(add) <= base.KEY_DIGITS_MAX):
        return Asked(), f"members to add: {add[: base.TEXT_MAX]!r} is not a whole number"
    return Asked(add=int(add), remove=remove), ""


def _looked_at(
    name: str, strategy: str, parameters: Mapping[str, Any] | None, asked: Asked
) -> tuple[previews.Previews | None, str]:
    """None with the reason when it cannot be told now."""
    try:
        add, remove = asked.add, asked.remove
        return previews.of_group(name, strategy, parameters, add=add, remove=remove), ""
    except (StoreUnavailable, InvalidInput) as error:
        return None, str(error)


def _make(group: Group, form: RebalanceForm, by: By, *, is_proposed: bool) -> Plan:
    strategy, parameters = form.chosen
    if form.cleaned_data["lasting"]:
        draft = drafting.strategy_change(group, strategy, parameters or {})
    else:
        draft = drafting.rebalance(group, strategy, parameters)
    shown = form.cleaned_data["epochs"]
    if shown and shown != _text(Base(*(draft.base[name] for name in Base._fields))):
        raise Refused(CHANGED)
    make = plans.propose if is_proposed else at_once.carry_out
    return make(group, draft, by)


def _text(epochs: Base) -> str:
    return ".".join(map(str, epochs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A strategy's preview with what it costs; `strip` shows what would change hands."""

    preview: previews.Preview
    metrics: Mapping[str, Any]
    strip: Sequence[strips.Rect]


def _with_costs(group: Group, found: previews.Previews) -> list[Looked]:
    per_move = plan_queries.pause_ms_per_move(group)
    return [_looked(group, found.view, preview, per_move) for preview in found.every]


def _looked(
    group: Group, view: GroupRead, preview: previews.Preview, per_move: float | None
) -> Looked:
    change = preview.change
    if change is None:
        return Looked(preview=preview, metrics={}, strip=())
    moves = [*map(_planned, change.moves), *(_planned(m, is_later=True) for m in change.learning)]
    return Looked(
        preview=preview,
        metrics=drafting.metrics_of(group, view, change, per_move),
        strip=strips.moved(group.partitions, moves),
    )


def _planned(move: Move, *, is_later: bool = False) -> PlannedMove:
    return PlannedMove(move.partition.number, move.giver, move.taker, is_later)
