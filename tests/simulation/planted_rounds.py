"""Bugs to be planted into the planner and what is around it; see planted.py."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from assignment.coordinator import learners as reading
from assignment.planner import handover, ownership, standbys
from assignment.planner.values import Learner, MemberView
from assignment.types import Drain
from tests.simulation import rounds
from tests.simulation.actors import Actor
from tests.simulation.rounds import Rounds

Patch = pytest.MonkeyPatch


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
    patch.setattr(ownership, "deal", lambda *given: None)


def one_more_than_even(patch: Patch) -> None:
    """Whoever has one partition too many keeps it."""

    def lenient(self: Any, owner: Any, loads: Any, goal: Sequence[int], tolerance: float) -> None:
        made(self, owner, loads, goal, tolerance)
        self.spare = [max(0, n - 1) for n in self.spare]

    made = handover._Exchange.__init__
    patch.setattr(handover._Exchange, "__init__", lenient)


def standby_beside_its_owner(patch: Patch) -> None:
    """The member with the partition keeps a standby of it, too."""
    placed = standbys.placed

    def doubled(given: Any, owner: Sequence[int], learner: Mapping[int, int], wanted: int) -> Any:
        found = placed(given, owner, learner, wanted)
        chosen = {p: (owner[p], *m[1:]) if m else m for p, m in found.members.items()}
        return replace(found, members=chosen)

    patch.setattr("assignment.planner.standbys.placed", doubled)


def ready_for_ever(patch: Patch) -> None:
    """That a replica was ready once counts when it is made anew."""
    patch.setattr(Rounds, "_forget_ready", lambda self, rows: None)

    def called_again(self: Actor, *args: Any, **kwargs: Any) -> Any:
        before = self.called
        report = said(self, *args, **kwargs)
        self.called |= before
        return report

    said = Actor.report
    patch.setattr(Actor, "report", called_again)


def cancelled_and_nobody_told(patch: Patch) -> None:
    tell = Rounds.tell

    def silent(self: Rounds, drain: Drain, members: list[str]) -> None:
        if drain is not Drain.NONE:
            tell(self, drain, members)

    patch.setattr(Rounds, "tell", silent)


def one_coordinator_remembers(patch: Patch) -> None:
    """The first answer for the same members is given again, whatever they report."""
    known: dict[Any, Any] = {}
    planned = rounds.planning.next_target

    def remembered(view: Any) -> Any:
        due = planned(view)
        if not isinstance(due, rounds.planning.Target):
            return due
        facts = [(m, r.able, r.leaving, r.drain) for m, r in sorted(view.members.items())]
        rows = known.setdefault((tuple(facts), str(view.meta.settings)), due.rows)
        epoch = due.group_epoch
        return replace(due, rows={m: replace(r, target_epoch=epoch) for m, r in rows.items()})

    patch.setattr(rounds.planning, "next_target", remembered)


PLANTED: dict[str, Callable[[Patch], None]] = {
    plant.__name__: plant
    for plant in (
        moved_without_a_learner,
        any_learner_is_ready,
        leaving_members_are_given_more,
        a_dead_owners_partition_waits,
        one_more_than_even,
        standby_beside_its_owner,
        ready_for_ever,
        cancelled_and_nobody_told,
        one_coordinator_remembers,
    )
}
