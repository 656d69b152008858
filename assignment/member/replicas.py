"""Replicas of state that a member keeps beside what it holds, and when its learners are ready."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from assignment.member.state import MemberState
from assignment.types import Partition, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The replicas to keep now.

    Role.OWNER: the partition is given to this member and another holds it still, so that its
    replica goes on. `held`: their files are the consumer's, or are being restored for it.
    """

    replicas: Mapping[Partition, Role] = field(default_factory=dict)
    held: frozenset[Partition] = frozenset()
    stateful: bool = True  # False: the consumer keeps no state here, so a learner lacks nothing
    acceptable_lag_records: int = 0
    eager: bool = True  # call for a rebalance for each ready learner (learners.md L12)


def wanted_replicas(member: MemberState) -> Wanted:
    """None of a group without state, and none of a member that goes."""
    settings, target = member.settings, member.target
    held = frozenset(member.held)
    replicas: dict[Partition, Role] = {}
    if settings.stateful and target is not None and not member.leaving:
        replicas = dict.fromkeys(sorted(target.standby - held), Role.STANDBY)
        replicas |= dict.fromkeys(sorted(target.learning - held), Role.LEARNER)
        replicas |= dict.fromkeys(member.waiting, Role.OWNER)
    return Wanted(
        replicas=replicas,
        held=held,
        stateful=member.stateful,
        acceptable_lag_records=settings.acceptable_lag_records,
        eager=settings.learn_partial_rebalance,
    )


def ready_learners(
    caught_up: Mapping[Partition, bool], called: Set[Partition], *, eager: bool
) -> frozenset[Partition]:
    """Of this member's learners those for which it calls for a rebalance (L11, L12).

    `called`: those for which it did before; they stay ready while they keep up. Eager: each for
    itself. Stable: when all have caught up.
    """
    up = frozenset(p for p, is_up in caught_up.items() if is_up)
    return up if eager or len(up) == len(caught_up) else up & called
