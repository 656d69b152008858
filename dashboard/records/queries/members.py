"""One member: its stays in the group, and what it was asked to do and did, as far as recorded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dashboard.models import Group, MemberRecord, Rebalance, RebalanceOutcome
from dashboard.records.queries import rebalances
from dashboard.records.queries.intervals import CELLS_MAX
from dashboard.records.queries.pages import Filters

LEAVING = "leaving"
STAYS_SHOWN = 50
SCALE_DOWNS_READ = 200
ROUNDS_MAX, ROUNDS_MIN = 500, 5  # looked through: a round of a large group is large


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Something that a member was told: a target that changed what it has, or to leave.

    `asked_ms`: when it was decided. `accepted_ms`: when Redis had it for the member, None where
    that is not recorded. `done_ms`: when the whole was as asked. `outcome`: a state's word.
    """

    asked_ms: int
    accepted_ms: int | None
    done_ms: int | None
    outcome: str
    rebalance: Rebalance | None = None
    scale_down: int | None = None
    assigned: Sequence[int] = ()
    revoked: Sequence[int] = ()
    learning: Sequence[int] = ()

    @property
    def goes_on(self) -> bool:
        return self.outcome in (RebalanceOutcome.RUNNING, LEAVING)


def stays(group: Group, member_id: str) -> list[MemberRecord]:
    """Newest first."""
    return list(group.member_records.filter(member_id=member_id)[:STAYS_SHOWN])


def is_known(group: Group, member_id: str) -> bool:
    return (
        group.member_records.filter(member_id=member_id).exists()
        or group.tenures.filter(member_id=member_id).exists()
    )


def commands(group: Group, member_id: str, from_ms: int, to_ms: int) -> list[Command]:
    """Newest first, of the newest rounds and scale-downs in that time."""
    found = [*_rounds(group, member_id, from_ms, to_ms), *_drains(group, member_id, from_ms, to_ms)]
    return sorted(found, key=lambda command: command.asked_ms, reverse=True)


def rounds_read(group: Group) -> int:
    """Of how many rounds `commands` tells at most."""
    return max(ROUNDS_MIN, min(ROUNDS_MAX, CELLS_MAX // group.partitions))


def _rounds(group: Group, member_id: str, from_ms: int, to_ms: int) -> Iterator[Command]:
    filters = Filters(member=member_id, from_ms=from_ms, to_ms=to_ms)
    for row in rebalances.found(group, filters)[: rounds_read(group)]:
        moves = row.moves()
        assigned = [move.number for move in moves if move.after == member_id]
        revoked = [move.number for move in moves if move.before == member_id]
        roles = row.roles.get(member_id) if row.learning else None
        learning = roles["learning"] if roles else []
        if assigned or revoked or learning:
            yield Command(
                asked_ms=row.at_ms,
                accepted_ms=None if row.deliver_ms is None else row.at_ms + row.deliver_ms,
                done_ms=row.finished_at_ms,
                outcome=row.outcome,
                rebalance=row,
                assigned=assigned,
                revoked=revoked,
                learning=learning,
            )


def _drains(group: Group, member_id: str, from_ms: int, to_ms: int) -> Iterator[Command]:
    rows = group.scale_downs.filter(asked_at_ms__gte=from_ms, asked_at_ms__lt=to_ms)
    for row in rows[:SCALE_DOWNS_READ]:
        if entry := row.members.get(member_id):
            yield Command(
                asked_ms=row.asked_at_ms,
                accepted_ms=row.told_at_ms,
                done_ms=entry["at_ms"],
                outcome=entry["outcome"] or LEAVING,
                scale_down=row.pk,
            )
