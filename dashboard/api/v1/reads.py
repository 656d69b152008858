"""Reads of groups and of who owns what, live or at a past moment."""

from dataclasses import asdict, fields
from typing import Any

from django.http import Http404, HttpRequest
from ninja import Query

from assignment.types import Partition
from dashboard.api import health
from dashboard.api.v1 import answers, doors, forms
from dashboard.api.v1.reading import allowed, behind, group_named, moment_of, now_ms, piece, router
from dashboard.live import watching
from dashboard.live.cells import LivePartition
from dashboard.live.connection import StoreUnavailable
from dashboard.live.snapshot import LiveMember, LiveSnapshot
from dashboard.models import Group, Tenure
from dashboard.push import frames
from dashboard.records.queries import groups as group_queries
from dashboard.records.queries import ownership, tenures


@router.get("/status", response=answers.StatusTold, url_name="status", operation_id="status")
def status(request: HttpRequest) -> Any:
    """What /readyz finds, with the groups that you may see."""
    return health.look(doors.rights_of(request))


@router.get(
    "/groups",
    response=answers.PieceOf[answers.GroupLine],
    url_name="groups",
    operation_id="list_groups",
)
def groups(request: HttpRequest, asked: Query[forms.GroupsAsked]) -> Any:
    """Groups by name."""
    every = group_queries.rows(now_ms(), doors.rights_of(request))
    rows = group_queries.selected(every, asked.q, asked.state or "", "name")
    found = piece(behind(rows, asked.cursor, _name_of), asked.limit, _name_of)
    return found | {"items": [_line(request, row) for row in found["items"]]}


def _name_of(row: group_queries.GroupRow) -> str:
    return row.group.name


def _line(request: HttpRequest, row: group_queries.GroupRow) -> dict[str, Any]:
    group, sample = row.group, row.sample
    of_sample = ("members", "owned", "conflicts", "lag_records")
    return {
        **{name: getattr(group, name) for name in ("name", "stream", "partitions")},
        "state": row.state,
        "why": row.why,
        **{name: getattr(sample, name, None) for name in of_sample},
        "allowed_actions": allowed(request, group.name),
    }


@router.get(
    "/groups/{name}", response=answers.GroupTold, url_name="group", operation_id="read_group"
)
def group(request: HttpRequest, name: forms.GroupName) -> Any:
    """One group: what is stored of it, and its numbers now."""
    return told(request, group_named(name))


def told(request: HttpRequest, row: Group) -> dict[str, Any]:
    live, problem = None, ""
    try:
        live = _live(watching.snapshot(row.name))
    except StoreUnavailable as error:
        problem = str(error)
    stored = ("name", "stream", "partitions", "created_at", "created_by", "coordination")
    return {
        **{name: getattr(row, name) for name in stored},
        "settings": row.values.values(),
        "faults": row.faults,
        "live": live,
        "problem": problem,
        "allowed_actions": allowed(request, row.name),
    }


def _live(snapshot: LiveSnapshot) -> dict[str, Any]:
    state, why = frames.state_of(snapshot)
    names = (
        "at_ms",
        "group_epoch",
        "target_epoch",
        "incarnation",
        "tick_age_ms",
        "progress_age_ms",
    )
    return {
        **{name: getattr(snapshot, name) for name in names},
        "state": state,
        "why": why,
        "mode_epoch": snapshot.mode.epoch,
        "numbers": asdict(snapshot.numbers),
    }


@router.get(
    "/groups/{name}/members",
    response=answers.MembersPiece,
    url_name="members",
    operation_id="list_members",
)
def members(request: HttpRequest, name: forms.GroupName, asked: Query[forms.MembersAsked]) -> Any:
    """Members by id; at a past moment those that owned something."""
    row = group_named(name)
    at_ms = moment_of(row, asked.at)
    rows: list[dict[str, Any]]
    if at_ms is None:
        rows = [_plain(member) for member in watching.snapshot(name).members]
    else:
        loads = ownership.at(row, at_ms).loads()
        rows = [{"id": member, "owned": count} for member, count in sorted(loads.items()) if count]
    found = piece(behind(rows, asked.cursor, _id_of), asked.limit, _id_of)
    return found | {"at_ms": at_ms}


def _id_of(row: dict[str, Any]) -> str:
    return str(row["id"])


def _plain(row: LiveMember | LivePartition) -> dict[str, Any]:
    return {field.name: getattr(row, field.name) for field in fields(row)}


@router.get(
    "/groups/{name}/partitions",
    response=answers.PartitionsPiece,
    url_name="partitions",
    operation_id="list_partitions",
)
def partitions(
    request: HttpRequest, name: forms.GroupName, asked: Query[forms.PartitionsAsked]
) -> Any:
    """Partitions by number, with who owns each."""
    row = group_named(name)
    at_ms = moment_of(row, asked.at)
    rows = _now(name, asked) if at_ms is None else _then(row, at_ms, asked)
    found = piece(behind(rows, asked.cursor, _number_of), asked.limit, _number_of)
    return found | {"at_ms": at_ms}


def _number_of(row: dict[str, Any]) -> int:
    return int(row["number"])


def _now(name: str, asked: forms.PartitionsAsked) -> list[dict[str, Any]]:
    """Those of the piece, and one more if there is."""
    snapshot = watching.snapshot(name)
    fitting = snapshot.partitions.of(asked.owner, asked.state or "")
    numbers = behind(fitting, asked.cursor, int)[: asked.limit + 1]
    return [_plain(row) for row in watching.rows(snapshot, numbers)]


def _then(row: Group, at_ms: int, asked: forms.PartitionsAsked) -> list[dict[str, Any]]:
    """Those of the piece, and one more if there is. Of two that overlap the one with the higher
    fence.
    """
    owners = enumerate(ownership.at(row, at_ms).owners())
    fitting = (number for number, owner in owners if asked.owner in ("", owner))
    numbers = behind(fitting, asked.cursor, int)[: asked.limit + 1]
    rows = ownership.holding(row, at_ms).filter(number__in=numbers).order_by("number", "fence")
    held = {tenure.number: tenure for tenure in rows}
    return [_at(row, number, held.get(number)) for number in numbers]


def _at(row: Group, number: int, tenure: Tenure | None) -> dict[str, Any]:
    return {
        "partition": f"{row.stream}:{number}",
        "number": number,
        "owner": tenure and tenure.member_id,
        "fence": tenure and str(tenure.fence),
        "since_ms": tenure and tenure.started_ms,
        "ended_ms": tenure and tenure.ended_ms,
        "end": tenure and tenure.end,
    }


@router.get(
    "/groups/{name}/partitions/{int:number}",
    response=answers.PartitionAt,
    url_name="partition",
    operation_id="read_partition",
)
def partition(
    request: HttpRequest,
    name: forms.GroupName,
    number: forms.Key,
    asked: Query[forms.PartitionAsked],
) -> Any:
    """One partition, with who owns it."""
    row = group_named(name)
    at_ms = moment_of(row, asked.at)
    if number >= row.partitions:
        raise Http404(f"Group {name} has partitions 0 to {row.partitions - 1}.")
    if at_ms is None:
        (live,) = watching.rows(watching.snapshot(name), [number])
        return _plain(live) | {"at_ms": None}
    found = tenures.owner_at(row, Partition(row.stream, number), at_ms)
    last = found.tenures[-1] if found.tenures else None
    return _at(row, number, last) | {"at_ms": at_ms, "doubtful": found.doubtful}
