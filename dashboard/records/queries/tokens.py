"""Tokens of a group, with the word for what each is worth now."""

from dataclasses import dataclass
from datetime import datetime

from dashboard.models import AgentToken, Group

SHOWN_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    token: AgentToken
    state: str  # valid, expired, revoked


def of_group(group: Group, now: datetime) -> list[TokenRow]:
    """Valid ones first, then the newest."""
    rows = [TokenRow(token=t, state=_state(t, now)) for t in group.tokens.all()[:SHOWN_MAX]]
    return sorted(rows, key=lambda row: row.state != "valid")


def _state(token: AgentToken, now: datetime) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at is not None and token.expires_at <= now else "valid"


def find(group: Group, key: str) -> AgentToken | None:
    return group.tokens.filter(pk=int(key)).first() if key.isdecimal() else None
