"""What the dashboard asks: membership, reports, targets, settings, the incarnation, the history."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from assignment import sizes, wire
from assignment.errors import InvalidInput
from assignment.scripts import replies
from assignment.scripts.group_read import GroupRead
from assignment.scripts.values import (
    INCARNATION_MAX,
    Arguments,
    Call,
    Raw,
    check_within,
    epoch_text,
    flag,
    number_of,
    text_of,
    texts_of,
    within,
)
from assignment.types import (
    START,
    Coordination,
    Drain,
    Epoch,
    GroupSettings,
    Offset,
    Partition,
    TargetRow,
    refuse_two_owners,
    valid_name,
)

REASON_MAX = 200
PROCESS_LENGTH = 12  # as in _common.lua
Scalar = str | int | float | bool | None
LIFTED = {"group_epoch", "settings_epoch", "mode_epoch", "event_seq"}  # with the incarnation


def secret_digest(secret: str) -> str:
    """Redis keeps only this of a member's secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _reason(reason: str) -> str:
    return reason[:REASON_MAX]


# --- join, leave, evict ---------------------------------------------------------------------------


class JoinResult(StrEnum):
    OK = "ok"
    IN_USE = "in_use"  # a live process has this id under another secret
    NO_GROUP = "no_group"  # never configured, or Redis was wiped: configure, then ask again
    WAIT = "wait"  # another process may live under this instance name: ask again after wait_ms
    FULL = "full"  # as many members as it may have: one may leave
    BUSY = "busy"  # too many joined in this second: ask again


class Joined(NamedTuple):
    """`host`: where the other process runs. `seen` (WAIT): a sign of its life, said with the next
    join: if it gave none since, it is replaced; only one that compares the same can. `reply` of OK.
    """

    result: JoinResult
    host: str = ""
    seen: str = ""
    wait_ms: int = 0
    reply: wire.Reply | None = None


def join(
    member_id: str,
    secret: str,
    row: Mapping[str, Scalar],
    seen: str = "",
    *,
    members: int = sizes.MEMBERS_MAX,
) -> Call[Joined]:
    """`row`: facts of a join as wire.Join has them. Lists would not survive Lua's JSON.
    `members`: that the group may have.
    """
    check_within("incarnation", int(row.get("incarnation") or 0), 0, INCARNATION_MAX)
    for name, value in row.items():
        if not isinstance(value, str | int | float | bool | None):
            raise InvalidInput(f"{name} of a member is not one text or number: {value!r}")
    row_text = json.dumps(dict(row), separators=(",", ":"), allow_nan=False)
    arguments: Arguments = [valid_name("member", member_id), secret_digest(secret), row_text]
    return Call("join", [*arguments, seen, str(members), str(sizes.JOINS_PER_SECOND)], _joined)


def _joined(raw: Raw) -> Joined:
    match texts_of(raw):
        case ["wait", seen, host, wait_ms]:
            return Joined(JoinResult.WAIT, host, seen, int(wait_ms))
        case ["in_use", host]:
            return Joined(JoinResult.IN_USE, host)
        case ["ok", *epochs, identity, settings]:
            reply = replies.of_group(epochs, identity, settings, want_complete=True)
            return Joined(JoinResult.OK, reply=reply)
        case [result]:
            return Joined(JoinResult(result))
        case answer:
            raise InvalidInput(f"join answered {answer}")


def in_use(member_id: str, joined: Joined) -> str:
    return f"a live process of {member_id!r} runs on {joined.host or 'an unknown host'}"


def not_now(group: str, result: JoinResult) -> str:
    """Why one that may join later cannot join now."""
    match result:
        case JoinResult.FULL:
            return f"group {group!r} has as many members as it may have; one has to leave first"
        case JoinResult.BUSY:
            return f"group {group!r} took {sizes.JOINS_PER_SECOND} joins in this second; try again"
    return f"group {group!r} is not yet set up in Redis; try again"


def wait_reply(joined: Joined) -> wire.Reply:
    return wire.Reply(
        status=wire.Status.WAIT, seen=joined.seen, host=joined.host, wait_ms=joined.wait_ms
    )


def leave(member_id: str, secret: str, *, stops: bool = False) -> Call[bool]:
    """False: it was no member under that secret; nothing was touched. `stops`: only its process
    ends; under an instance name the member stays for instance_timeout_ms.
    """
    arguments: Arguments = [valid_name("member", member_id), secret_digest(secret), flag(stops)]
    return Call("leave", arguments, lambda raw: text_of(raw) != "fenced")


def process_of(secret: str) -> str:
    """By it Redis tells one process of an instance name from the next (speaks_for in Lua)."""
    return secret_digest(secret)[:PROCESS_LENGTH]


class EvictResult(StrEnum):
    OK = "ok"
    NEWER = "newer"  # it gave a sign of life after the judged one: it stays
    GONE = "gone"


def evict(member_id: str, judged_beat_ms: int, reason: str) -> Call[EvictResult]:
    """Takes the member out, unless it gave a sign of life after that beat (0: it has none)."""
    arguments: Arguments = [member_id, str(judged_beat_ms), _reason(reason)]
    return Call("evict", arguments, lambda raw: EvictResult(text_of(raw)))


def ask_complete(member_ids: Iterable[str]) -> Call[int]:
    """Their next heartbeats are complete reports: what is stored cannot be read."""
    return Call("ask_complete", list(member_ids), number_of)


