"""Who owned what over a time, as columns of numbers to be drawn: no object per interval.

Of more partitions than there are lines every k-th is read. Of each the intervals that begin within
the time, and the few before it, are looked up by the index of a partition's tenures: neither the
rest of the history nor the other partitions cost anything.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from django.db.models import Q
from numpy.typing import NDArray

from assignment import maps
from dashboard.models import Group, MemberRecord, Rebalance, Tenure
from dashboard.records import bulk
from dashboard.records.queries.colours import HUES
from dashboard.records.queries.tenures import BEFORE, not_ended_by

INTERVALS_MAX = 200_000  # read for one picture: 0.2 s of a core
REPLICAS = ("learning", "standby")
ROUNDS_MAX = 300  # of which replicas are read
CELLS_MAX = 400_000  # partitions of those together
STAYS = -1  # no partition: the line of a member's stays in the group
NO_HUE = HUES  # of an owner whose stay was never recorded
TABLE = Tenure._meta.db_table
COLUMNS = ("number", "member_id", "fence", "started_ms", "ended_ms")
FIRSTS = ((MemberRecord, "joined_at_ms"), (Rebalance, "at_ms"), (Tenure, "started_ms"))
BEGUN = "SELECT " + ", ".join(
    f"(SELECT {at} FROM {of._meta.db_table} WHERE group_id = %s ORDER BY {at} LIMIT 1)"
    for of, at in FIRSTS
)
_OF_GROUP = f"FROM {Rebalance._meta.db_table} WHERE group_id = %s"
ROUNDS = f"""
SELECT at_ms, replicas {_OF_GROUP} AND at_ms < %s
AND at_ms >= COALESCE((SELECT MAX(at_ms) {_OF_GROUP} AND at_ms <= %s), 0)
ORDER BY at_ms DESC LIMIT %s
"""

Row = tuple[int, str, int, int, int | None]
Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """[from_ms, to_ms) of the partitions `first` to `last`, in at most `lines` lines."""

    from_ms: int
    to_ms: int
    first: int
    last: int
    lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Columns, in the order of line, start and fence. `line`: index in `numbers`, the partitions
    that were read. `ended_ms`: `to_ms` where there is no end. What was before `from_ms` was not
    read: there were more than INTERVALS_MAX.
    """

    numbers: Sequence[int]
    line: Whole
    started_ms: Whole
    ended_ms: Whole
    hue: Whole
    from_ms: int


