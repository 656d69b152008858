"""Carries out what the rules ask for: in Redis here, in the database by `records`."""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import InterfaceError, InternalError, OperationalError
from kombu.exceptions import OperationalError as BrokerAway

from assignment.coordinator import effects
from assignment.coordinator.effects import Effect, RecordsAway, Steps
from assignment.coordinator.facts import GroupRecord, ScaleDowns
from assignment.coordinator.outbox import text_of
from assignment.plausible import counted
from assignment.scripts import recovery
from assignment.scripts.dashboard_side import configure, set_incarnation, set_target
from assignment.scripts.group_read import NO_TICK, GroupRead, Purpose, Ticker
from assignment.scripts.pausing import pauses_of
from assignment.types import START, Coordination, Offset, Reason
from dashboard.celery import app
from dashboard.coordinator import mirror, outbox, plans, rebalances, records
from dashboard.coordinator.history import bring_forward
from dashboard.live import groups as live_groups
from dashboard.live import push, queue
from dashboard.live.scripts import run
from dashboard.models import Group

RAISED: dict[tuple[int, str], int] = {}  # group -> incarnation that this process set and the
# database refused to keep
NOBODY = outbox.Task()
QUERY = object()
AWAY = (OperationalError, InterfaceError, InternalError)  # it does not answer, or refuses to write
SHOWN_MAX = 3  # arguments of a script that the log tells
T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Here:
    """For which group, and by whom. `row` None: the database is away. `is_asked`: a person's
    request or plan may be open.
    """

    name: str
    row: Group | None
    by: outbox.Task = NOBODY
    ticker: Ticker = NO_TICK
    is_asked: bool = True


def carry_out(steps: Steps[T], here: Here) -> T:
    """Raises StoreUnavailable."""
    return effects.run(steps, lambda effect: perform(here, effect))


def record_of(group: Group) -> GroupRecord:
    raised = RAISED.get((group.pk, group.name), 0)
    if raised <= group.incarnation:  # kept since: a repair may lower it
        RAISED.pop((group.pk, group.name), None)
    return GroupRecord(
        name=group.name,
        settings=group.values,
        coordination=Coordination(group.coordination),
        mode=records.mode_of(group),
        identity=group.identity,
        pauses=pauses_of(group.pause_version, group.pauses),
        incarnation=max(group.incarnation, raised),
        event_seq=counted(group.last_event_seq),
    )


def _unasked(row: Group, effect: Effect[Any]) -> Any:
    """What is found where nobody asked for anything: queries that a look need not make. QUERY: that
    is not known. `row`: of before the look. A scale-down has a version before anybody is told; one
    that is begun since changes the row, so that the group does not rest.
    """
    match effect:
        case effects.ReadRequests():
            return ()
        case effects.AdvancePlans():
            return None
        case effects.ReadScaleDowns(was_told=False) if not row.scale_downs_version:
            return ScaleDowns(version=0, records=())
        case _:
            return QUERY


def _read_record(group: Group) -> GroupRecord:
    group.refresh_from_db(
        fields=["settings", "incarnation", "coordination", "pauses", "pause_version"]
    )
    return record_of(group)


def perform(here: Here, effect: Effect[Any]) -> Any:
    kind = type(effect)
    if kind in IN_REDIS:
        return IN_REDIS[kind](here, effect)
    if here.row is None:
        raise RecordsAway("the database is away")
    if not here.is_asked and (known := _unasked(here.row, effect)) is not QUERY:
        return known
    try:
        return IN_DATABASE[kind](here.row, effect)
    except AWAY as error:
        log.warning("%s not done group=%s: %s", kind.__name__, here.name, error)
        raise RecordsAway(str(error)) from error


# --- Redis ----------------------------------------------------------------------------------------


def _read(here: Here, effect: effects.Read) -> GroupRead:
    return live_groups.read(here.name, effect.purpose, here.ticker)


def _run(here: Here, effect: effects.Run[Any]) -> Any:
    call, answer = effect.call, run(effect.call, here.name)
    log.info("%s group=%s %s: %s", call.script, here.name, call.args[:SHOWN_MAX], answer)
    return answer


def _configure(here: Here, effect: effects.Configure) -> None:
    settings = effect.settings
    call = configure(
        settings,
        effect.reason,
        rebalance_due=effect.rebalance_due,
        identity=here.row.identity if here.row else "",
        over_epoch=effect.over_epoch,
        coordination=effect.coordination,
    )
    run(call, here.name)
    # Stream and readers may have been wiped with the group.
    live_groups.make_stream(settings.stream, settings.partitions, here.name)


def _raise_incarnation(here: Here, effect: effects.RaiseIncarnation) -> bool:
    value = effect.incarnation
    last_event = _last_event(here.row)
    call = set_incarnation(value, effect.run_id, _known(here, effect.known), last_event)
    done, stored = run(call, here.name)
    if done and here.row is not None and here.row.incarnation < value:
        RAISED[here.row.pk, here.name] = value
    log.info("incarnation group=%s value=%d done=%s stored=%d", here.name, value, done, stored)
    return done


def _last_event(row: Group | None) -> Offset:
    """Up to which history has the locks' events: by now, as it is kept beside."""
    if row is None:
        return START
    with suppress(*AWAY):
        bring_forward(row)
    return Offset.parse(row.events_cursor)


