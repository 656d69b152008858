"""Rebalances: lists with filters, and all of one."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from dashboard.actions.roles import Action, Rights
from dashboard.models import Group, Rebalance
from dashboard.records.queries.pages import Filters, Page, for_file, narrowed, page_of
from dashboard.records.rights import narrowed_to

PAGE = 50
ROLES_PARTITIONS_MAX = 2_000  # in a file: its lines stay below what a spreadsheet's cell holds
PACKED = ("target", "previous", "replicas")  # large, and of no use in a list
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


def recent(limit: int, rights: Rights) -> list[Rebalance]:
    """The newest of all groups that may be seen."""
    found = Rebalance.objects.select_related("group").defer(*PACKED, "causes")
    return list(_seen(found, rights).order_by("-at_ms")[:limit])


def count_since(at_ms: int, rights: Rights) -> int:
    return _seen(Rebalance.objects.filter(at_ms__gte=at_ms), rights).count()


def _seen(rows: QuerySet[Rebalance], rights: Rights) -> QuerySet[Rebalance]:
    return narrowed_to(rows, rights, Action.SEE, "group__name")


def found(group: Group, filters: Filters) -> QuerySet[Rebalance]:
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


def page(group: Group, filters: Filters, size: int = PAGE) -> Page[Rebalance]:
    keep = (lambda row: touches(row, filters)) if _looks_inside(filters) else None
    return page_of(found(group, filters), size, keep)


def every(group: Group, filters: Filters) -> Iterator[Rebalance]:
    """For a file, with all they hold; newest first."""
    return (r for r in for_file(found(group, filters).defer(None)) if touches(r, filters))


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
    found = Rebalance.objects.filter(group=group).order_by().values_list("cause", flat=True)
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
