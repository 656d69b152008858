"""What requests of the API may say: queries and bodies. A name that is not here is refused."""

from typing import Annotated, Any, get_type_hints

from ninja import Path, Schema
from pydantic import ConfigDict, Field, create_model

from assignment.pauses import PARTITIONS_MAX as PAUSED_MAX
from assignment.setting import NAMES_MAX, Choice, Count, Names, Parameters, Setting
from assignment.settings import DEFAULTS, SCALE_DOWN_MAX_MS, SETTINGS
from assignment.types import (
    NAME_MAX,
    NAME_PATTERN,
    PARTITIONS_MAX,
    Coordination,
    GroupSettings,
)
from dashboard.live.cells import PARTITION_STATES
from dashboard.live.group_state import GroupState
from dashboard.models import MEMBER_MAX, AtDeadline, PlanKind
from dashboard.records.audit import REASON_MAX

LIMIT, LIMIT_MAX = 50, 500  # rows of one answer
WHOLE_MAX = 2**53 - 1  # what every reader of JSON keeps exactly
TEXT_MAX = 200
MEMBERS_MAX = 10_000

Whole = Annotated[int, Field(ge=0, le=WHOLE_MAX)]
Key = Path[Whole]
Name = Annotated[str, Field(min_length=1, max_length=NAME_MAX)]
GroupName = Path[Annotated[str, Field(pattern=f"^{NAME_PATTERN.pattern}$")]]
Reason = Annotated[str, Field(max_length=REASON_MAX, description="Kept in the audit.")]
Moment = Annotated[
    str | None,
    Field(max_length=TEXT_MAX, description="2026-01-31T03:12:00Z, or milliseconds since 1970."),
]
AsOf = Annotated[
    str | None,
    Field(
        max_length=TEXT_MAX,
        description="As it was then, by the history of the locks: 2026-01-31T03:12:00Z, or"
        " milliseconds since 1970. Without it: live.",
    ),
]


# --- queries --------------------------------------------------------------------------------------


class Piece(Schema):
    """Of a long list: `cursor` is the `next` of the answer before."""

    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] = LIMIT


class ByNumber(Piece):
    cursor: Whole | None = None


class ByName(Piece):
    cursor: Annotated[str, Field(max_length=MEMBER_MAX)] | None = None


class GroupsAsked(ByName):
    q: Annotated[str, Field(max_length=TEXT_MAX, description="Part of a name or stream.")] = ""
    state: GroupState | None = None


class MembersAsked(ByName):
    at: AsOf = None


class PartitionsAsked(ByNumber):
    at: AsOf = None
    owner: Annotated[str, Field(max_length=MEMBER_MAX)] = ""
    state: Annotated[
        str, Field(pattern=f"^({'|'.join(PARTITION_STATES)})?$", description="Of live ones only.")
    ] = ""


class PartitionAsked(Schema):
    at: AsOf = None


class Between(ByNumber):
    from_: Annotated[Moment, Field(alias="from")] = None
    to: Moment = None


class TenuresAsked(Between):
    member: Annotated[str, Field(max_length=MEMBER_MAX)] = ""
    partition: Annotated[int, Field(ge=0, le=999_999)] | None = None


class RebalancesAsked(TenuresAsked):
    cause: Annotated[str, Field(max_length=TEXT_MAX)] = ""
    actor: Annotated[str, Field(max_length=TEXT_MAX)] = ""


class AuditAsked(Between):
    actor: Annotated[str, Field(max_length=TEXT_MAX)] = ""
    action: Annotated[str, Field(max_length=TEXT_MAX)] = ""
    object: Annotated[str, Field(max_length=TEXT_MAX)] = ""
    group: Annotated[str, Field(max_length=TEXT_MAX)] = ""
    result: Annotated[str, Field(max_length=TEXT_MAX)] = ""


# --- bodies ---------------------------------------------------------------------------------------


class Command(Schema):
    model_config = ConfigDict(extra="forbid")

    reason: Reason = ""


class Seen(Command):
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="Of the plan, as read.")]


class OfGroup(Command):
    expected_epoch: Annotated[
        Whole | None,
        Field(description="The group_epoch that this was decided by; refused when it has moved."),
    ] = None


