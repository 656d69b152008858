"""What must hold between two moments of a group, beside what holds at each (invariants)."""

from collections.abc import Iterator

from assignment.errors import InvariantBroken
from assignment.scripts.group_read import GroupRead


def check_step(before: GroupRead, after: GroupRead) -> None:
    """Two moments of one Redis: epochs and fences never fall, and a fence never changes hands.

    Not to be asked across a wiped Redis.
    """
    if texts := [*_epoch_steps(before, after), *_grant_steps(before, after)]:
        raise InvariantBroken("; ".join(texts))


def _epoch_steps(before: GroupRead, after: GroupRead) -> Iterator[str]:
    for name in ("group_epoch", "target_epoch", "mode_epoch", "coordinator_epoch", "incarnation"):
        old, new = getattr(before.meta, name), getattr(after.meta, name)
        if new < old:
            yield f"{name} fell from {old} to {new}"


def _grant_steps(before: GroupRead, after: GroupRead) -> Iterator[str]:
    for partition, old in before.grants.items():
        new = after.grants.get(partition)
        if new is None:
            yield f"the grant of {partition} is gone"
        elif new.fence < old.fence:
            yield f"the fence of {partition} fell from {old.fence} to {new.fence}"
        elif new.fence == old.fence and new.member_id != old.member_id:
            yield f"fence {new.fence} of {partition} went from {old.member_id} to {new.member_id}"
        elif new.fence == old.fence and old.ended is not None and new.ended is None:
            yield f"the ended grant {new.fence} of {partition} lives again"
