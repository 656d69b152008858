"""Gives Redis what the database has of a group: settings, an incarnation, what a wipe took."""

from contextlib import suppress
from dataclasses import replace

from assignment.coordinator import effects
from assignment.coordinator.facts import GroupRecord, Mirror
from assignment.coordinator.incarnation import is_believed, is_step, needs_incarnation
from assignment.coordinator.reading import came_back_lately
from assignment.errors import Damaged
from assignment.scripts.agent_side import SnapshotRecord
from assignment.scripts.dashboard_side import configure, set_mode
from assignment.scripts.group_read import TICKER_AWAY_MS, GroupRead, Meta
from assignment.scripts.pausing import set_pauses
from assignment.scripts.recovery import restore, resume
from assignment.settings import SETTINGS
from assignment.types import (
    INCARNATION_STEP,
    NO_EPOCH,
    START,
    Coordination,
    GroupSettings,
    Partition,
    Reason,
)

# What a rebalance is called that a change of settings causes. Of several the first one counts.
DECIDING = tuple(r for r in Reason if r in {one.cause for one in SETTINGS.values()})


def tell(record: GroupRecord) -> effects.Steps[bool]:
    """Whether Redis had to be told: it held other settings, or none.

    Redis is read before the database and compared again by the script: whoever stood still in
    between cannot put older settings over newer ones, nor begin a group anew that was there.
    """
    if record.settings is None:
        return False
    stored, epoch = yield from effects.ReadSettings()
    if stored == record.settings:
        return False
    record = yield from effects.ReadRecord()
    settings = record.settings
    if settings is None or stored == settings:
        return False
    if stored is None and record.incarnation > 0:
        yield from _put_back(record, settings, epoch)
        return True
    why = _decides(stored, settings) if stored else None
    yield from effects.Configure(
        settings,
        epoch,
        why or Reason.SETTINGS,
        rebalance_due=why is not None,
        coordination=record.coordination,
    )
    return True


def _decides(before: GroupSettings, after: GroupSettings) -> Reason | None:
    """The cause of the rebalance that the change makes due; None when no plan depends on it."""
    was, now = before.values(), after.values()
    found = {one.cause for name, one in SETTINGS.items() if was[name] != now[name]}
    return next((cause for cause in DECIDING if cause in found), None)


def _put_back(record: GroupRecord, settings: GroupSettings, epoch: int) -> effects.Steps[None]:
    """Redis was wiped (coordination.md section 6): after a lease, grants under a new incarnation.

    Each partition starts from its last snapshot: its offset is the snapshot's.
    """
    yield from effects.Hold(settings.lease_ms)
    mirror = yield from effects.ReadMirror()
    yield from effects.Run(resume(mirror.target_epoch, mirror.event_seq, mirror.target))
    offsets = {partition: record.offset for partition, record in mirror.snapshots.items()}
    lifted = yield from effects.LiftStreams(mirror.offsets, offsets)
    restored = yield from effects.Run(restore(record.incarnation + 1, mirror.snapshots))
    moved = mirror.snapshots if restored else {}
    yield from effects.KeepLoss(wiped=True, offsets={}, applied={}, moved=moved, lifted=lifted)
    yield from effects.Configure(
        settings, epoch, Reason.WIPED, rebalance_due=False, coordination=record.coordination
    )


def put_right(record: GroupRecord, meta: Meta) -> effects.Steps[None]:
    """What agents that made the group anew after a wipe cannot know, and a Redis that came from a
    backup may not: whose it is, what is paused, and that it was switched. Before the incarnation
    is raised: then what Redis has is the newer, and nothing was granted that could be planned.
    """
    if meta.settings is not None and record.pauses.version > meta.pause_version:
        yield from effects.Run(set_pauses(record.pauses, None))
    if meta.settings is not None and record.identity and not meta.identity:
        call = configure(
            meta.settings,
            Reason.SETTINGS,
            rebalance_due=False,
            identity=record.identity,
            over_epoch=meta.settings_epoch,
            claims=True,
        )
        yield from effects.Run(call)
    is_kept = NO_EPOCH < record.mode >= meta.mode
    if is_kept and meta.coordination is not record.coordination:
        why = f"put back: Redis forgot that it was switched to {record.coordination}"
        yield from effects.Run(set_mode(meta.mode, record.coordination, "", why))