class OfSettings(Schema):
    """Those that are named, each of the type that it is kept as."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _setting(name: str, declared: Setting) -> Any:
    """The type that it is kept as, with its bounds and what people read of it."""
    kind: Any = SETTING_TYPES[name]
    bounds: dict[str, Any] = {}
    match declared:
        case Count():
            kind, bounds = int, {"ge": declared.least, "le": declared.most}
        case Choice():
            bounds = {"json_schema_extra": {"enum": list(declared.options)}}
        case Parameters():
            kind = dict[str, Any]
        case Names():
            kind, bounds = list[str], {"max_length": NAMES_MAX}
    bounded = Annotated[kind, Field(**bounds)]
    offered = bounded | None if declared.may_be_none else bounded
    return Annotated[offered, Field(title=declared.label, description=declared.help)]


SETTING_TYPES = get_type_hints(GroupSettings)
DEFINITIONS: dict[str, Any] = {
    name: (_setting(name, declared), DEFAULTS[name])
    for name, declared in SETTINGS.items()
    if declared.is_changed_with_others
}
Settings: Any = create_model("Settings", __base__=OfSettings, **DEFINITIONS)


def said(settings: Any) -> dict[str, Any]:
    """What was named of them, and nothing else."""
    found: dict[str, Any] = settings.model_dump(exclude_unset=True)
    return found


class NewGroup(Command):
    name: Name
    stream: Name
    partitions: Annotated[int, Field(ge=1, le=PARTITIONS_MAX)]
    settings: Annotated[Settings, Field(description="Those that are not the defaults.")] = (
        Settings()
    )


class SettingsChange(OfGroup):
    settings: Annotated[Settings, Field(description="Those that change.")]


class Switch(OfGroup):
    coordination: Coordination
    expected_mode_epoch: Annotated[
        Whole | None, Field(description="Refused when another one is current.")
    ] = None


class RebalanceAsked(OfGroup):
    strategy: Annotated[
        str, Field(max_length=TEXT_MAX, description="This once; empty: the group's own.")
    ] = ""
    parameters: Annotated[dict[str, Any], Field(description="Of the strategy, this once.")] = {}


class PauseAsked(OfGroup):
    partitions: Annotated[
        list[Whole] | None,
        Field(max_length=PAUSED_MAX, description="By number; null: the whole group."),
    ] = None


class SkipAsked(OfGroup):
    entry: Annotated[str, Field(max_length=TEXT_MAX, description="The halted event's id.")]


class Leavers(Schema):
    model_config = ConfigDict(extra="forbid")

    percent: Annotated[
        Annotated[int, Field(ge=1, le=100)] | None, Field(description="Of the members that stay.")
    ] = None
    members: Annotated[
        list[Annotated[str, Field(max_length=MEMBER_MAX)]] | None,
        Field(max_length=MEMBERS_MAX, description="Who leaves, by id."),
    ] = None
    force_all: Annotated[bool, Field(description="Also when all members would leave.")] = False


Timeout = Annotated[
    Annotated[int, Field(ge=0, le=SCALE_DOWN_MAX_MS)] | None,
    Field(description="Then at_deadline happens; null: no limit."),
]


class NewScaleDown(OfGroup, Leavers):
    timeout_ms: Annotated[Timeout, Field(description="Left out: the group's own.")] = None
    at_deadline: AtDeadline = AtDeadline.FORCE
    eager: Annotated[
        bool | None, Field(description="Sets learn_partial_rebalance of the group.")
    ] = None


class Extension(OfGroup):
    timeout_ms: Timeout


class Forced(OfGroup):
    member: Annotated[str, Field(max_length=MEMBER_MAX)]


class NewToken(Command):
    name: Name
    days: Annotated[
        Annotated[int, Field(ge=1, le=3_650)] | None,
        Field(description="Valid so long; null: until it is revoked."),
    ] = None


class NewProducerToken(NewToken):
    stream: Name


Clock = Annotated[str, Field(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$")]


class NewApprovalRule(Command):
    name: Name
    groups: Annotated[str, Field(max_length=100, description="Pattern of names: * and ?.")] = "*"
    kinds: Annotated[list[PlanKind], Field(min_length=1, max_length=len(PlanKind))]
    moves_max: Annotated[int, Field(ge=0, le=PARTITIONS_MAX)]
    begins: Annotated[Clock, Field(description="UTC.")] = "00:00"
    ends: Annotated[Clock, Field(description="UTC; the same as begins: all day.")] = "00:00"


class Mending(Command):
    incarnation: Annotated[
        Whole | None,
        Field(description="The highest that agents say they saw, after a restored backup."),
    ] = None
