"""Bugs to be planted into replicas, learners and scale-downs; see planted.py."""

from collections.abc import Callable, Mapping, Set
from typing import Any

import pytest

from agent.replicas import core as real_core
from agent.state.partition import Applied
from assignment.member import decisions
from assignment.member.state import MemberState
from assignment.types import Drain, Partition
from assignment.wire import ChangelogEntry
from tests.fakes import script_bugs
from tests.simulation import planted_rounds, replicas
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


PLANTED: dict[str, Callable[[Patch], None]] = {
    plant.__name__: plant
    for plant in (
        a_replica_skips_a_gap,
        the_end_of_the_changelog_is_taken_for_the_committed_offset,
        every_learner_is_called_ready,
        script_bugs.an_abort_leaves_learners_in_the_target,
        script_bugs.a_target_from_before_an_abort_is_stored,
        departs_while_it_owns,
        never_departs,
        planted_rounds.any_learner_is_ready,
        planted_rounds.leaving_members_are_given_more,
    )
}

# By which fault a bug is shown that needs a rare one: only seeds that have it are tried.
SHOWN_BY = {
    "an_abort_leaves_learners_in_the_target": ("scale_down_aborted_at_learning",),
    "a_target_from_before_an_abort_is_stored": ("scale_down_aborted_at_planning",),
}
