"""Rebalances and their rounds: lists with filters, and all of one."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum

from dashboard.actions.roles import Action, Rights
from dashboard.models import Group, Rebalance, RebalanceOutcome
from dashboard.records.queries.pages import Filters, Page, for_file, narrowed, page_of
from dashboard.records.rights import narrowed_to

PAGE = 50
ROLES_PARTITIONS_MAX = 2_000  # in a file: its lines stay below what a spreadsheet's cell holds
ROUNDS_SHOWN = 200  # of one rebalance
PACKED = ("target", "previous", "replicas")  # large, and of no use in a list
LARGE = (*PACKED, "causes")
# Of its time. detect: from the change to the start of the run; compute: to the stored target;
# deliver: to the last agent that has it; revoke: to the last release; acquire: to the last acquire;
# first_effect: to the first commit under the last fence.
PHASES = ("detect", "compute", "deliver", "revoke", "acquire", "first_effect")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    member_id: str
    before: int | None  # None: it was not there
    after: int | None

    @property
    def change(self) -> int:
        return (self.after or 0) - (self.before or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """One rebalance: its first round, and what all its rounds come to. `avoidable` None: of one of
    them nobody knows the least moves.
    """

    first: Rebalance
    rounds: int
    moved: int
    avoidable: int | None

    @property
    def state(self) -> RebalanceOutcome:
        """Whether something of it is left to move or to learn. A round that the next one supersedes
        is an inner matter.
        """
        ended = self.first.ended_at_ms is not None
        return RebalanceOutcome.DONE if ended else RebalanceOutcome.RUNNING

    @property
    def total_ms(self) -> int | None:
        """From its first cause on."""
        ended_ms, first = self.first.ended_at_ms, self.first
        return None if ended_ms is None else ended_ms - first.at_ms + (first.detect_ms or 0)


def light(rows: QuerySet[Rebalance]) -> QuerySet[Rebalance]:
    """Without what is large, also of the first round that comes with each."""
    return rows.defer(*LARGE, *(f"first__{name}" for name in LARGE))


def wholes(firsts: Sequence[Rebalance], until_ms: int | None = None) -> list[Whole]:
    """Of first rounds, in their order, with the rounds until then; one query for all."""
    found = Rebalance.objects.filter(first__in=[row.pk for row in firsts]).order_by()
    later = narrowed(found, at_ms__lte=until_ms)
    sums = {
        row["first"]: row
        for row in later.values("first").annotate(
            rounds=Count("pk"),
            all_moved=Sum("moved"),
            least=Sum("avoidable"),
            known=Count("avoidable"),
        )
    }
    return [_whole(row, sums.get(row.pk, NO_MORE)) for row in firsts]


NO_MORE = {"rounds": 0, "all_moved": 0, "least": 0, "known": 0}


def _whole(first: Rebalance, more: Mapping[str, Any]) -> Whole:
    unknown = first.avoidable is None or more["known"] < more["rounds"]
    return Whole(
        first=first,
        rounds=1 + more["rounds"],
        moved=first.moved + more["all_moved"],
        avoidable=None if unknown else (first.avoidable or 0) + (more["least"] or 0),
    )


def rounds_of(whole: Rebalance) -> list[Rebalance]:
    """Of its first round: that and the ROUNDS_SHOWN newest that followed, newest first."""
    later = whole.later_rounds.defer(*LARGE)[:ROUNDS_SHOWN]
    return [*later, whole]


def recent(limit: int, rights: Rights) -> list[Whole]:
    """The newest of all groups that may be seen."""
    found = _firsts(light(Rebalance.objects.select_related("group")))
    return wholes(list(_seen(found, rights).order_by("-at_ms")[:limit]))


def firsts_since(at_ms: int, rights: Rights, most: int) -> list[Rebalance]:
    """First rounds of all groups that may be seen, newest first."""
    rows = light(Rebalance.objects.select_related("group").filter(at_ms__gte=at_ms))
    return list(_seen(_firsts(rows), rights).order_by("-at_ms")[:most])


def count(group: Group) -> int:
    return _firsts(Rebalance.objects.filter(group=group)).count()


def count_since(at_ms: int, rights: Rights) -> int:
    return _seen(_firsts(Rebalance.objects.filter(at_ms__gte=at_ms)), rights).count()


def _firsts(rows: QuerySet[Rebalance]) -> QuerySet[Rebalance]:
    return rows.filter(first=None)


def _seen(rows: QuerySet[Rebalance], rights: Rights) -> QuerySet[Rebalance]:
    return narrowed_to(rows, rights, Action.SEE, "group__name")


def found(group: Group, filters: Filters) -> QuerySet[Rebalance]:
    """Rounds."""
    rows = Rebalance.objects.filter(group=group)
    if not _looks_inside(filters):
        rows = rows.defer(*PACKED)
    return narrowed(
        rows,
        cause=filters.cause,
        actor__icontains=filters.actor,
        at_ms__gte=filters.from_ms,
        at_ms__lt=filters.to_ms,
        id__lt=filters.before,
    )


def page(
    group: Group, filters: Filters, size: int = PAGE, *, until_ms: int | None = None
) -> Page[Whole]:
    """Rebalances. Cause, actor and time are of the first round, member and partition of any.
    `until_ms`: rounds that came later are not counted.
    """
    rows = _firsts(found(group, filters))
    if _looks_inside(filters):
        rows = rows.prefetch_related("later_rounds")
        firsts = page_of(rows, size, lambda row: _any_touches(row, filters))
    else:
        firsts = page_of(rows, size)
    return Page(rows=wholes(firsts.rows, until_ms), older=firsts.older)


def _any_touches(first: Rebalance, filters: Filters) -> bool:
    return any(touches(row, filters) for row in (first, *first.later_rounds.all()))


def rounds(group: Group, filters: Filters, most: int) -> list[Rebalance]:
    """The newest, newest first."""
    return list(found(group, filters)[:most])


def every(group: Group, filters: Filters) -> Iterator[Rebalance]:
    """Rounds, for a file, with all they hold; newest first."""
    rows = found(group, filters).defer(None).select_related("first")
    kept = rows.defer(*(f"first__{name}" for name in LARGE))
    return (r for r in for_file(kept) if touches(r, filters))


def _looks_inside(filters: Filters) -> bool:
    return bool(filters.member) or filters.partition is not None


def touches(row: Rebalance, filters: Filters) -> bool:
    """Whether it changed what the member has or made it learn, or changed who has the partition."""
    if not _looks_inside(filters):
        return True
    moves = row.moves()
    if filters.partition is not None and all(m.number != filters.partition for m in moves):
        return False
    if not filters.member:
        return True
    if any(cause.get("member") == filters.member for cause in row.causes):
        return True
    if row.learning and row.roles.get(filters.member, {}).get("learning"):
        return True
    return any(filters.member in (move.before, move.after) for move in moves)


def causes(group: Group) -> list[str]:
    """Those that occurred, for the filter's choice."""
    found = (
        _firsts(Rebalance.objects.filter(group=group)).order_by().values_list("cause", flat=True)
    )
    return sorted(found.distinct())