def evenly(numbers: Sequence[int], most: int) -> Sequence[int]:
    """Every k-th, the first among them."""
    return numbers[:: max(1, -(-len(numbers) // most))]


def every_second(found: Intervals) -> Intervals:
    """Of its lines."""
    kept = found.line % 2 == 0
    return replace(
        found,
        numbers=found.numbers[::2],
        line=found.line[kept] // 2,
        started_ms=found.started_ms[kept],
        ended_ms=found.ended_ms[kept],
        hue=found.hue[kept],
    )


def of_partitions(group: Group, shown: Shown, hues: Mapping[str, int]) -> Intervals:
    every, lines, from_ms = range(shown.first, shown.last + 1), shown.lines, shown.from_ms
    numbers = evenly(every, lines)
    while (count := _count(group, numbers, from_ms, shown.to_ms)) > INTERVALS_MAX:
        if len(numbers) == 1:
            from_ms = _newest_from(group, numbers[0], shown.to_ms)
            break
        lines = max(1, min(len(numbers) // 2, len(numbers) * INTERVALS_MAX // count))
        numbers = evenly(every, lines)
    rows = _found(", ".join(f"t.{name}" for name in COLUMNS), group, numbers, from_ms, shown.to_ms)
    return _columns(rows, numbers, hues, from_ms, shown.to_ms)


def of_member(group: Group, member_id: str, shown: Shown, hues: Mapping[str, int]) -> Intervals:
    """Its stays in the group, as of partition STAYS, and its own tenures. Partitions that it did
    not have then are left out.
    """
    stays = group.member_records.filter(
        Q(left_at_ms=None) | Q(left_at_ms__gte=shown.from_ms),
        member_id=member_id,
        joined_at_ms__lt=shown.to_ms,
    )
    found = not_ended_by(group, shown.from_ms).filter(
        member_id=member_id,
        started_ms__lt=shown.to_ms,
        number__range=(shown.first, shown.last),
    )
    newest = found.order_by("-started_ms").values_list(*COLUMNS)[: INTERVALS_MAX + 1]
    rows: list[Row] = list(newest)
    from_ms = shown.from_ms if len(rows) <= INTERVALS_MAX else rows[-1][3]
    for joined_ms, left_ms in stays.values_list("joined_at_ms", "left_at_ms")[:ROUNDS_MAX]:
        rows.append((STAYS, member_id, 0, joined_ms, left_ms))
    numbers = evenly(sorted({row[0] for row in rows}), shown.lines)
    drawn = {*numbers}
    kept = [row for row in rows if row[0] in drawn]
    return _columns(kept, numbers, hues, from_ms, shown.to_ms)


def replicas(
    group: Group, shown: Shown, numbers: Sequence[int], hues: Mapping[str, int]
) -> dict[str, Intervals]:
    """Kind (learning, standby) -> the first member that a partition's targets named as such."""
    most = max(1, min(ROUNDS_MAX, CELLS_MAX // group.partitions))
    rounds = [(at_ms, _roles(packed)) for at_ms, packed in _rounds(group, shown, most)]
    wanted = {*numbers}
    return {
        kind: _columns(
            list(_spells(rounds, kind, wanted, shown.to_ms)), numbers, hues, shown.from_ms,
            shown.to_ms,
        )
        for kind in REPLICAS
    }  # fmt: skip


def replicas_by_member(group: Group, at_ms: int) -> dict[str, dict[str, list[int]]]:
    """Kind -> member -> the partitions that the target of that moment named; members in the order
    of their names, those without any left out.
    """
    rows = group.rebalances.filter(at_ms__lte=at_ms).order_by("-at_ms")
    said = _roles(rows.values_list("replicas", flat=True).first())
    return {kind: {m: row[kind] for m, row in said.items() if row[kind]} for kind in REPLICAS}


def replicas_at(
    group: Group, at_ms: int, numbers: Iterable[int]
) -> dict[str, dict[int, list[str]]]:
    """Kind -> partition -> the members, as `replicas_by_member` has them."""
    found: dict[str, dict[int, list[str]]] = {kind: {n: [] for n in numbers} for kind in REPLICAS}
    for kind, named in replicas_by_member(group, at_ms).items():
        for member, its in named.items():
            for number in found[kind].keys() & its:
                found[kind][number].append(member)
    return found


def _rounds(group: Group, shown: Shown, most: int) -> list[tuple[int, Any]]:
    """(at_ms, replicas) of the newest targets and of the one that held at first; oldest first."""
    return bulk.fetched(ROUNDS, [group.pk, shown.to_ms, group.pk, shown.from_ms, most])[::-1]


def _roles(packed: Any) -> maps.Roles:
    return {} if packed is None else maps.roles((), (), bytes(packed))


def _spells(
    rounds: Sequence[tuple[int, maps.Roles]], kind: str, wanted: set[int], to_ms: int
) -> Iterator[Row]:
    held: dict[int, tuple[str, int]] = {}  # number -> (member, since)
    for at_ms, said in rounds:
        named: dict[int, str] = {}
        for member, row in said.items():
            for number in wanted.intersection(row[kind]):
                named.setdefault(number, member)
        for number in [n for n, (member, _) in held.items() if named.get(n) != member]:
            member, since_ms = held.pop(number)
            yield number, member, 0, since_ms, at_ms
        for number, member in named.items():
            held.setdefault(number, (member, at_ms))
    for number, (member, since_ms) in held.items():
        yield number, member, 0, since_ms, to_ms


def begun_ms(group: Group) -> int | None:
    """When the first was recorded of what can be drawn, and is kept; None: nothing yet."""
    [firsts] = bulk.fetched(BEGUN, [group.pk] * len(FIRSTS))
    found = [at_ms for at_ms in firsts if at_ms is not None]
    return max(min(found), group.history_from_ms) if found else None


def _count(group: Group, numbers: Sequence[int], from_ms: int, to_ms: int) -> int:
    return int(_found("COUNT(*)", group, numbers, from_ms, to_ms)[0][0])


def _found(what: str, group: Group, numbers: Sequence[int], from_ms: int, to_ms: int) -> list[Any]:
    """Joined in this order both databases look up each partition by the index."""
    asked = ", ".join(["(%s)"] * len(numbers))
    text = (
        f"WITH n (number) AS (VALUES {asked}), asked AS MATERIALIZED ("
        f" SELECT n.number, COALESCE((SELECT b.started_ms FROM {TABLE} b WHERE b.group_id = %s"
        " AND b.number = n.number AND b.started_ms < %s"
        f" ORDER BY b.started_ms DESC LIMIT 1 OFFSET {BEFORE - 1}), 0) AS since FROM n)"
        f" SELECT {what} FROM asked CROSS JOIN {TABLE} t WHERE t.group_id = %s"
        " AND t.number = asked.number AND t.started_ms >= asked.since AND t.started_ms < %s"
    )
    return bulk.fetched(text, [*numbers, group.pk, from_ms, group.pk, to_ms])


def _newest_from(group: Group, number: int, to_ms: int) -> int:
    """From when on there are INTERVALS_MAX."""
    rows = group.tenures.filter(number=number, started_ms__lt=to_ms).order_by("-started_ms")
    return rows.values_list("started_ms", flat=True)[INTERVALS_MAX - BEFORE - 1]


def _columns(
    rows: Sequence[Row],
    numbers: Sequence[int],
    hues: Mapping[str, int],
    from_ms: int,
    to_ms: int,
) -> Intervals:
    lines = {number: line for line, number in enumerate(numbers)}
    number, member, fence, started, ended = zip(*rows, strict=True) if rows else ((),) * 5
    line = _whole(map(lines.__getitem__, number))
    began = _whole(started)
    order = np.lexsort((_whole(fence), began, line))
    return Intervals(
        numbers=numbers,
        line=line[order],
        started_ms=began[order],
        ended_ms=_whole(to_ms if at is None else at for at in ended)[order],
        hue=_whole(hues.get(one, NO_HUE) for one in member)[order],
        from_ms=from_ms,
    )


def _whole(values: Iterable[int]) -> Whole:
    return np.fromiter(values, np.int64)
