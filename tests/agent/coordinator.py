"""What a dashboard answers to agents, by the real scripts: for tests without one."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from agent.dashboard_session.requests import Refusal, Request
from assignment.scripts import dashboard_side, group_read, heartbeat, values
from assignment.scripts.dashboard_side import JoinResult
from assignment.types import GroupSettings
from assignment.wire import Heartbeat, Join, Leave, Reply, Status

Run = Callable[[values.Call[Any]], Any]


def answer_to(run: Run, settings: GroupSettings, message: Request) -> Reply | None:
    """None: it cannot answer now. `run` runs a script of the group. Raises Refusal."""
    match message:
        case Join():
            return _joined(run, settings, message)
        case Heartbeat():
            return _reported(run, settings, message)
        case Leave(member=member, secret=secret):
            run(dashboard_side.leave(member, secret, stops=message.stops))
            return Reply(status=Status.OK)


def _joined(run: Run, settings: GroupSettings, join: Join) -> Reply | None:
    names = ("host", "incarnation", "instance")
    row = {name: getattr(join, name) for name in names}
    answer = run(dashboard_side.join(join.member, join.secret, row, join.seen))
    if answer.result is JoinResult.WAIT:
        return dashboard_side.wait_reply(answer)
    if answer.result is JoinResult.IN_USE:
        raise Refusal(409, dashboard_side.in_use(join.member, answer))
    if answer.result is not JoinResult.OK:
        return None
    meta = run(group_read.read_group(group_read.Purpose.LOOK)).meta
    return Reply(
        status=Status.OK,
        settings=settings,
        incarnation=meta.incarnation,
        settings_epoch=meta.settings_epoch,
        group_epoch=meta.group_epoch,
        want_complete=True,
    )


def _reported(run: Run, settings: GroupSettings, beat: Heartbeat) -> Reply:
    reply = run(heartbeat.report(beat)).reply
    target = msgspec.json.decode(reply.target) if reply.target is not None else None
    told = beat.incarnation, beat.settings_epoch
    changed = (reply.incarnation, reply.settings_epoch) != told
    return replace(reply, target=target, settings=settings if changed else None)
