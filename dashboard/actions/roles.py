"""Who may do what: the one matrix of roles and actions, and which action each page is.

Pages, sockets, commands and whatever else lets people act ask `Rights`; nobody else decides. Knows
neither Django nor a database (records/rights.py reads who has which grant).

A person without any grant is a viewer of every group. A grant gives a role in the groups whose
names a pattern fits: allow; stage, which lets look but needs another's approval for each change; or
deny. Of the grants that speak about an action in a group deny comes before stage before allow.
Denied is what the role may beyond looking; to deny the role viewer denies everything. What is not
of one group (users, evaluations) takes a grant for all groups, by the pattern `*`, and no exception
from it: a deny or stage for some groups counts there too, else whom it binds could lift it.
"""

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from assignment.errors import InvalidInput

EVERY_GROUP = "*"
PATTERN = re.compile(r"[A-Za-z0-9_.*?-]{1,100}")  # of names; * any characters, ? any one
STARS = re.compile(r"\*+")  # as many as one
STARS_MAX = 3  # each of them multiplies what a search tries
SAID = re.compile(r"(?:(allow|stage|deny) +)?(\S+)(?: +in +(\S+))?")


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    AUDITOR = "auditor"
    ADMIN = "admin"


class Effect(StrEnum):
    """In the order in which they count."""

    DENY = "deny"
    STAGE = "stage"
    ALLOW = "allow"


class Action(StrEnum):
    """The values complete `to ...`."""

    SEE = "see"
    READ_AUDIT = "read the audit"
    VERIFY_AUDIT = "verify the audit"
    LOOK_AT_EVENTS = "look at events"
    REBALANCE = "rebalance"
    SCALE_DOWN = "scale down"
    SKIP_EVENT = "skip an event"
    DISCARD_LETTERS = "discard dead letters"
    REPLAY_LETTERS = "replay dead letters"
    PAUSE = "pause and resume"
    SET_OFFSETS = "set committed offsets"
    ACKNOWLEDGE = "acknowledge attention"
    APPROVE = "approve a plan"
    CHANGE_SETTINGS = "change settings"
    MAKE_GROUP = "make a group"
    MANAGE_TOKENS = "manage tokens"
    MANAGE_PRODUCERS = "manage producers' tokens"
    MANAGE_WEBHOOKS = "manage webhooks"
    MANAGE_APPROVALS = "manage approval rules"
    REPAIR = "repair a group"
    EVALUATE = "start an evaluation"
    MANAGE_USERS = "manage users"

    @property
    def key(self) -> str:
        """As the API and templates name it."""
        return self.name.lower()


MATRIX: Mapping[Action, tuple[Role, ...]] = {
    Action.SEE: tuple(Role),
    Action.READ_AUDIT: (Role.AUDITOR, Role.ADMIN),
    Action.VERIFY_AUDIT: (Role.AUDITOR, Role.ADMIN),
    # Whoever operates looks at what does not go on, an auditor at what went through.
    Action.LOOK_AT_EVENTS: (Role.OPERATOR, Role.AUDITOR, Role.ADMIN),
    Action.REBALANCE: (Role.OPERATOR, Role.ADMIN),
    Action.SCALE_DOWN: (Role.OPERATOR, Role.ADMIN),
    Action.SKIP_EVENT: (Role.OPERATOR, Role.ADMIN),
    Action.DISCARD_LETTERS: (Role.OPERATOR, Role.ADMIN),
    Action.REPLAY_LETTERS: (Role.OPERATOR, Role.ADMIN),
    Action.PAUSE: (Role.OPERATOR, Role.ADMIN),
    Action.SET_OFFSETS: (Role.OPERATOR, Role.ADMIN),
    Action.ACKNOWLEDGE: (Role.OPERATOR, Role.ADMIN),
    Action.APPROVE: (Role.APPROVER, Role.ADMIN),
    Action.CHANGE_SETTINGS: (Role.ADMIN,),
    Action.MAKE_GROUP: (Role.ADMIN,),
    Action.MANAGE_TOKENS: (Role.ADMIN,),
    Action.MANAGE_PRODUCERS: (Role.ADMIN,),
    Action.MANAGE_WEBHOOKS: (Role.ADMIN,),
    Action.MANAGE_APPROVALS: (Role.ADMIN,),
    Action.REPAIR: (Role.ADMIN,),
    Action.EVALUATE: (Role.ADMIN,),
    Action.MANAGE_USERS: (Role.ADMIN,),
}
LOOKING = frozenset(
    {Action.SEE, Action.READ_AUDIT, Action.VERIFY_AUDIT, Action.LOOK_AT_EVENTS}
)  # changes nothing: is never staged
OF_NO_GROUP = frozenset(
    {Action.VERIFY_AUDIT, Action.EVALUATE, Action.MANAGE_USERS, Action.MANAGE_PRODUCERS}
    | {Action.MANAGE_WEBHOOKS, Action.MANAGE_APPROVALS}
)  # several groups may read a producer's stream; a webhook is told of all
STAGED = frozenset({Role.OPERATOR, Role.ADMIN})  # the roles that change what can be planned

