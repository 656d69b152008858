"""Who is let in to the API: whoever shows a person's token, as far as the matrix of roles and the
token's scopes go. A browser's session opens nothing here. Which action each address is stands in
`DOORS`, by its name; one that is not there opens to nobody.
"""

import time
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.utils import timezone

from dashboard.actions import access
from dashboard.actions.api_tokens import named
from dashboard.actions.roles import Action, Denied, Door, Rights
from dashboard.agents import issued
from dashboard.models import AuditSource
from dashboard.records import audit, rights
from dashboard.records.audit import By
from dashboard.records.logins import address_of
from dashboard.records.person_token import PersonToken
from dashboard.single_sign_on.people import why_unknown
from dashboard.web.problems import answer
from dashboard.web.visitors import refused, said_who, user_named

NAMESPACE = "v1:"
LOOKING = ("GET", "HEAD")
SENDERS_MAX = 10_000  # counted in one second; one process does not answer as many
_SEES = Door(Action.SEE)
_DRAINS = Door(Action.SCALE_DOWN, Action.SCALE_DOWN)
_OF_TOKENS = Door(Action.MANAGE_TOKENS, Action.MANAGE_TOKENS)
_OF_PRODUCERS = Door(Action.MANAGE_PRODUCERS, Action.MANAGE_PRODUCERS)
_OF_APPROVALS = Door(Action.MANAGE_APPROVALS, Action.MANAGE_APPROVALS)
DOORS = {
    f"{NAMESPACE}{name}": door
    for name, door in {
        **dict.fromkeys(("api-root", "status", "group", "members", "partitions"), _SEES),
        **dict.fromkeys(("partition", "tenures", "rebalance", "scale_down"), _SEES),
        "audit": Door(Action.READ_AUDIT),
        **dict.fromkeys(("events", "dead_letters"), Door(Action.LOOK_AT_EVENTS)),
        **dict.fromkeys(("offset", "offset_jumps"), Door(Action.SEE, Action.SET_OFFSETS)),
        "offset_outlook": Door(Action.SET_OFFSETS, Action.SET_OFFSETS, previews="always"),
        "audit_verify": Door(Action.VERIFY_AUDIT, Action.VERIFY_AUDIT),
        "groups": Door(Action.SEE, Action.MAKE_GROUP),
        "adopt": Door(Action.MAKE_GROUP, Action.MAKE_GROUP),
        "settings": Door(Action.SEE, Action.CHANGE_SETTINGS, stages=True),
        "coordination": Door(Action.SEE, Action.CHANGE_SETTINGS, stages=True),
        "pauses": _SEES,
        **dict.fromkeys(("pause", "resume"), Door(Action.SEE, Action.PAUSE)),
        "rebalances": Door(Action.SEE, Action.REBALANCE, stages=True),
        "skip": Door(Action.SKIP_EVENT, Action.SKIP_EVENT),
        "discard": Door(Action.DISCARD_LETTERS, Action.DISCARD_LETTERS),
        "replay": Door(Action.REPLAY_LETTERS, Action.REPLAY_LETTERS),
        "scale_downs": Door(Action.SEE, Action.SCALE_DOWN, stages=True),
        "preview": Door(Action.SCALE_DOWN, Action.SCALE_DOWN, previews="always"),
        **dict.fromkeys(("extend", "force", "abort"), _DRAINS),
        **dict.fromkeys(("tokens", "token", "rotate"), _OF_TOKENS),
        **dict.fromkeys(("producer_tokens", "producer_token"), _OF_PRODUCERS),
        **dict.fromkeys(("plans", "plan", "attention"), _SEES),
        **dict.fromkeys(("approve", "reject"), Door(Action.SEE, Action.APPROVE)),
        **dict.fromkeys(("run", "cancel"), Door(Action.SEE, Action.SEE)),  # asks for the plan's
        **dict.fromkeys(("approval_rules", "approval_rule"), _OF_APPROVALS),
        "acknowledge": Door(Action.SEE, Action.ACKNOWLEDGE),
        "repair": Door(Action.REPAIR, Action.REPAIR),
    }.items()
}
# What a token can be for. To look is in each of them.
SCOPES = tuple(a for a in Action if any(a in (d.looks, d.changes) for d in DOORS.values()))
NO_TOKEN = "the header Authorization: Bearer <token> is missing or wrong: make one on /api-tokens/"
PLAIN_HTTP = "the API is read over HTTPS: who followed a redirect would have shown the token"