def may_raise(record: GroupRecord, view: GroupRead, by: Coordination) -> bool:
    """Two memories must not choose the same incarnation for two Redis that forgot: the database's
    chooses while a dashboard ticks. When agents may have chosen meanwhile, their word is awaited.
    """
    meta = view.meta
    if by is Coordination.CLIENT:
        return not meta.identity or view.now_ms - meta.served_ms > TICKER_AWAY_MS
    agents_may = Coordination.CLIENT in (record.coordination, meta.coordination)
    return not (agents_may and came_back_lately(view))


def raise_incarnation(record: GroupRecord, view: GroupRead) -> effects.Steps[None]:
    """Before a Redis that may have lost writes grants anything.

    The database has it first; while that is away Redis has it alone, until the next tick that finds
    both. So it also hears of one that others raised, or that it forgot.
    """
    if record.settings is not None and not is_step(view.meta.incarnation, record.incarnation):
        found = f"incarnation {view.meta.incarnation} of Redis is no step of the database's"
        raise Damaged(f"{found} {record.incarnation}: see repair")
    wanted = needs_incarnation(view, record)
    if wanted is not None and (yield from effects.ReadHeld()):
        wanted = None
    known = wanted.incarnation if wanted else view.meta.incarnation
    is_new = True
    with suppress(effects.RecordsAway):  # the next tick keeps it
        is_new = yield from effects.KeepIncarnation(known)
    if wanted is None or not is_new:  # the record is from before another process chose this one
        return
    loss = None
    with suppress(effects.RecordsAway):  # it goes on from what it has
        mirror = yield from effects.ReadMirror()
        newer = newer_snapshots(view, mirror, record.incarnation)
        seen = max((s.fence // INCARNATION_STEP for s in newer.values()), default=0)
        highest = max(record.incarnation, seen)
        database = replace(record, target_epoch=mirror.target_epoch, incarnation=highest)
        wanted = needs_incarnation(view, database) or wanted
        if wanted.incarnation > known:
            with suppress(effects.RecordsAway):
                is_new = yield from effects.KeepIncarnation(wanted.incarnation)
            if not is_new:
                return
        lifted = yield from effects.LiftStreams(mirror.offsets, {})
        moved = bool(newer) and (yield from effects.Run(restore(wanted.incarnation, newer)))
        loss = effects.KeepLoss(
            wiped=False,
            offsets=view.offsets,
            applied=view.applied,
            moved=newer if moved else {},
            lifted=lifted,
        )
    done = yield from effects.RaiseIncarnation(wanted.incarnation, view.run_id, wanted.known)
    if done and loss and wanted.has_lost:
        with suppress(effects.RecordsAway):
            yield from loss


def newer_snapshots(
    view: GroupRead, mirror: Mirror, incarnation: int
) -> dict[Partition, SnapshotRecord]:
    """What a Redis that came from a backup is moved forward to, before it grants anything.

    Never to a snapshot of a history before its own, nor to a mere offset: that would skip events. A
    group without state has a sink, which says where to go on, or is given some events again. Nor
    to one of an incarnation that nobody can have seen; `incarnation`: the database's. Nor to one
    of a fence below the last that this Redis granted: it has all of that one's commits, so that
    only a person can have set the offset below them.
    """
    known, grants = max(incarnation, view.meta.incarnation), view.grants
    return {
        partition: snapshot
        for partition, snapshot in mirror.snapshots.items()
        if partition not in mirror.broken
        and snapshot.offset > view.offsets.get(partition, START)
        and (partition not in grants or grants[partition].fence <= snapshot.fence)
        and is_believed(snapshot.fence // INCARNATION_STEP, known)
        and all(snapshot.rank > own.rank for own in view.snapshots.get(partition, ()))
    }