# --- pages ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Door:
    """What a page takes: to be looked at, and to be sent a form (None: it takes none). A form with
    the field `previews` only looks. `stages`: what needs another's approval is made a plan there,
    and what cannot be one asks again.
    """

    looks: Action
    changes: Action | None = None
    previews: str = ""
    stages: bool = False

    def only_asks(self, sent: Container[str]) -> bool:
        """Whether a form with these fields needs no more than the right to look."""
        return self.stages or (bool(self.previews) and self.previews in sent)


# Without anybody logged in. Static files and agents' routes never come to Django's addresses.
PUBLIC = frozenset(
    {
        *("healthz", "readyz", "login", "theme", "clock"),
        *("single_sign_on", "single_sign_on_callback"),
        "v1:openapi-json",  # says what the product can, nothing of this one
    }
)
BY_TOKEN = frozenset({"metrics"})  # by a token of its own, which it asks for; no login opens it
OWN = frozenset(  # of whoever is logged in, whatever the role
    {"logout", "password", "api_tokens", "help", "help_page", "help_image"}
)
_SEES = Door(Action.SEE)
# By the name of its address. The group is the one in the address; without one it takes the right in
# any group, and what is done checks the very group. An address that is not here opens to nobody.
DOORS: Mapping[str, Door] = {
    **dict.fromkeys(("overview", "groups", "groups_csv", "status", "evaluation_report"), _SEES),
    **dict.fromkeys(("group", "group_members", "group_partitions", "group_snapshot"), _SEES),
    **dict.fromkeys(("group_balance", "group_charts", "group_history", "rebalance"), _SEES),
    **dict.fromkeys(("group_ownership", "ownership_picture", "partition_owner", "member"), _SEES),
    **dict.fromkeys(("rebalances_csv", "ownership_csv", "scale_downs_csv"), _SEES),
    **dict.fromkeys(("group_map_bytes", "epoch_changes"), _SEES),
    **dict.fromkeys(("audit", "audit_csv", "audit_lines"), Door(Action.READ_AUDIT)),
    "audit_verify": Door(Action.VERIFY_AUDIT, Action.VERIFY_AUDIT),
    "partition": Door(Action.SEE, Action.SKIP_EVENT),
    "partition_events": Door(Action.LOOK_AT_EVENTS),
    "dead_letters": Door(Action.LOOK_AT_EVENTS, Action.DISCARD_LETTERS),
    "pause": Door(Action.SEE, Action.PAUSE),
    "partition_offset": Door(Action.SET_OFFSETS, Action.SET_OFFSETS),
    "scale_down": Door(Action.SEE, Action.SCALE_DOWN),
    **dict.fromkeys(("attention_count", "search"), _SEES),
    "group_attention": Door(Action.SEE, Action.ACKNOWLEDGE),
    "new_scale_down": Door(Action.SCALE_DOWN, Action.SCALE_DOWN, previews="preview", stages=True),
    "rebalance_preview": Door(Action.REBALANCE, Action.REBALANCE, previews="preview", stages=True),
    "group_plans": _SEES,
    "plan": Door(Action.SEE, Action.SEE),  # what is done to it asks for a right of its own
    "group_settings": Door(Action.SEE, Action.CHANGE_SETTINGS, stages=True),
    "tokens": Door(Action.MANAGE_TOKENS, Action.MANAGE_TOKENS),
    "producers": Door(Action.MANAGE_PRODUCERS, Action.MANAGE_PRODUCERS),
    "webhooks": Door(Action.MANAGE_WEBHOOKS, Action.MANAGE_WEBHOOKS),
    "approval_rules": Door(Action.MANAGE_APPROVALS, Action.MANAGE_APPROVALS),
    "new_group": Door(Action.MAKE_GROUP, Action.MAKE_GROUP),
    "adopt_group": Door(Action.MAKE_GROUP, Action.MAKE_GROUP),
    "evaluations": Door(Action.SEE, Action.EVALUATE),
    "demo": Door(Action.SEE, Action.SCALE_DOWN),
    **dict.fromkeys(("users", "user"), Door(Action.MANAGE_USERS, Action.MANAGE_USERS)),
}

