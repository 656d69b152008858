"""Bugs to be planted into what holds when Redis forgets, when its clock lies, when a step stands
still, and when a member misbehaves; see planting.py.
"""

from dataclasses import replace
from typing import Any

from agent.state import restore
from assignment.coordinator import effects, planning, reading, setting_up, stays, trimming
from assignment.coordinator.effects import RecordsAway
from assignment.types import Epoch
from tests.fakes.script_bugs import plant
from tests.simulation import coordinator
from tests.simulation.coordinator import SimCoordinator
from tests.simulation.planting import Patch, instead_of, planted

SOON_LATE_MS = 500  # below the pause between two ticks
LOSSES = (
    "redis_loses_writes",
    "redis_loses_grants",
    "redis_fails_over",
    "redis_fails_over_under_its_old_run",
    "redis_wiped",
)


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

    patch.setattr(planning, "waiting_for", without_bound)


@planted("are members and gone")
def a_late_tick_moves_the_quiet_on(patch: Patch) -> None:
    patch.setattr(reading, "TICKER_AWAY_MS", SOON_LATE_MS)


@planted("has no target", "database_refuses")
def the_record_comes_before_the_target(patch: Patch) -> None:
    set_target = SimCoordinator._set_target

    def recorded_first(self: SimCoordinator, *asked: Any) -> Any:
        if self.world.database.refuses:
            raise RecordsAway("the record was not taken")
        return set_target(self, *asked)

    patch.setitem(coordinator.IN_REDIS, effects.SetTarget, recorded_first)  # type: ignore[arg-type]


@planted("was appended below", "redis_clock_is_set", "redis_clock_jumps")
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


@instead_of(restore, "_shares_history", " has (", "lost_events_come_again")
def a_replica_of_another_history_is_believed(
    shares_history: Any, store: Any, state: Any, partition: Any, entries: Any
) -> Any:
    """An equal offset under an equal fence may be another commit's, of which the id tells."""
    one = [e for e in entries if (e.to_offset, e.fence) == (state.offset, state.fence)]
    as_if = replace(state, changelog_id=one[0].entry_id) if one else state
    return shares_history(store, as_if, partition, entries)


@planted("what it cannot serve", "restores_fail")
def a_pair_that_cannot_be_served_is_given_again(patch: Patch) -> None:
    patch.setattr(planning, "exchanged", lambda assigned, members, **how: assigned)
