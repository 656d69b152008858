"""What commands of the API answer with, and lists of tokens. Times and null as in answers.py."""

from datetime import datetime

from ninja import Schema

from assignment.pauses import PauseState
from assignment.types import Coordination


class PlanMade(Schema):
    """What was asked for, as the plan that it is: it runs, or is proposed."""

    plan: int
    kind: str
    state: str


class Switched(Schema):
    coordination: Coordination
    mode_epoch: int
    incarnation: int
    changed: bool


class PauseTold(Schema):
    actor: str
    reason: str
    at_ms: int


class PartitionPause(PauseTold):
    number: int


class Paused(Schema):
    """`progress`: paused, pausing (2 of 6) until all owners confirmed, or running. `partitions`:
    paused individually. `states`: by number, of all that are paused.
    """

    version: int
    progress: str
    group: PauseTold | None
    partitions: list[PartitionPause]
    states: dict[str, PauseState]
    changed: bool


class Skipped(Schema):
    partition: str
    entry: str


class TokenLine(Schema):
    id: int
    name: str
    state: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None


class AgentTokenLine(TokenLine):
    last_used_at: datetime | None


class ProducerTokenLine(TokenLine):
    stream: str


class MadeToken(AgentTokenLine):
    """`secret` is shown once: an answer that is repeated for its idempotency key has null."""

    secret: str | None


class MadeProducerToken(ProducerTokenLine):
    """`secret` is shown once: an answer that is repeated for its idempotency key has null."""

    secret: str | None


class FindingTold(Schema):
    mend: str
    key: str
    name: str
    why: str


class Repaired(Schema):
    applied: bool
    findings: list[FindingTold]