def neighbours(row: Rebalance) -> tuple[Rebalance | None, Rebalance | None]:
    """The one before it, the one after it."""
    above = Q(incarnation=row.incarnation, target_epoch__gt=row.target_epoch)
    above |= Q(incarnation__gt=row.incarnation)
    others = Rebalance.objects.filter(group=row.group_id).defer(*PACKED).exclude(pk=row.pk)
    return others.exclude(above).first(), others.filter(above).last()


def phases(row: Rebalance) -> dict[str, int | None]:
    return {name.replace("_", " "): getattr(row, f"{name}_ms") for name in PHASES}


def roles_text(row: Rebalance, kind: str) -> str:
    """One cell of a file: `a: 0 1; b: 2`, members with none left out."""
    if row.partitions > ROLES_PARTITIONS_MAX:
        return f"more than {ROLES_PARTITIONS_MAX} partitions: see the page of this rebalance"
    said = ((m, numbers[kind]) for m, numbers in row.roles.items())
    return "; ".join(f"{m}: {' '.join(map(str, found))}" for m, found in said if found)


def loads(row: Rebalance) -> list[Load]:
    first, then = Counter(row.owners_before()), Counter(row.owners())
    members = sorted(member for member in {*first, *then} if member is not None)
    return [Load(member_id=m, before=first.get(m), after=then.get(m)) for m in members]
