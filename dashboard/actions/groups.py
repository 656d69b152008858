"""What people do to groups and tokens: one function each, used by pages and commands alike.

Each asks the matrix whether `by` may (roles.py) and raises Denied or NeedsApproval.
Every action is audited in the transaction that does it. Redis is told after the database has it;
when Redis is away the next tick tells it.
"""

import logging
import shlex
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError
from django.utils import timezone

from assignment import strategies
from assignment.errors import EvenkeelError, InvalidInput
from assignment.scripts import crashes
from assignment.scripts.crashes import Skip
from assignment.settings import SETTINGS
from assignment.types import GroupSettings, Offset, Partition, valid_name
from dashboard import coordinator
from dashboard.actions.access import require, require_in_each
from dashboard.actions.roles import Action
from dashboard.agents import issued, rights, tokens
from dashboard.live import groups as live_groups
from dashboard.live.connection import StoreUnavailable
from dashboard.live.scripts import run
from dashboard.models import AgentToken, Group
from dashboard.records import audit
from dashboard.records.audit import By

TOKEN_NAME = "agents"

log = logging.getLogger(__name__)


class Refused(EvenkeelError):
    """Right in form, but not as things stand: what it names is taken, gone or not there."""


@dataclass(frozen=True, slots=True)
class MadeToken:
    """`text` is shown once and known to nobody afterwards."""

    token: AgentToken
    text: str


def checked(values: dict[str, Any]) -> GroupSettings:
    """Raises InvalidInput that names the setting."""
    settings = GroupSettings.of(values)
    strategies.get(settings.strategy, settings.strategy_parameters)
    return settings


@audit.attempted("create group")
def create_group(
    name: str, by: By, *, stream: str, partitions: int, **settings_given: Any
) -> Group:
    """A group over a stream, which is made when it is not there yet; else its count has to fit.

    Raises InvalidInput, Refused (the name is taken, the stream has another count),
    StoreUnavailable.
    """
    valid_name("group", name)
    require(by, Action.MAKE_GROUP, name)
    settings = checked({"stream": stream, "partitions": partitions, **settings_given})
    if Group.objects.filter(name=name).exists():
        raise Refused(f"group {name!r} exists already")
    if name in live_groups.founded() and live_groups.look_at([name]):
        raise Refused(f"group {name!r} is in Redis, made by its agents: adopt it")
    require_stream(by, stream, name)
    found = live_groups.make_stream(stream, partitions, name)
    if found != partitions:
        raise Refused(f"stream {stream!r} has {found} partitions, not {partitions}")
    try:
        with audit.atomic():
            group = Group.objects.create(
                name=name,
                stream=stream,
                partitions=partitions,
                settings=settings.values(),
                created_by=by.actor,
            )
            audit.record(by, "create group", group, after=group.settings)
    except IntegrityError as error:
        raise Refused(f"group {name!r} exists already") from error
    tell(group)
    return group


def require_stream(by: By, stream: str, name: str) -> None:
    """A group reads all of its stream, and nothing is trimmed before it did: over one that others
    read it takes the right in each of them. Raises Denied, StoreUnavailable.
    """
    known = Group.objects.filter(stream=stream).values_list("name", flat=True)
    others = {*known, *live_groups.readers(stream)} - {name}
    why = f"to {Action.MAKE_GROUP} over stream {stream!r} takes that right in each group that reads"
    require_in_each(by, Action.MAKE_GROUP, others, name, f"{why} it")


@audit.attempted("change settings")
def change_settings(group: Group, changes: dict[str, Any], by: By) -> Group:
    """Validated as a whole, audited with what changed. Raises InvalidInput."""
    require(by, Action.CHANGE_SETTINGS, group)
    if own := [name for name in changes if name in SETTINGS and SETTINGS[name].by_action]:
        raise InvalidInput(f"{', '.join(own)} of a group is not changed with its settings")
    before, group = group.settings, store_settings(group, changes, by)
    if group.settings != before:
        tell(group)
    return group