def _known(here: Here, known: Mapping[str, int]) -> Mapping[str, int]:
    """Numbers that Redis is to go on above; that of the events as history has it by now. One more
    when Redis lost some: the number that is left out shows the gap.
    """
    kept = counted(here.row.last_event_seq) if here.row else 0
    if kept <= known.get("event_seq", 0):
        return known
    lost = kept > live_groups.read(here.name, Purpose.LOOK).meta.event_seq
    return {**known, "event_seq": kept + lost}


def _set_target(here: Here, effect: effects.SetTarget) -> str | None:
    record, change = effect.record, effect.record.change
    text = outbox.sealed(text_of(record, here.by.ended()), effect.view.meta)
    raises = Reason.MANUAL if effect.raises else ""
    call = set_target(effect.view, record.rows, text, left_out=effect.left_out, raises=raises)
    refused = run(call, here.name)
    if refused is None:
        log.info(
            "rebalance group=%s epoch=%d cause=%s moved=%d kept=%d members=%d",
            here.name, effect.view.meta.group_epoch, record.cause,
            change.movement.moves, change.movement.kept, len(change.loads),
        )  # fmt: skip
    return refused


def want_rebalance(group_name: str) -> bool:
    """Whether a task was published for it: at most one per group at a time. Raises
    StoreUnavailable.
    """
    if not queue.want(group_name):
        return False
    later = {"countdown": pause_s} if (pause_s := queue.pause_s(group_name)) else {}
    if _publish("rebalance", group_name, int(time.time() * 1e3), **later):
        return True
    queue.unpublish(group_name)
    return False


def want_history(awaited: Mapping[str, bool]) -> bool:
    """Whether a task was published for these groups, or those that wait already: at most one at a
    time. Group -> whether somebody awaits it. Raises StoreUnavailable.
    """
    if not queue.want_history(awaited):
        return False
    if _publish("keep_history"):
        return True
    queue.unpublish_history()
    return False


def _publish(task: str, *arguments: str | int, **options: float) -> bool:
    try:
        app.send_task(f"dashboard.{task}", arguments, **options)
    except (BrokerAway, OSError) as error:
        log.warning("%s of %s not published: %s", task, arguments or "all", error)
        return False
    return True


def _want_history(group: Group, effect: effects.WantHistory) -> bool:
    if not live_groups.has_events_after(group.name, group.events_cursor):
        return True
    read_cursor = group.events_cursor
    bring_forward(group)
    is_same = group.events_cursor == read_cursor
    if not (is_same or live_groups.has_events_after(group.name, group.events_cursor)):
        return True
    is_whole = group.last_event_seq >= effect.event_seq
    want_history({group.name: effect.awaited and not is_whole})
    return is_whole


IN_REDIS: Mapping[type[Effect[Any]], Callable[[Here, Any], Any]] = {
    effects.Read: _read,
    effects.ReadSettings: lambda here, effect: live_groups.stored_settings(here.name),
    effects.ReadHints: lambda here, effect: tuple(live_groups.hints(here.name)),
    effects.ReadNow: lambda here, effect: live_groups.redis_now_ms(here.name),
    effects.Run: _run,
    effects.Configure: _configure,
    effects.Hold: lambda here, effect: run(recovery.hold(effect.lease_ms), here.name),
    effects.ReadHeld: lambda here, effect: run(recovery.hold(), here.name),
    effects.LiftStreams: lambda here, effect: live_groups.lift_streams(
        effect.offsets, effect.restored
    ),
    effects.RaiseIncarnation: _raise_incarnation,
    effects.WantRebalance: lambda here, effect: want_rebalance(here.name),
    effects.SetTarget: _set_target,
    effects.Push: lambda here, effect: push.push(here.name, effect.what),
}
IN_DATABASE: Mapping[type[Effect[Any]], Callable[[Group, Any], Any]] = {
    effects.ReadRecord: lambda group, effect: _read_record(group),
    effects.KeepOutbox: lambda group, effect: outbox.keep(group),
    effects.WantHistory: _want_history,
    effects.KeepIncarnation: records.keep_incarnation,
    effects.KeepMode: records.keep_mode,
    effects.KeepLoss: records.keep_loss,
    effects.KeepFaults: records.keep_faults,
    effects.ReadMirror: mirror.read,
    effects.ReadStays: records.read_stays,
    effects.KeepStays: records.keep_stays,
    effects.KeepForced: records.keep_forced,
    effects.ReadScaleDowns: records.read_scale_downs,
    effects.KeepScaleDowns: records.keep_scale_downs,
    effects.ReadRequests: records.read_requests,
    effects.RefuseRequest: records.refuse_request,
    effects.KeepRefusal: records.keep_refusal,
    effects.TakeRequest: plans.take_request,
    effects.AdvancePlans: plans.advance,
    effects.ReadRound: rebalances.read_round,
    effects.ReadTenures: rebalances.read_tenures,
    effects.ReadOpen: rebalances.read_open,
    effects.Complete: rebalances.complete,
    effects.ReadFinished: rebalances.read_finished,
    effects.KeepFirstEffect: rebalances.keep_first_effect,
}
