"""Plans as tests make them, and who makes, approves and runs them."""

from dashboard.actions import drafting, plans, scale_down
from dashboard.actions.preview import asked_of
from dashboard.actions.roles import Grant, Rights
from dashboard.models import AuditSource, Group, Plan
from dashboard.records.audit import By
from dashboard.records.planned import Content, packed
from dashboard.records.queries import plans as queries
from tests.dashboard.scaling import Scene


def by(name: str, *grants: str) -> By:
    rights = Rights(tuple(Grant.read(text) for text in grants))
    return By(name, AuditSource.PAGE, "why", rights=rights)


ANN = by("ann", "stage operator")
BOB = by("bob", "approver")
EVE = by("eve", "operator")
ADA, STAGED_ADMIN = by("ada", "admin"), by("sam", "stage admin")


def averagely(group: Group) -> drafting.Draft:
    return drafting.rebalance(group, "averagely", None)


def uneven(group: Group) -> drafting.Draft:
    """3 and 1: one partition moves."""
    first = {"a": ["0-2"], "b": [3]}
    return drafting.rebalance(group, "config", {"config_map": first})


def proposed(group: Group) -> Plan:
    return plans.propose(group, uneven(group), ANN)


def approved(group: Group) -> Plan:
    plan = proposed(group)
    return plans.approve(plan, BOB, digest=plan.digest)


def packed_of(reason: str) -> bytes:
    numbers = {"proposed_at_ms": 1, "expires_at_ms": 2, "needs_approval": True}
    texts = {"group": "g", "kind": "rebalance", "proposed_by": "ann", "reason": reason}
    return packed(Content(inputs={}, base={}, **numbers, **texts))[0]  # type: ignore[arg-type]


def outcomes(plan: Plan) -> dict[int, str]:
    return {row.move.number: row.outcome.value for row in queries.compared(plan)}


def drain(scene: Scene, *members: str) -> drafting.Draft:
    how = scale_down.how_of(scene.group, None, "force", None)
    return drafting.drain(scene.group, asked_of(None, members), how, force_all=False)
