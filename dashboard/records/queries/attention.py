"""What needs attention, in lists: of all groups that somebody may see, and of one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from dashboard.actions.roles import Action, Rights
from dashboard.live import attention
from dashboard.live.attention import BY_WORD, DEFAULTS, LIMITS, WORDS, Limits, Rule
from dashboard.models import AttentionLimits, Group, Occurrence
from dashboard.records.rights import narrowed_to

SHOWN_MAX = 50
PAST_SHOWN = 50
COUNTED_MAX = 1_000  # in a title


@dataclass(frozen=True, slots=True)
class Shown:
    row: Occurrence
    rule: Rule


def limits_of(group: Group) -> Limits:
    """All of them: its own, and for the rest those that were declared."""
    return limits_of_all([group])[group.pk]


def limits_of_all(groups: Sequence[Group]) -> dict[int, Limits]:
    """By the group's key."""
    rows = AttentionLimits.objects.filter(group__in=groups).values_list("group", "values")
    found = dict(rows)
    return {group.pk: {**DEFAULTS, **_own(found.get(group.pk))} for group in groups}


def _own(stored: Mapping[str, int] | None) -> Limits:
    return {name: value for name, value in (stored or {}).items() if name in LIMITS}


def raised(rights: Rights) -> QuerySet[Occurrence]:
    """What needs attention now, acknowledged or not."""
    open_ones = Occurrence.objects.filter(ended_at_ms=None, raised_at_ms__isnull=False)
    return narrowed_to(open_ones, rights, Action.SEE, "group__name")


def count(rights: Rights) -> int:
    """Of what nobody has acknowledged; at most COUNTED_MAX."""
    found = raised(rights).filter(acknowledged_at_ms=None).order_by()
    return len(found.values_list("pk", flat=True)[:COUNTED_MAX])


def shown(rights: Rights) -> list[Shown]:
    """Unacknowledged before acknowledged, then the worst first; SHOWN_MAX of each rule at most."""
    return _ordered(raised(rights).select_related("group")[: SHOWN_MAX * len(WORDS)])


def of_group(group: Group) -> list[Shown]:
    return _ordered(group.occurrences.filter(ended_at_ms=None, raised_at_ms__isnull=False))


def past(group: Group) -> list[Shown]:
    """What is over, the latest first."""
    rows = group.occurrences.filter(ended_at_ms__isnull=False, raised_at_ms__isnull=False)
    return _known(rows[:PAST_SHOWN])


def by_group(groups: Sequence[Group]) -> dict[tuple[int, str], Occurrence]:
    """What needs attention now, by group's key and rule."""
    rows = Occurrence.objects.filter(
        group__in=groups, ended_at_ms=None, raised_at_ms__isnull=False
    ).order_by()
    return {(row.group_id, row.rule): row for row in rows}


def _ordered(rows: QuerySet[Occurrence]) -> list[Shown]:
    def place(one: Shown) -> tuple[bool, int, int]:
        return one.row.is_acknowledged, attention.WORDS.index(one.rule.word), one.row.began_at_ms

    return sorted(_known(rows), key=place)


def _known(rows: QuerySet[Occurrence]) -> list[Shown]:
    """A rule that is declared no longer is not shown."""
    return [Shown(row, BY_WORD[row.rule]) for row in rows if row.rule in BY_WORD]
