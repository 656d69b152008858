"""A group as it would be with members more or fewer: targets in thought, never stored."""

from collections.abc import Collection
from dataclasses import replace

from assignment.errors import InvalidInput
from assignment.scripts.group_read import GroupRead, MemberRow

ADDED_MAX = 1_000  # of one question; a group is planned in a moment with as many


def imagined(view: GroupRead, *, add: int = 0, remove: Collection[str] = ()) -> GroupRead:
    """`add` able members that join now and own nothing; those of `remove` are gone. InvalidInput
    names what is not there or too many.
    """
    if not 0 <= add <= ADDED_MAX:
        raise InvalidInput(f"members to add: {add} is not within 0 and {ADDED_MAX}")
    if unknown := sorted(set(remove) - view.members.keys()):
        raise InvalidInput(f"member {unknown[0]!r} is not there")
    stay = {name: row for name, row in view.members.items() if name not in remove}
    names = _free_names(view.members.keys(), add)
    new = {
        name: MemberRow(member_id=name, joined_at_ms=view.now_ms, able=True, able_at_ms=view.now_ms)
        for name in names
    }
    return replace(
        view, members=stay | new, beats={**view.beats, **dict.fromkeys(names, view.now_ms)}
    )


def _free_names(taken: Collection[str], count: int) -> list[str]:
    numbers = range(1, count + len(taken) + 1)
    return [name for n in numbers if (name := f"new-{n}") not in taken][:count]
