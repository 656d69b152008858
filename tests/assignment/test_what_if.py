"""Members in thought."""

import pytest

from assignment.coordinator.planning import target_of
from assignment.coordinator.what_if import imagined
from assignment.errors import InvalidInput
from tests.builders import group, live


def loads(add: int = 0, remove: tuple[str, ...] = ()) -> dict[str, int]:
    """Of twelve partitions, which `a` has."""
    view = imagined(group(live("a", range(12)), live("new-1")), add=add, remove=remove)
    return dict(target_of(view).change.loads)


def test_who_comes_in_thought_gets_a_part_and_who_goes_none() -> None:
    assert loads(add=2) == {"a": 3, "new-1": 3, "new-2": 3, "new-3": 3}
    assert loads(remove=("a",)) == {"new-1": 12}


def test_what_cannot_be_is_named() -> None:
    with pytest.raises(InvalidInput, match="members to add: 1001 is not within 0 and 1000"):
        loads(add=1001)
    with pytest.raises(InvalidInput, match="member 'zed' is not there"):
        loads(remove=("zed",))