def set_drain(drain: Drain, member_ids: Iterable[str], version: int = 0) -> Call[list[str]]:
    """Tells members to leave, at once when forced, or (NONE) takes it back. Answers those that were
    there and had another one; nobody is told when a later version of the records was told.
    """
    names = (valid_name("member", member) for member in member_ids)
    arguments: Arguments = [Drain(drain).value, epoch_text("version", version), *names]
    return Call("set_drain", arguments, texts_of)


# --- settings, incarnation, targets ---------------------------------------------------------------


def configure(
    settings: GroupSettings,
    reason: str,
    *,
    rebalance_due: bool,
    identity: str = "",
    over_epoch: int | None = None,
    coordination: Coordination = Coordination.SERVER,
    claims: bool = False,
) -> Call[int]:
    """`rebalance_due` when a plan depends on what changed. Answers the group_epoch.
    `identity` of the group in its database; "": as it is in Redis. Nothing is changed when Redis
    has settings of another epoch than `over_epoch`; None: whatever it has. `coordination` of a
    group that is made by this. `claims`: nor when Redis has another identity of it.
    """
    due, text = flag(rebalance_due), wire.settings_text(settings)
    over = "" if over_epoch is None else epoch_text("over_epoch", over_epoch)
    arguments: Arguments = [text, due, _reason(reason), identity, over, coordination.value]
    return Call("configure", [*arguments, flag(claims)], number_of)


class ModeSet(NamedTuple):
    """`done`: it was current, and so it is now, or was already. Else what it is."""

    done: bool
    epoch: Epoch
    coordination: Coordination | None  # None: Redis does not have the group


def set_mode(expected: Epoch, mode: Coordination, note: str, reason: str) -> Call[ModeSet]:
    """Compare-and-set on the mode_epoch and the incarnation under which it was read. `note`: by
    which a dashboard knows who asked.
    """
    arguments: Arguments = [
        within("incarnation", expected.incarnation, 0, INCARNATION_MAX),
        epoch_text("mode_epoch", expected.number),
        mode.value,
        note,
        _reason(reason),
    ]
    return Call("set_mode", arguments, _mode_set)


def _mode_set(raw: Raw) -> ModeSet:
    result, incarnation, mode_epoch, mode = texts_of(raw)
    there = None if result == "no_group" else Coordination(mode)
    return ModeSet(result == "done", Epoch(int(incarnation), int(mode_epoch)), there)


def request_rebalance(reason: str, member_id: str = "") -> Call[int]:
    """Answers the group_epoch."""
    return Call("request_rebalance", [_reason(reason), member_id], number_of)


def sweep(partitions: Iterable[Partition]) -> Call[int]:
    """Of these, grants whose lock ran out end in the history. How many; SWEPT_AT_ONCE at most."""
    return Call("sweep", [str(partition) for partition in partitions], number_of)


def set_incarnation(
    incarnation: int,
    run_id: str = "",
    known: Mapping[str, int] | None = None,
    last_event: Offset = START,
) -> Call[tuple[bool, int]]:
    """Whether it was set, and the incarnation that is stored now. `run_id` of the Redis that was
    read when it was chosen: one that was started since refuses; "" = whatever runs now.

    `known`: the highest that anybody knows of LIFTED numbers; they go on above them, as ids of the
    locks' events above `last_event`.
    """
    arguments: Arguments = [within("incarnation", incarnation, 1, INCARNATION_MAX), run_id]
    arguments.append(str(last_event))
    for name in LIFTED & (known or {}).keys():
        arguments += [name, epoch_text(name, (known or {})[name])]
    return Call("set_incarnation", arguments, _incarnation_set)


def _incarnation_set(raw: Raw) -> tuple[bool, int]:
    result, stored = texts_of(raw)
    return result == "done", int(stored)


def set_target(
    view: GroupRead,
    rows: Mapping[str, TargetRow],
    record: str = "",
    *,
    left_out: Iterable[str] = (),
    raises: str = "",
) -> Call[str | None]:
    """Compare-and-set on what was read with Purpose.REBALANCE; the rows are written with
    target_epoch = the group_epoch of then. None when it is stored, else why it was refused.

    `record` waits in the group's outbox for the database; "": there is none. `left_out`: able
    members without a lock in time; when one renews, a rebalance is due. `raises`: why the
    group_epoch goes up by one with the target, to that of the view, or nothing is stored.
    """
    refuse_two_owners(rows)
    meta, group_epoch = view.meta, view.meta.group_epoch
    arguments: Arguments = [
        epoch_text("coordinator_epoch", meta.coordinator_epoch),
        epoch_text("mode_epoch", meta.mode_epoch),
        epoch_text("group_epoch", group_epoch),
        str(meta.incarnation),
        view.run_id,
        record,
        *(" ".join(sorted(left_out)), raises),
    ]
    for member_id, row in rows.items():
        if row.target_epoch != group_epoch:
            raise InvalidInput(
                f"target of {member_id} was made for epoch {row.target_epoch}, not {group_epoch}"
            )
        if row.twice:
            raise InvalidInput(f"{min(row.twice)} has two roles at {member_id}")
        stamped = replace(row, incarnation=meta.incarnation)
        arguments += [valid_name("member", member_id), wire.target_text(stamped)]
    return Call("set_target", arguments, _target_set)


def _target_set(raw: Raw) -> str | None:
    result, why = texts_of(raw)
    return None if result == "done" else why
