"""Rows of locks that are read for the first time: all at once as one by one."""

from collections.abc import Sequence

import pytest

from dashboard.live import ownership
from dashboard.live.ownership import Ownership

SOUND = [b"a/1", None, b"b/7", b"a/3", None, b"c/9"]
GRANTED = [b"1 1000", b"4 500", b"6 900", b"3 3000", None, b"9 5000"]  # 6: an earlier fence than 7


def taken(locks: Sequence[bytes | None], since: Sequence[bytes | None]) -> tuple[object, ...]:
    one = Ownership("s", 8)
    wrong = one.take(1, list(locks), [None] * len(locks), list(since))
    columns = [column.tolist() for column in (one.owner, one.fence, one.since)]
    again = one.take(1, list(locks), [None] * len(locks), list(since))
    return wrong, columns, one.names.texts, one._locks, one._granted, again


@pytest.mark.parametrize(
    ("locks", "since"),
    [
        (SOUND, GRANTED),
        ([None] * 6, GRANTED),
        (SOUND, [None, *GRANTED[1:]]),
        (SOUND, [b"no numbers", *GRANTED[1:]]),
        ([b"a/b/1", *SOUND[1:]], GRANTED),
    ],
)
def test_all_at_once_is_as_one_by_one(
    locks: Sequence[bytes | None], since: Sequence[bytes | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = taken(locks, since)
    monkeypatch.setattr(ownership, "_all", lambda *_: None)
    assert found == taken(locks, since)
    assert found[-1] == []


def test_when_a_lock_was_granted_is_known_of_its_own_fence_alone() -> None:
    _, (owner, fence, since), names, *_ = taken(SOUND, GRANTED)
    assert names == ["a", "b", "c"]
    assert owner == [-1, 0, -1, 1, 0, -1, 2, -1]
    assert fence == [0, 1, 0, 7, 3, 0, 9, 0]
    assert since == [0, 1000, 0, 0, 3000, 0, 5000, 0]