def store_settings(group: Group, changes: dict[str, Any], by: By) -> Group:
    """In the database alone, by who may: Redis is to be told afterwards. Raises InvalidInput."""
    with audit.atomic():
        group = Group.locked(group.pk)
        for name, value in changes.items():
            if name in SETTINGS and SETTINGS[name].once and value != group.settings[name]:
                raise InvalidInput(f"{name} of a group cannot be changed")
        settings = checked({**group.settings, **changes}).values()
        before = group.values.values()  # what it does not name yet is the default
        differing = sorted(name for name in settings if settings[name] != before[name])
        if not differing:
            return group
        audit.record(
            by,
            "change settings",
            group,
            before={name: before[name] for name in differing},
            after={name: settings[name] for name in differing},
        )
        group.settings = settings
        group.save(update_fields=["settings"])
    return group


@audit.attempted("skip event")
def skip_event(group: Group, number: int, entry: str, by: By) -> Skip:
    """Lets a halted partition go on behind that entry; its owner's consumer carries it out.

    Raises Refused (it is past it already) and StoreUnavailable: then nothing was asked for.
    """
    require(by, Action.SKIP_EVENT, group)
    partition = Partition(group.stream, number)
    skip = Skip(entry=Offset.parse(entry), actor=by.actor, reason=by.reason)
    with audit.atomic():  # undone when Redis refuses: nothing is skipped unaudited
        audit.record(by, "skip event", group, object=str(partition), after={"entry": entry})
        if not run(crashes.skip(partition, skip), group.name):
            raise Refused(f"{partition} is past entry {entry} already")
    return skip


@audit.attempted("create token")
def create_token(
    group: Group, by: By, *, name: str = TOKEN_NAME, expires_at: datetime | None = None
) -> MadeToken:
    """Raises InvalidInput."""
    require(by, Action.MANAGE_TOKENS, group)
    made = _created(group, by, issued.checked_name(name, expires_at), expires_at)
    rights.admit(made.token)
    return made


def _created(group: Group, by: By, name: str, expires_at: datetime | None) -> MadeToken:
    text = tokens.make()
    with audit.atomic():
        token = AgentToken.objects.create(
            group=group,
            name=name,
            digest=tokens.digest_of(text),
            created_by=by.actor,
            expires_at=expires_at,
        )
        _audit_token("create token", token, by)
    return MadeToken(token, text)


@audit.attempted("revoke token")
def revoke_token(token: AgentToken, by: By) -> AgentToken:
    """Refused within a second, also where it is remembered; its connections to Redis end. Revoking
    again changes nothing.
    """
    require(by, Action.MANAGE_TOKENS, token.group)
    token = _revoked(token, by)
    rights.dismiss(token)
    return token


def _revoked(token: AgentToken, by: By) -> AgentToken:
    with audit.atomic():
        token = AgentToken.objects.select_for_update().select_related("group").get(pk=token.pk)
        if token.revoked_at is None:
            token.revoked_at = timezone.now()
            token.save(update_fields=["revoked_at"])
            _audit_token("revoke token", token, by)
    return token


@audit.attempted("rotate token")
def rotate_token(token: AgentToken, by: By) -> MadeToken:
    """One of the same name and expiry; the old one is revoked. Raises Refused: it was before."""
    require(by, Action.MANAGE_TOKENS, token.group)
    with audit.atomic():
        if AgentToken.objects.select_for_update().get(pk=token.pk).revoked_at is not None:
            raise Refused(f"token {token.name!r} is revoked: create a new one")
        old = _revoked(token, by)
        made = _created(token.group, by, token.name, token.expires_at)
    rights.admit(made.token)
    rights.dismiss(old)
    return made


def agent_command(made: MadeToken, url: str) -> str:
    """What to run beside a consumer, ready to paste."""
    return (
        f"EVENKEEL_TOKEN={made.text} EVENKEEL_REDIS_URL={shlex.quote(rights.agents_redis_url())}"
        f" evenkeel-agent --group {made.token.group.name} --dashboard {shlex.quote(url)}"
        " -- python your_pipeline.py"
    )


def tell(group: Group) -> None:
    """Its settings, as far as Redis has others; the next tick does it when Redis is away."""
    try:
        if coordinator.tell(group) and group.rebalances.exists():
            coordinator.want_rebalance(group.name)
    except StoreUnavailable as error:
        log.warning("settings of group=%s wait for Redis: %s", group.name, error)


def _audit_token(action: str, token: AgentToken, by: By) -> None:
    expires_at = token.expires_at and token.expires_at.isoformat()
    after = {"token": token.pk, "expires_at": expires_at}
    audit.record(by, action, token.group, object=tokens.named(token), after=after)
