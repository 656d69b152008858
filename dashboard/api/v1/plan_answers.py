"""What the API answers with about plans, and the rules that approve them. Times and null as in
answers.py.
"""

from datetime import datetime
from typing import Any

from ninja import Schema


class PlanLine(Schema):
    """`digest`: SHA-256 of all that the plan says; who approves it names it."""

    id: int
    kind: str
    state: str
    digest: str
    proposed_by: str
    proposed_at_ms: int
    reason: str
    expires_at_ms: int
    needs_approval: bool
    approved_by: str
    approved_by_rule: str
    decided_by: str
    decided_at_ms: int | None
    decision: str
    run_by: str
    started_at_ms: int | None
    ended_at_ms: int | None
    problem: str


class PlannedMoveTold(Schema):
    """`giver` and `taker`: "" is nobody. `is_later`: by a learner, once it has the state."""

    number: int
    giver: str
    taker: str
    is_later: bool


class PlanTold(PlanLine):
    """`base`: the epochs that it was made for; `outcomes`: of its moves, once it ended;
    `rule_values`: what met the rule that approved it, beside its conditions.
    """

    inputs: dict[str, Any]
    base: dict[str, int]
    strategy: str
    metrics: dict[str, Any]
    moves: list[PlannedMoveTold]
    outcomes: dict[str, int] | None
    rule_values: dict[str, Any] | None


class ApprovalRuleTold(Schema):
    """`begins` and `ends`: of the UTC day, the same is all day; `idle`: why it approves nothing."""

    id: int
    name: str
    author: str
    created_at: datetime
    groups: str
    kinds: list[str]
    moves_max: int
    begins: str
    ends: str
    idle: str
