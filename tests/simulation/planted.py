"""Bugs to be planted; see planting.py."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from agent import membership
from agent.membership import Membership
from agent.replicas import core
from agent.state import restore
from agent.state.partition import Applied
from assignment.coordinator import (
    draining,
    effects,
    learners,
    planning,
    reading,
    rebalance,
    resting,
    setting_up,
    stays,
    trimming,
)
from assignment.member import decisions, transitions
from assignment.member.messages import Effect, Release, RestoreEnded
from assignment.member.state import Holding, MemberState
from assignment.planner import handover, ownership, standbys
from assignment.planner.values import Learner, MemberView
from assignment.scripts.group_read import GroupRead, MemberRow
from assignment.types import Claim, Drain, Epoch, HeldState, Partition
from assignment.wire import ChangelogEntry
from tests.fakes import script_bugs
from tests.fakes.script_bugs import plant
from tests.simulation import coordinator
from tests.simulation.agents import SimAgent
from tests.simulation.consumer import SimConsumer
from tests.simulation.coordinator import SimCoordinator
from tests.simulation.instance_faults import INSTANCE_FAULTS
from tests.simulation.planting import Patch, instead_of, planted
from tests.simulation.replicas import DiskState

NEVER_MS = 10**9
SOON_LATE_MS = 500  # below the pause between two ticks
LOSSES = (
    "redis_loses_writes", "redis_loses_grants", "redis_fails_over",
    "redis_fails_over_under_its_old_run", "redis_wiped",
)  # fmt: skip

# --- locks, batches, members ----------------------------------------------------------------------

planted(": commit under ", "redis_clock_is_set")(script_bugs.commit_without_fence_check)
planted(" is not (1")(script_bugs.commit_without_offset_check)
planted(": no event ")(script_bugs.commit_of_what_another_server_had)
planted(" for two processes")(script_bugs.acquire_with_fence_reused)
planted(" runs set() of ")(script_bugs.acquire_gives_a_stale_own_lock_back)
planted(" is not above ")(script_bugs.acquire_under_any_run)
planted("last granted is 0")(script_bugs.release_that_resets_the_counter)
planted(": renewed by ")(script_bugs.renew_that_takes_back)
planted("by its own join")(script_bugs.join_taken_as_new)
planted("after a sign of life")(script_bugs.evict_without_beat_check)
planted(" taken over ", *INSTANCE_FAULTS)(script_bugs.join_takes_over_a_live_process)
planted(" taken over ", *INSTANCE_FAULTS)(script_bugs.join_compares_no_beat)
planted(" for two processes", *INSTANCE_FAULTS)(
    script_bugs.join_leaves_the_locks_of_the_process_before
)
planted(" for two processes", *INSTANCE_FAULTS)(script_bugs.whoever_names_a_member_speaks_for_it)
planted(" by coordinator ")(script_bugs.set_target_without_epochs)


@instead_of(stays, "is_expected", " evicted ", *INSTANCE_FAULTS)
def nobody_is_awaited(*asked: Any) -> bool:
    return False


@instead_of(stays, "is_expected", " evicted ", *LOSSES, rare=(298,))
def nobody_is_awaited_who_stopped_before_a_loss(
    expected: Any, view: GroupRead, row: MemberRow
) -> bool:
    meta = view.meta
    stopped_before = meta.incarnation > 1 and row.away_since_ms < meta.incarnation_at_ms
    return not stopped_before and bool(expected(view, row))


@instead_of(decisions, "_revoke", "with a batch in hand")
def release_before_the_batch_ended(
    revoke: Any, member: MemberState, claim: Claim, holding: Holding, now_ms: int
) -> list[Effect]:
    if holding.state is HeldState.RUNNING:
        return [Release(claim=claim, expected=holding.state, reason="revoked")]
    return list(revoke(member, claim, holding, now_ms))


@planted("the effects of other events")
def progress_read_before_the_claim(patch: Patch) -> None:
    """A replica is brought up when its partition is asked for first, and trusted when it is
    granted, however long that took.
    """
    acquire, order = Membership._acquire, SimAgent.order
    early: set[tuple[str, Partition]] = set()

    def acquire_after(self: Any, partitions: Sequence[Partition], reason: str) -> None:
        for partition in partitions:
            first = (self.member_id, partition) not in early
            if first and isinstance(self.replicas, SimAgent):
                early.add((self.member_id, partition))
                bring_up(self.replicas, Claim(partition, 0))
        acquire(self, partitions, reason)

    def order_nothing(self: SimAgent, claim: Claim) -> None:
        early.discard((self.member_id, claim.partition))
        order(self, claim)

    bring_up = SimAgent.bring_up
    patch.setattr(Membership, "_acquire", acquire_after)
    patch.setattr(SimAgent, "order", order_nothing)
    patch.setattr(SimAgent, "bring_up", lambda self, claim: RestoreEnded(claim))
    patch.setattr(SimConsumer, "_stands_at", lambda self, partition, offset: True)


@planted("held = target")
def refused_and_never_asked_again(patch: Patch) -> None:
    """Who has to wait for another's lock waits for ever."""
    patch.setattr(membership, "ACQUIRE_RETRY_MS", (NEVER_MS, NEVER_MS))
    patch.setattr(transitions, "_asking_at_once", lambda member, now_ms: member)


