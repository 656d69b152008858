"""Bugs to be planted into what holds when Redis forgets, when its clock lies, when a step stands
still, and when a member misbehaves; see planting.py.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agent.state import restore
from assignment.coordinator import effects, planning, reading, setting_up, stays, trimming
from assignment.coordinator.effects import RecordsAway
from assignment.types import Epoch
from tests.fakes.script_bugs import plant
from tests.simulation import coordinator
from tests.simulation.coordinator import SimCoordinator

Patch = pytest.MonkeyPatch
SOON_LATE_MS = 500  # below the pause between two ticks


def epochs_are_compared_without_incarnation(patch: Patch) -> None:
    patch.setattr(Epoch, "__lt__", lambda one, other: one.number < other.number)
    patch.setattr(Epoch, "__le__", lambda one, other: one.number <= other.number)
    patch.setattr(Epoch, "__gt__", lambda one, other: one.number > other.number)


def incarnation_is_set_and_not_raised(patch: Patch) -> None:
    """After lost writes it is the same again, so that fences are given twice."""
    needs = setting_up.needs_incarnation

    def same(*known: Any) -> Any:
        wanted = needs(*known)
        return wanted and replace(wanted, incarnation=max(1, wanted.incarnation - 1))

    patch.setattr(setting_up, "needs_incarnation", same)
    plant(patch, "set_incarnation", ("tonumber(ARGV[1]) <= stored", "tonumber(ARGV[1]) < stored"))


def asked_is_renewed_at_each_join(patch: Patch) -> None:
    """And the wait has no bound over the group."""
    waiting_for = reading.waiting_for
    line = "redis.call('HSETNX', key('asked'), member, text(now)) --"
    plant(patch, "join", (line, line.replace("HSETNX", "HSET")))

    def without_bound(view: Any) -> Any:
        return waiting_for(replace(view, meta=replace(view.meta, due_since_ms=0)))

    patch.setattr(planning, "waiting_for", without_bound)


def a_late_tick_moves_the_quiet_on(patch: Patch) -> None:
    patch.setattr(reading, "TICKER_AWAY_MS", SOON_LATE_MS)


def the_record_comes_before_the_target(patch: Patch) -> None:
    set_target = SimCoordinator._set_target

    def recorded_first(self: SimCoordinator, *asked: Any) -> Any:
        if self.world.database.refuses:
            raise RecordsAway("the record was not taken")
        return set_target(self, *asked)

    patch.setitem(coordinator.IN_REDIS, effects.SetTarget, recorded_first)  # type: ignore[arg-type]


def ids_of_streams_are_not_lifted(patch: Patch) -> None:
    plant(patch, "lift", ("if lifts then redis.call('XSETID', stream, id) end", ""))


def a_tick_from_before_marks_a_member_lost(patch: Patch) -> None:
    patch.setattr(stays, "is_from_before", lambda view, at_ms: False)


def a_pair_that_cannot_be_served_is_given_again(patch: Patch) -> None:
    patch.setattr(planning, "exchanged", lambda assigned, members, **how: assigned)


def events_are_trimmed_by_the_readers_that_redis_knows(patch: Patch) -> None:
    """Its set of groups alone, without those that only the database knows."""
    patch.setattr(trimming, "readers", lambda known, in_redis: sorted(in_redis))


def events_are_trimmed_by_what_was_read_of_another_history(patch: Patch) -> None:
    plant(patch, "trim", ("replication_id() ~= ARGV[2]", "false"))


def a_replica_of_another_history_is_believed(patch: Patch) -> None:
    """An equal offset under an equal fence may be another commit's, of which the id tells."""

    def known(store: Any, state: Any, partition: Any, entries: Any) -> bool:
        one = [e for e in entries if (e.to_offset, e.fence) == (state.offset, state.fence)]
        as_if = replace(state, changelog_id=one[0].entry_id) if one else state
        return shares_history(store, as_if, partition, entries)

    shares_history = restore._shares_history
    patch.setattr(restore, "_shares_history", known)


LOSSES = (
    "redis_loses_writes",
    "redis_loses_grants",
    "redis_fails_over",
    "redis_fails_over_under_its_old_run",
    "redis_wiped",
)
# As in planting.Planted.
PLANTED: dict[Callable[[Patch], None], tuple[tuple[str, ...], str]] = {
    epochs_are_compared_without_incarnation: (LOSSES, "runs set() of"),
    incarnation_is_set_and_not_raised: (LOSSES, "was granted under before"),
    asked_is_renewed_at_each_join: (("dies_at_each_join",), "has no target"),
    a_late_tick_moves_the_quiet_on: ((), "are members and gone"),
    the_record_comes_before_the_target: (("database_refuses",), "has no target"),
    ids_of_streams_are_not_lifted: (
        ("redis_clock_is_set", "redis_clock_jumps"),
        "was appended below",
    ),
    a_tick_from_before_marks_a_member_lost: (
        ("steps_are_suspended", "coordinator_pauses", "database_slow"),
        "is noted as gone",
    ),
    events_are_trimmed_by_the_readers_that_redis_knows: (LOSSES, "which second has not read"),
    events_are_trimmed_by_what_was_read_of_another_history: (LOSSES, "were trimmed, which"),
    a_replica_of_another_history_is_believed: (("lost_events_come_again",), " has ("),
    a_pair_that_cannot_be_served_is_given_again: (("restores_fail",), "what it cannot serve"),
}
