"""A small group that carries out what the planner says, for tests: locks, replicas, deaths.

Members act on the stored target in whatever order a test chooses. A lock has one holder, as in
production, so a member can be told that a partition is its own before it can have it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from assignment.planner import plan
from assignment.planner.values import (
    Assignment,
    GroupView,
    Learner,
    LearnerSettings,
    MemberAssignment,
    MemberView,
)

Roles = dict[str, str]  # member -> "a12 r3 s4 l5", as in the traces; names of one character


def live(member_id: str, owned: Iterable[str] = (), **fields: Any) -> MemberView[str]:
    """`learning`: names of learners that are not ready; `ready`: of those that are."""
    ready, waiting = fields.pop("ready", ""), fields.pop("learning", "")
    learning = {p: Learner(9) for p in waiting} | {p: Learner(0, True) for p in ready}
    return MemberView(member_id=member_id, owned=frozenset(owned), learning=learning, **fields)


def view(
    *members: MemberView[str], partitions: Iterable[str] = "12345", **fields: Any
) -> GroupView[str]:
    stateful = fields.pop("stateful", True)
    return GroupView(
        partitions=tuple(partitions),
        members=members,
        stateful=stateful,
        settings=LearnerSettings(**fields),
    )


def roles(assignment: Assignment[str]) -> Roles:
    return {m: _roles(part) for m, part in assignment.members.items()}


def _roles(part: MemberAssignment[str]) -> str:
    kinds = {"a": part.assigned, "r": part.revoked, "s": part.standby, "l": part.learning}
    return " ".join(kind + "".join(names) for kind, names in kinds.items() if names)


def handovers(assignment: Assignment[str]) -> list[tuple[str, str, str]]:
    """(partition, owner, learner) of each, ascending."""
    owner = {p: m for m, part in assignment.members.items() for p in part.assigned}
    parts = assignment.members.items()
    return sorted((p, owner[p], m) for m, part in parts for p in part.learning)


def planned(*members: MemberView[str], **fields: Any) -> Roles:
    return roles(plan(view(*members, **fields)))


@dataclass
class Actor:
    """A member's real state; `learning`: partition -> caught up; `caught_up`: of its standbys."""

    shown: MemberView[str]
    owned: set[str] = field(default_factory=set)
    standby: set[str] = field(default_factory=set)
    caught_up: set[str] = field(default_factory=set)
    learning: dict[str, bool] = field(default_factory=dict)


class Group:
    """Partitions, members with their locks, and the stored target."""

    def __init__(
        self, partitions: Iterable[str], stateful: bool, settings: LearnerSettings
    ) -> None:
        self.partitions, self.stateful, self.settings = tuple(partitions), stateful, settings
        self.actors: dict[str, Actor] = {}
        self.target: dict[str, MemberAssignment[str]] = {}
        self.moves = 0

    # --- what happens to members ---

    def join(self, member: MemberView[str]) -> None:
        self.actors[member.member_id] = Actor(member, set(member.owned))

    def crash(self, member_id: str) -> None:
        """Its locks have expired, and its row of the target went with it."""
        del self.actors[member_id]
        self.target.pop(member_id, None)

    def change(self, member_id: str, **fields: Any) -> None:
        actor = self.actors[member_id]
        actor.shown = replace(actor.shown, **fields)

    # --- a round ---

    def view(self) -> GroupView[str]:
        able = [a for a in self.actors.values() if a.shown.able]
        reported = {p for actor in able for p in actor.owned}
        return GroupView(
            partitions=self.partitions,
            members=[self._shown(m, actor, reported) for m, actor in self.actors.items()],
            stateful=self.stateful,
            settings=self.settings,
        )

    def _shown(self, member_id: str, actor: Actor, reported: set[str]) -> MemberView[str]:
        stored = self.target.get(member_id, MemberAssignment())
        return replace(
            actor.shown,
            owned=actor.owned | (set(stored.assigned) - reported),
            standby={p: 0 if p in actor.caught_up else 9 for p in actor.standby},
            caught_up=frozenset(actor.caught_up),
            learning={p: Learner(0 if done else 9, done) for p, done in actor.learning.items()},
        )

    def plan(self) -> Assignment[str]:
        assignment = plan(self.view())
        self.target = dict(assignment.members)
        self.moves += assignment.moves
        return assignment

    def carry_out(self, member_id: str) -> None:
        """Releases, takes what is free, and starts or drops replicas. What waits for a lock stays a
        learner that is ready (coordination.md, section 3)."""
        actor, told = self.actors[member_id], self.target.get(member_id)
        if told is None:
            return
        had = actor.owned | actor.caught_up | {p for p, done in actor.learning.items() if done}
        actor.owned &= set(told.assigned)
        held = {p for other in self.actors.values() for p in other.owned}
        actor.owned |= set(told.assigned) - held
        waiting = [p for p in told.assigned if p in actor.learning and p not in actor.owned]
        learning = {p: actor.learning.get(p, False) or p in had for p in told.learning}
        actor.learning = learning | {p: actor.learning[p] for p in waiting}
        actor.standby = set(told.standby)
        actor.caught_up = actor.standby & had

    def carry_out_all(self) -> None:
        """Twice, so that every lock that is released can be taken."""
        for member_id in sorted(self.actors) * 2:
            self.carry_out(member_id)
        for member_id in [m for m, a in self.actors.items() if a.shown.is_leaving and not a.owned]:
            self.crash(member_id)

    def catch_up(self, member_id: str) -> None:
        actor = self.actors[member_id]
        actor.learning = dict.fromkeys(actor.learning, True)
        actor.caught_up = set(actor.standby)

    def behind(self) -> list[str]:
        """Members with a replica that has not caught up."""
        return sorted(
            m
            for m, actor in self.actors.items()
            if actor.standby - actor.caught_up or not all(actor.learning.values())
        )

    def check_locks(self) -> None:
        held = [p for actor in self.actors.values() for p in actor.owned]
        assert len(held) == len(set(held))