@instead_of(reading, "claims", " suffice")
def coordinator_that_forgets_locks(claims: Any, view: Any, unable: Any, **how: bool) -> Any:
    """It plans from reports alone: who was granted something since is not known to have it."""
    return claims(replace(view, locks={}), unable, **how)


# --- what holds when Redis forgets, its clock lies, a step stands still, a member misbehaves ------


@planted("runs set() of", *LOSSES)
def epochs_are_compared_without_incarnation(patch: Patch) -> None:
    patch.setattr(Epoch, "__lt__", lambda one, other: one.number < other.number)
    patch.setattr(Epoch, "__le__", lambda one, other: one.number <= other.number)
    patch.setattr(Epoch, "__gt__", lambda one, other: one.number > other.number)


@planted("was granted under before", *LOSSES)
def incarnation_is_set_and_not_raised(patch: Patch) -> None:
    """After lost writes it is the same again, so that fences are given twice."""
    needs = setting_up.needs_incarnation

    def same(*known: Any) -> Any:
        wanted = needs(*known)
        return wanted and replace(wanted, incarnation=max(1, wanted.incarnation - 1))

    patch.setattr(setting_up, "needs_incarnation", same)
    plant(patch, "set_incarnation", ("tonumber(ARGV[1]) <= stored", "tonumber(ARGV[1]) < stored"))


@planted("has no target", "dies_at_each_join")
def asked_is_renewed_at_each_join(patch: Patch) -> None:
    """And the wait has no bound over the group."""
    waiting_for = reading.waiting_for
    line = "redis.call('HSETNX', key('asked'), member, text(now)) --"
    plant(patch, "join", (line, line.replace("HSETNX", "HSET")))

    def without_bound(view: Any) -> Any:
        return waiting_for(replace(view, meta=replace(view.meta, due_since_ms=0)))

    patch.setattr(reading, "waiting_for", without_bound)


@planted("are members and gone")
def a_late_tick_moves_the_quiet_on(patch: Patch) -> None:
    patch.setattr(reading, "TICKER_AWAY_MS", SOON_LATE_MS)


@instead_of(resting, "may_rest_on", "are members and gone")
def a_group_rests_whoever_is_silent(
    may_rest_on: Any, rest: resting.Rest, seen: resting.Glance, away: Any
) -> bool:
    """Only what somebody did ends its rest, and no moment that comes."""
    return bool(may_rest_on(replace(rest, patience_ms=0), seen._replace(next_end_ms=None), away))


@planted("has no target", "database_refuses")
def the_record_comes_before_the_target(patch: Patch) -> None:
    set_target = SimCoordinator._set_target

    def recorded_first(self: SimCoordinator, *asked: Any) -> Any:
        if self.world.database.refuses:
            raise effects.RecordsAway("the record was not taken")
        return set_target(self, *asked)

    patch.setitem(coordinator.IN_REDIS, effects.SetTarget, recorded_first)  # type: ignore[arg-type]


@planted("was appended below", "redis_clock_is_set", "redis_clock_jumps", rare=(3565, 5265))
def ids_of_streams_are_not_lifted(patch: Patch) -> None:
    plant(patch, "lift", ("if lifts then redis.call('XSETID', stream, id) end", ""))


@planted("is noted as gone", "steps_are_suspended", "coordinator_pauses", "database_slow")
def a_tick_from_before_marks_a_member_lost(patch: Patch) -> None:
    patch.setattr(stays, "is_from_before", lambda view, at_ms: False)


@planted("which second has not read", *LOSSES)
def events_are_trimmed_by_the_readers_that_redis_knows(patch: Patch) -> None:
    """Its set of groups alone, without those that only the database knows."""
    patch.setattr(trimming, "readers", lambda known, in_redis: sorted(in_redis))


@planted("were trimmed, which", *LOSSES)
def events_are_trimmed_by_what_was_read_of_another_history(patch: Patch) -> None:
    plant(patch, "trim", ("replication_id() ~= ARGV[2]", "false"))


@instead_of(restore, "_shares_history", " has (", "lost_events_come_again", rare=(437,))
def a_replica_of_another_history_is_believed(
    shares_history: Any, store: Any, state: Any, partition: Any, entries: Any
) -> Any:
    """An equal offset under an equal fence may be another commit's, of which the id tells."""
    one = [e for e in entries if (e.to_offset, e.fence) == (state.offset, state.fence)]
    as_if = replace(state, changelog_id=one[0].entry_id) if one else state
    return shares_history(store, as_if, partition, entries)


@instead_of(restore, "_shares_history", " has (", "lost_events_come_again", rare=(653,))
def an_equal_offset_is_believed(
    shares_history: Any, store: Any, state: Any, partition: Partition, entries: Any
) -> Any:
    """Under whatever fence: on the disk of one that does not own the partition any more."""
    reached = any(e.to_offset == state.offset for e in entries)
    return reached or shares_history(store, state, partition, entries)


