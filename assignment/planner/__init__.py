"""Learners, standbys and leaving members: one round from what members report to who has what.

`plan(view)` is a pure function, and remembers nothing: the same reports give the same answer, in
whatever order they come (learners.md, L1-L14). It knows nothing of epochs, locks, fences or clocks.

A stateful partition goes from a live owner only to a learner that is ready; until then both keep
their roles. Everything else, a stateless partition or one without a live owner, is given at once.
Where the rules leave a choice:

- two members report one partition as owned: the one that was its ready learner has just taken over
  and keeps it; else one that stays goes before one that leaves, then the one with less. The other
  gives it up. (With fences the caller has decided before.)
- what a member reports and owns, or what does not exist, is no learner and no standby; what does
  not exist is revoked. Replicas on a member that leaves count for nothing, since it gets nothing
  new.
- equals in lag: the least loaded, then the smallest member id. "Least loaded" is who would have the
  fewest partitions, over capacity, with one more.
- of equally loaded members the smallest id gives first, its lowest partitions; the lowest go to the
  takers in turn, by id. Under `learners_max` those of leaving members start first, then those of
  the least loaded taker; running ones are kept, the nearest to ready first.
- what a member cannot serve it is given in no role, and what it says of it counts for nothing; as
  even as that allows. What nobody can serve is unowned.
- only members that leave are left: they keep what they own and get nothing new (S4).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from assignment.planner import handover, ownership, standbys
from assignment.planner.indexed import NOBODY, Indexed
from assignment.planner.loads import Loads, is_even
from assignment.planner.values import Assignment, GroupView, MemberAssignment, P
from assignment.types import Partition, TargetRow


def plan(view: GroupView[P]) -> Assignment[P]:
    """One round. Without any able member everything is unowned: a result, no error."""
    given, settings = Indexed.of(view), view.settings
    loads = Loads(given.weights)
    owner = ownership.settled(given, loads)
    goal = handover.goals(given, owner, loads)
    exchange = handover.Exchange(given, owner, loads, goal, settings.tolerance)
    ownership.deal(given, owner, loads, exchange)
    due = handover.due(exchange, loads)
    learner: dict[int, int] = {}
    if view.stateful:
        learner = dict(due[: settings.learners_max or None])
    else:
        for partition, taker in due:
            owner[partition] = taker
    wanted = settings.standby_replicas if view.stateful else 0
    replicas = standbys.placed(given, owner, learner, wanted)
    return Assignment(
        members=_parts(given, owner, learner, replicas.members),
        moves=sum(bool(who) and owner[p] not in who for p, who in enumerate(given.claims)),
        balanced=_balanced(given, owner),
        waiting=len(due) - len(learner) if view.stateful else 0,
        unowned=tuple(p for p, m in zip(given.partitions, owner, strict=True) if m == NOBODY),
        missing_standbys={given.partitions[p]: n for p, n in replicas.missing.items()},
    )


def target_rows(assignment: Assignment[Partition], target_epoch: int) -> dict[str, TargetRow]:
    """What to store: a row for every member of the view, an empty one for those with nothing."""
    return {
        member_id: TargetRow(
            target_epoch=target_epoch,
            active=frozenset(part.assigned),
            standby=frozenset(part.standby),
            learning=frozenset(part.learning),
        )
        for member_id, part in assignment.members.items()
    }


def _parts(
    given: Indexed[P],
    owner: Sequence[int],
    learner: Mapping[int, int],
    replicas: Mapping[int, Sequence[int]],
) -> dict[str, MemberAssignment[P]]:
    assigned = _by_member(given, ((p, m) for p, m in enumerate(owner) if m != NOBODY))
    learning = _by_member(given, sorted(learner.items()))
    standby = _by_member(given, ((p, m) for p, found in replicas.items() for m in found))
    return {
        member.member_id: MemberAssignment(
            assigned=assigned[m],
            revoked=tuple(sorted(set(member.owned).difference(assigned[m]))) if member.able else (),
            standby=standby[m],
            learning=learning[m],
        )
        for m, member in enumerate(given.members)
    }


def _by_member(given: Indexed[P], pairs: Iterable[tuple[int, int]]) -> list[tuple[P, ...]]:
    """(partition, member), ascending by partition -> [members] partitions by name."""
    found: list[list[P]] = [[] for _ in given.members]
    for partition, m in pairs:
        found[m].append(given.partitions[partition])
    return [tuple(names) for names in found]


def _balanced(given: Indexed[P], owner: Sequence[int]) -> bool:
    counts, staying = Counter(owner), given.staying
    return is_even([counts[m] for m in staying], [given.weights[m] for m in staying])