# --- rights ---------------------------------------------------------------------------------------


class Denied(Exception):
    """Who asked may not do that. No EvenkeelError: those are told beside a form and tried again,
    this one ends a request as 403 and a command as refused.
    """


class NeedsApproval(Denied):
    """Who asked may do it once another one approves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """`pattern`: as it was given, with one `*` for several in a row. Raises InvalidInput."""

    role: Role
    pattern: str = EVERY_GROUP
    effect: Effect = Effect.ALLOW

    def __post_init__(self) -> None:
        object.__setattr__(self, "pattern", STARS.sub("*", self.pattern))
        if not PATTERN.fullmatch(self.pattern) or self.pattern.count("*") > STARS_MAX:
            raise InvalidInput(
                f"pattern {self.pattern!r} is not 1 to 100 letters, digits, “_”, “.”, “-”, “?” (any"
                f" one character) and at most {STARS_MAX} “*” (any number of characters)"
            )
        if self.effect is Effect.STAGE and self.role not in STAGED:
            known = " nor ".join(sorted(STAGED))
            raise InvalidInput(f"role {self.role} cannot be staged: it is neither {known}")

    def __str__(self) -> str:
        return f"{self.effect} {self.role} in {self.pattern}"

    @classmethod
    def read(cls, text: str) -> "Grant":
        """What is shown; without an effect it allows, without a pattern in all groups."""
        said = SAID.fullmatch(text.strip())
        if not said:
            raise InvalidInput(
                f"{text!r} is not of the form “[allow|stage|deny] role [in pattern]”"
            )
        effect, role, pattern = said.groups()
        if role not in [*Role]:
            raise InvalidInput(f"there is no role {role!r}: {', '.join(Role)}")
        effect = Effect(effect or Effect.ALLOW)
        return cls(role=Role(role), pattern=pattern or EVERY_GROUP, effect=effect)

    @property
    def is_of_all(self) -> bool:
        return self.pattern == EVERY_GROUP

    def covers(self, group: str) -> bool:
        return re.fullmatch(_expression([self]), group) is not None

    def on(self, action: Action) -> Effect | None:
        """What it says about an action in the groups that it covers; None: nothing."""
        denies = self.effect is Effect.DENY
        if denies and self.role is Role.VIEWER:
            return Effect.DENY
        if self.role not in MATRIX[action] or (denies and action is Action.SEE):
            return None
        return Effect.ALLOW if not denies and action in LOOKING else self.effect


@dataclass(frozen=True, slots=True)
class Scope:
    """In which groups something is allowed, as regular expressions of their names that Python,
    SQLite and PostgreSQL read alike: in those that `within` fits ("": in none, None: in all), but
    not in those that `without` fits ("": no exception). `in_none`: in what is of no group too.
    """

    within: str | None
    without: str
    in_none: bool


@dataclass(frozen=True, slots=True)
class Rights:
    """Of one person: decided from grants alone. `scopes`: what a token of theirs is for; None: no
    token speaks, or nothing narrows it.
    """

    grants: tuple[Grant, ...] = ()
    scopes: frozenset[Action] | None = None

    def effect(self, action: Action, group: str | None) -> Effect:
        """`group`: its name; None for what is of no single group."""
        if self._is_out_of_scope(action):
            return Effect.DENY
        if group is None or action in OF_NO_GROUP:
            said = {grant.on(action) for grant in self.grants}
            found = self._of_all(action) | (said - {Effect.ALLOW})
        else:
            found = {grant.on(action) for grant in self.grants if grant.covers(group)}
        return next((effect for effect in Effect if effect in found), _default(action))

    def anywhere(self, action: Action) -> Effect:
        """The most that is possible in any group that there may be."""
        if action in OF_NO_GROUP or self._is_out_of_scope(action):
            return self.effect(action, None)
        for exception in (Effect.DENY, Effect.STAGE):
            if exception in self._of_all(action):
                return exception
        found = [effect for grant in self.grants if (effect := grant.on(action))]
        return max([_default(action), *found], key=list(Effect).index)

    def may(self, action: Action, group: str | None) -> bool:
        return self.effect(action, group) is Effect.ALLOW

    def may_look(self, action: Action, group: str | None) -> bool:
        """At the page of an action: also when what is asked there needs approval."""
        return self.effect(action, group) is not Effect.DENY

    def scope(self, action: Action) -> Scope:
        """Where `may_look` is true."""
        said = [(grant, effect) for grant in self.grants if (effect := grant.on(action))]
        denied = [grant for grant, effect in said if effect is Effect.DENY]
        given = [grant for grant, effect in said if effect is not Effect.DENY]
        if Effect.DENY in self._of_all(action) or self._is_out_of_scope(action):
            return Scope("", "", in_none=False)
        everywhere = _default(action) is Effect.ALLOW or any(g.is_of_all for g in given)
        within = None if everywhere else _expression(given)
        return Scope(within, _expression(denied), in_none=self.may_look(action, None))

    def check(self, action: Action, group: str | None) -> None:
        """Raises Denied and NeedsApproval: sentences that name action, group and roles."""
        effect = self.effect(action, group)
        if effect is Effect.ALLOW:
            return
        if self._is_out_of_scope(action):
            raise Denied(f"to {action} takes a token with the scope {action.key}")
        where = f"group {group!r}"
        if group is None or action in OF_NO_GROUP:
            where = "all groups, without exception" if any(self._of_all(action)) else "all groups"
        if effect is Effect.STAGE:
            raise NeedsApproval(
                f"to {action} in {where} needs approval by another person: propose it as a plan"
            )
        roles = " or ".join(MATRIX[action])
        raise Denied(f"to {action} takes the role {roles} in {where}")

    def why_not(self, action: Action, group: str | None) -> str:
        """The sentence of `check`; "" when it is allowed."""
        try:
            self.check(action, group)
        except Denied as error:
            return str(error)
        return ""

    def _is_out_of_scope(self, action: Action) -> bool:
        return self.scopes is not None and action not in self.scopes

    def _of_all(self, action: Action) -> set[Effect | None]:
        """What the grants for all groups say about it."""
        return {grant.on(action) for grant in self.grants if grant.is_of_all}


def _default(action: Action) -> Effect:
    """Without any grant: as a viewer."""
    return Effect.ALLOW if Role.VIEWER in MATRIX[action] else Effect.DENY


EVERYTHING = Rights((Grant(role=Role.ADMIN),))  # of who runs the machine, and of a superuser


def _expression(grants: Iterable[Grant]) -> str:
    """Of the names that their patterns fit; "" for none."""
    wild = {"*": ".*", "?": "."}
    found = ["".join(wild.get(s, re.escape(s)) for s in g.pattern) for g in grants]
    return f"^({'|'.join(found)})$" if found else ""