@planted("what it cannot serve", "restores_fail", rare=(300,))
def a_pair_that_cannot_be_served_is_given_again(patch: Patch) -> None:
    patch.setattr(planning, "exchanged", lambda assigned, members, **how: assigned)


# --- the planner, replicas, learners, scale-downs -------------------------------------------------

of_replicas, in_replicas = (partial(note, stateful=True) for note in (planted, instead_of))


@in_replicas(DiskState, "apply", " has (")
def a_replica_skips_a_gap(_: Any, self: DiskState, entry: ChangelogEntry) -> Applied:
    if entry.to_offset <= self.offset:
        return Applied.SKIPPED
    self.take(entry.to_offset, entry.changes, entry.entry_id, entry.fence)
    return Applied.APPLIED


@in_replicas(restore, "tail_steps", " starts from ")
def the_end_of_the_changelog_is_taken_for_the_committed_offset(
    tail_steps: Any, store: Any, state: Any, partition: Partition
) -> Any:
    """What was trimmed away is not missed."""
    reached = yield from tail_steps(store, state, partition)
    return reached or state.offset


@in_replicas(core, "ready_learners", " ready at ")
def every_learner_is_called_ready(
    _: Any, caught_up: Mapping[Partition, bool], called: Any, *, eager: bool
) -> frozenset[Partition]:
    return frozenset(caught_up)


@in_replicas(decisions, "departs_because", " departs and owns ")
def departs_while_it_owns(_: Any, member: MemberState) -> str:
    told = member.drain is not Drain.NONE and not member.leaving
    return "scale-down" if told else ""


@in_replicas(decisions, "departs_because", " have not left")
def never_departs(_: Any, member: MemberState) -> str:
    return ""


@in_replicas(draining, "set_drain", " still leave, by no scale-down")
def cancelled_and_nobody_told(
    set_drain: Any, drain: Drain, members: Sequence[str], version: int
) -> Any:
    return set_drain(drain, members if drain is not Drain.NONE else (), version)


of_replicas(" learn on", "scale_down_aborted_at_learning")(
    script_bugs.an_abort_leaves_learners_in_the_target
)
of_replicas(" knows nothing of the end ", "scale_down_aborted_at_planning")(
    script_bugs.a_target_from_before_an_abort_is_stored
)
of_replicas(" anew and counts as ready")(script_bugs.set_target_keeps_every_ready_learner)


@in_replicas(planning, "view_of", "who is not ready")
def moved_without_a_learner(view_of: Any, view: Any, unable: Any) -> Any:
    """A stateful group is planned as one without state."""
    return replace(view_of(view, unable), stateful=False)


@in_replicas(learners, "Learner", "who is not ready")
def any_learner_is_ready(_: Any, lag: int | None, ready: bool) -> Learner:
    return Learner(lag, True)


@of_replicas(" have not left", rare=(429,))
def leaving_members_are_given_more(patch: Patch) -> None:
    patch.setattr(MemberView, "stays", property(lambda self: self.able))


@of_replicas("assert (partition in owner) ==")
def a_dead_owners_partition_waits(patch: Patch) -> None:
    """For a learner that is ready, which never comes."""
    candidates = ownership._candidates

    def only_the_living(given: Any, partition: int) -> Sequence[int]:
        return candidates(given, partition) if given.claims[partition] else ()

    patch.setattr(ownership, "_candidates", only_the_living)
    patch.setattr(ownership, "deal", lambda *given: {})


@in_replicas(handover.Exchange, "__init__", "assert assignment.balanced")
def one_more_than_even(made: Any, self: Any, *given: Any) -> None:
    """Whoever has one partition too many keeps it."""
    made(self, *given)
    self.spare = [max(0, n - 1) for n in self.spare]


@in_replicas(standbys, "placed", "*kinds)) == sum(")
def standby_beside_its_owner(
    placed: Any, given: Any, owner: Sequence[int], learner: Mapping[int, int], wanted: int
) -> Any:
    """The member with the partition keeps a standby of it, too."""
    found = placed(given, owner, learner, wanted)
    chosen = {p: (owner[p], *m[1:]) if m else m for p, m in found.members.items()}
    return replace(found, members=chosen)


@of_replicas("held = target")
def one_coordinator_remembers(patch: Patch) -> None:
    """The first answer for the same members is given again, whatever they report."""
    known: dict[Any, Any] = {}
    planned = rebalance.next_target

    def remembered(view: Any, *how: Any) -> Any:
        due = planned(view, *how)
        if not isinstance(due, planning.Target) or not view.meta.settings.stateful:
            return due
        facts = [
            (m, r.joined_at_ms, r.able, r.leaving, r.drain) for m, r in sorted(view.members.items())
        ]
        rows = known.setdefault((tuple(facts), str(view.meta.settings)), due.rows)
        epoch = view.meta.group_epoch
        return replace(due, rows={m: replace(r, target_epoch=epoch) for m, r in rows.items()})

    patch.setattr(rebalance, "next_target", remembered)
