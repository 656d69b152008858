"""Bugs to be planted into the planner, replicas, learners and scale-downs; see planting.py."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from agent.replicas import core as real_core
from agent.state import restore
from agent.state.partition import Applied
from assignment.coordinator import draining, learners, planning, rebalance
from assignment.coordinator.planning import Target
from assignment.member import decisions
from assignment.member.state import MemberState
from assignment.planner import handover, ownership, standbys
from assignment.planner.values import Learner, MemberView
from assignment.types import Drain, Partition
from assignment.wire import ChangelogEntry
from tests.fakes import script_bugs
from tests.simulation import planting
from tests.simulation.planting import Patch
from tests.simulation.replicas import DiskState

planted, instead_of = (
    partial(note, stateful=True) for note in (planting.planted, planting.instead_of)
)


@instead_of(DiskState, "apply", " has (")
def a_replica_skips_a_gap(_: Any, self: DiskState, entry: ChangelogEntry) -> Applied:
    if entry.to_offset <= self.offset:
        return Applied.SKIPPED
    self.take(entry.to_offset, entry.changes, entry.entry_id, entry.fence)
    return Applied.APPLIED


@instead_of(restore, "tail_steps", " starts from ")
def the_end_of_the_changelog_is_taken_for_the_committed_offset(
    tail_steps: Any, store: Any, state: Any, partition: Partition
) -> Any:
    """What was trimmed away is not missed."""
    reached = yield from tail_steps(store, state, partition)
    return reached or state.offset


@instead_of(real_core, "ready_learners", " ready at ")
def every_learner_is_called_ready(
    _: Any, caught_up: Mapping[Partition, bool], called: Any, *, eager: bool
) -> frozenset[Partition]:
    return frozenset(caught_up)


@instead_of(decisions, "departs_because", " departs and owns ")
def departs_while_it_owns(_: Any, member: MemberState) -> str:
    told = member.drain is not Drain.NONE and not member.leaving
    return "scale-down" if told else ""


@instead_of(decisions, "departs_because", " have not left")
def never_departs(_: Any, member: MemberState) -> str:
    return ""


@instead_of(draining, "set_drain", " still leave, by no scale-down")
def cancelled_and_nobody_told(
    set_drain: Any, drain: Drain, members: Sequence[str], version: int
) -> Any:
    return set_drain(drain, members if drain is not Drain.NONE else (), version)


planted(" learn on", "scale_down_aborted_at_learning")(
    script_bugs.an_abort_leaves_learners_in_the_target
)
planted(" knows nothing of the end ", "scale_down_aborted_at_planning")(
    script_bugs.a_target_from_before_an_abort_is_stored
)
planted(" anew and counts as ready")(script_bugs.set_target_keeps_every_ready_learner)

# --- targets --------------------------------------------------------------------------------------


@instead_of(planning, "view_of", "who is not ready")
def moved_without_a_learner(view_of: Any, view: Any, unable: Any) -> Any:
    """A stateful group is planned as one without state."""
    return replace(view_of(view, unable), stateful=False)


@instead_of(learners, "Learner", "who is not ready")
def any_learner_is_ready(_: Any, lag: int | None, ready: bool) -> Learner:
    return Learner(lag, True)


@planted(" have not left")
def leaving_members_are_given_more(patch: Patch) -> None:
    patch.setattr(MemberView, "stays", property(lambda self: self.able))


@planted("assert (partition in owner) ==")
def a_dead_owners_partition_waits(patch: Patch) -> None:
    """For a learner that is ready, which never comes."""
    candidates = ownership._candidates

    def only_the_living(given: Any, partition: int) -> Sequence[int]:
        return candidates(given, partition) if given.claims[partition] else ()

    patch.setattr(ownership, "_candidates", only_the_living)
    patch.setattr(ownership, "deal", lambda *given: {})


@instead_of(handover.Exchange, "__init__", "assert assignment.balanced")
def one_more_than_even(made: Any, self: Any, *given: Any) -> None:
    """Whoever has one partition too many keeps it."""
    made(self, *given)
    self.spare = [max(0, n - 1) for n in self.spare]


@instead_of(standbys, "placed", "*kinds)) == sum(")
def standby_beside_its_owner(
    placed: Any, given: Any, owner: Sequence[int], learner: Mapping[int, int], wanted: int
) -> Any:
    """The member with the partition keeps a standby of it, too."""
    found = placed(given, owner, learner, wanted)
    chosen = {p: (owner[p], *m[1:]) if m else m for p, m in found.members.items()}
    return replace(found, members=chosen)


@planted("held = target")
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
