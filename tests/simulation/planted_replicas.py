"""Bugs to be planted into the planner, replicas, learners and scale-downs; see planting.py."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import pytest

from agent.replicas import core as real_core
from agent.state.partition import Applied
from assignment.coordinator import draining, rebalance
from assignment.coordinator import learners as reading
from assignment.coordinator.planning import Target
from assignment.member import decisions
from assignment.member.state import MemberState
from assignment.planner import handover, ownership, standbys
from assignment.planner.values import Learner, MemberView
from assignment.types import Drain, Partition
from assignment.wire import ChangelogEntry
from tests.fakes import script_bugs
from tests.simulation import replicas
from tests.simulation.replicas import DiskState

Patch = pytest.MonkeyPatch


def a_replica_skips_a_gap(patch: Patch) -> None:
    def apply(self: DiskState, entry: ChangelogEntry) -> Applied:
        if entry.to_offset <= self.offset:
            return Applied.SKIPPED
        self.take(entry.to_offset, entry.changes, entry.entry_id, entry.fence)
        return Applied.APPLIED

    patch.setattr(DiskState, "apply", apply)


def the_end_of_the_changelog_is_taken_for_the_committed_offset(patch: Patch) -> None:
    """What was trimmed away is not missed."""

    def careless(store: Any, state: Any, partition: Partition) -> Any:
        reached = yield from tail_steps(store, state, partition)
        return reached or state.offset

    tail_steps = replicas.tail_steps
    patch.setattr(replicas, "tail_steps", careless)


def every_learner_is_called_ready(patch: Patch) -> None:
    def called(
        caught_up: Mapping[Partition, bool], called: Set[Partition], *, eager: bool
    ) -> frozenset[Partition]:
        return frozenset(caught_up)

    patch.setattr(real_core, "ready_learners", called)


def departs_while_it_owns(patch: Patch) -> None:
    def hasty(member: MemberState) -> str:
        told = member.drain is not Drain.NONE and not member.leaving
        return "scale-down" if told else ""

    patch.setattr(decisions, "departs_because", hasty)


def never_departs(patch: Patch) -> None:
    patch.setattr(decisions, "departs_because", lambda member: "")


def cancelled_and_nobody_told(patch: Patch) -> None:
    set_drain = draining.set_drain

    def silent(drain: Drain, members: Sequence[str], version: int) -> Any:
        return set_drain(drain, members if drain is not Drain.NONE else (), version)

    patch.setattr(draining, "set_drain", silent)


# --- targets --------------------------------------------------------------------------------------


def moved_without_a_learner(patch: Patch) -> None:
    """A stateful group is planned as one without state."""
    view_of = reading.view_of
    patch.setattr(
        "assignment.coordinator.planning.view_of",
        lambda view, unable: replace(view_of(view, unable), stateful=False),
    )


def any_learner_is_ready(patch: Patch) -> None:
    patch.setattr(reading, "Learner", lambda lag, ready: Learner(lag, True))


def leaving_members_are_given_more(patch: Patch) -> None:
    patch.setattr(MemberView, "stays", property(lambda self: self.able))


def a_dead_owners_partition_waits(patch: Patch) -> None:
    """For a learner that is ready, which never comes."""
    candidates = ownership._candidates

    def only_the_living(given: Any, partition: int) -> Sequence[int]:
        return candidates(given, partition) if given.claims[partition] else ()

    patch.setattr(ownership, "_candidates", only_the_living)
    patch.setattr(ownership, "deal", lambda *given: {})


def one_more_than_even(patch: Patch) -> None:
    """Whoever has one partition too many keeps it."""

    def lenient(self: Any, *given: Any) -> None:
        made(self, *given)
        self.spare = [max(0, n - 1) for n in self.spare]

    made = handover.Exchange.__init__
    patch.setattr(handover.Exchange, "__init__", lenient)


def standby_beside_its_owner(patch: Patch) -> None:
    """The member with the partition keeps a standby of it, too."""
    placed = standbys.placed

    def doubled(given: Any, owner: Sequence[int], learner: Mapping[int, int], wanted: int) -> Any:
        found = placed(given, owner, learner, wanted)
        chosen = {p: (owner[p], *m[1:]) if m else m for p, m in found.members.items()}
        return replace(found, members=chosen)

    patch.setattr("assignment.planner.standbys.placed", doubled)


def one_coordinator_remembers(patch: Patch) -> None:
    """The first answer for the same members is given again, whatever they report."""
    known: dict[Any, Any] = {}
    planned = rebalance.next_target

    def remembered(view: Any, *how: Any) -> Any:
        due = planned(view, *how)
        if not isinstance(due, Target) or not view.meta.settings.stateful:
            return due
        facts = [
            (m, r.joined_at_ms, r.able, r.leaving, r.drain) for m, r in sorted(view.members.items())
        ]
        rows = known.setdefault((tuple(facts), str(view.meta.settings)), due.rows)
        epoch = view.meta.group_epoch
        return replace(due, rows={m: replace(r, target_epoch=epoch) for m, r in rows.items()})

    patch.setattr(rebalance, "next_target", remembered)


# As in planting.Planted.
PLANTED: dict[Callable[[Patch], None], tuple[tuple[str, ...], str]] = {
    a_replica_skips_a_gap: ((), " has ("),
    the_end_of_the_changelog_is_taken_for_the_committed_offset: ((), " starts from "),
    every_learner_is_called_ready: ((), " ready at "),
    departs_while_it_owns: ((), " departs and owns "),
    never_departs: ((), " have not left"),
    cancelled_and_nobody_told: ((), " still leave, by no scale-down"),
    script_bugs.an_abort_leaves_learners_in_the_target: (
        ("scale_down_aborted_at_learning",),
        " learn on",
    ),
    script_bugs.a_target_from_before_an_abort_is_stored: (
        ("scale_down_aborted_at_planning",),
        " knows nothing of the end ",
    ),
    script_bugs.set_target_keeps_every_ready_learner: ((), " anew and counts as ready"),
    moved_without_a_learner: ((), "who is not ready"),
    any_learner_is_ready: ((), "who is not ready"),
    leaving_members_are_given_more: ((), " have not left"),
    a_dead_owners_partition_waits: ((), "assert (partition in owner) =="),
    one_more_than_even: ((), "assert assignment.balanced"),
    standby_beside_its_owner: ((), "*kinds)) == sum("),
    one_coordinator_remembers: ((), "held = target"),
}