class _Rates:
    """Requests of the present second, by person."""

    def __init__(self) -> None:
        self._second = 0
        self._counts: dict[int, int] = {}

    def admits(self, person: int) -> bool:
        second = int(time.time())
        if second != self._second or len(self._counts) > SENDERS_MAX:
            self._second, self._counts = second, {}
        count = self._counts[person] = self._counts.get(person, 0) + 1
        return count <= settings.API_RATE_PER_SECOND


_rates = _Rates()


def enter(request: HttpRequest, name: str, group: str | None) -> HttpResponse | None:
    """The problem, or None: whoever asks may. `name`: of the address; `group`: that it names."""
    if not (request.is_secure() or settings.DEVELOPMENT):
        return answer(403, PLAIN_HTTP)
    scope = getattr(request, "scope", {})
    try:
        token = _token(request)
        if token is None:
            refused(scope)
            return answer(401, NO_TOKEN)
        said_who(scope, user_named(token.user_id))
        if not _rates.admits(token.user_id):
            most = settings.API_RATE_PER_SECOND
            return answer(429, f"you have had your {most} requests of this second")
        held = replace(rights.of_user(token.user), scopes=token.actions)
        vars(request)["api"] = token, held
        audit.acting.set(
            lambda: by(request)
        )  # until the middleware that set it before sets it back
        return _open(request, DOORS.get(name), group)
    except DatabaseError:
        return answer(503, "the database does not answer now")


def _open(request: HttpRequest, door: Door | None, group: str | None) -> HttpResponse | None:
    if door is None:
        return answer(403, f"{request.path} opens to nobody: it is not in the matrix")
    looks = request.method in LOOKING or bool(door.previews)
    action = door.looks if looks else door.changes
    looks = looks or door.stages
    if action is None:
        return HttpResponseNotAllowed(LOOKING)
    try:
        access.enter(by(request), action, group, looks=looks)
        if group is not None and action is not Action.MAKE_GROUP:
            access.find(group)  # before a method is refused, as of one that is hidden
    except access.NotThere as error:
        return answer(404, str(error))
    except Denied as error:
        return answer(403, str(error))
    return None


def _token(request: HttpRequest) -> PersonToken | None:
    """A valid one, of somebody who may log in; marked as used."""
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not text.strip():
        return None
    digest = issued.digest_of(text.strip())
    token = PersonToken.objects.select_related("user").filter(digest=digest).first()
    if token is None:
        return None
    if why := _why_closed(token):
        audit.denied(_by(token, request), "use API token", object=named(token), why=why)
        return None
    now = timezone.now()
    if issued.is_used_anew(token.last_used_at, now):
        PersonToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token


def _why_closed(token: PersonToken) -> str:
    if not token.user.is_active:
        return "its person is deactivated"
    if token.state != "valid":
        return f"the token is {token.state}"
    return why_unknown(token.user)


def _by(token: PersonToken, request: HttpRequest, **more: Any) -> By:
    actor, address = token.user.username, address_of(request)
    return By(actor, AuditSource.API, address=address, token=token.name, **more)


def by(request: HttpRequest, reason: str = "") -> By:
    """Of whoever was let in."""
    token, held = vars(request)["api"]
    return _by(token, request, rights=held, reason=reason)


def rights_of(request: HttpRequest) -> Rights:
    held: Rights = vars(request)["api"][1]
    return held


def person_of(request: HttpRequest) -> int:
    """The key of the user."""
    token: PersonToken = vars(request)["api"][0]
    return token.user_id
