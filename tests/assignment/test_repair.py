"""What is damaged of a group's records, and which incarnations nobody can have reached."""

import json

import pytest

from assignment.coordinator.incarnation import CLAIMED_AHEAD_MAX
from assignment.coordinator.repair import (
    Mend,
    Stored,
    believable,
    findings,
    renumbered,
    renumbered_fence,
)
from assignment.types import INCARNATION_STEP, GroupSettings
from assignment.wire import settings_text

META = {
    "settings": settings_text(GroupSettings(stream="s", partitions=2)).encode(),
    "incarnation": b"3",
    "group_epoch": b"7",
}
FENCE = 3 * INCARNATION_STEP + 1
ROWS = {
    "meta": META,
    "members": {"a": b'{"joined_at_ms":1,"able":true}'},
    "reports": {"a": b"1 1 5 2 {}{}"},
    "asked": {"a": b"5"},
    "target": {"a": b'{"target_epoch":7,"active":["s:0"],"standby":[],"learning":[]}'},
    "grants": {"s:0": b"%d a 99 -" % FENCE},
    "offsets": {"s:0": b"5-0"},
    "applied": {"s:0": b"10 99"},
    "since": {"s:0": b"%d 99" % FENCE},
}
KINDS = {**dict.fromkeys(ROWS, "hash"), "beats": "zset"}
LOCKS = {"s:0": b"a/%d" % FENCE}


def stored(**changes: dict[str, bytes]) -> Stored:
    rows = {key: {**of, **changes.get(key, {})} for key, of in ROWS.items()}
    return Stored(kinds=KINDS, rows=rows, beats={"a": 98.0}, locks=changes.get("locks", LOCKS))


def test_nothing_is_found_where_nothing_is_damaged() -> None:
    assert findings(stored(), {1, 2, 3}) == ()


@pytest.mark.parametrize(
    ("key", "name", "raw", "mend"),
    [
        ("members", "b", b"{", Mend.EVICT),
        ("members", "b", b'{"joined_at_ms":"x"}', Mend.EVICT),
        ("reports", "a", b"[" * 955, Mend.FORGET),
        ("asked", "a", b"soon", Mend.FORGET),
        ("target", "a", b"{}", Mend.FORGET),
        ("grants", "s:1", b"x a 1 -", Mend.REBUILD),
        ("grants", "s:1", b"%d a 1 -" % 2**60, Mend.REBUILD),
        ("offsets", "s:1", b"far", Mend.MIRROR),
        ("applied", "s:1", b"many", Mend.MIRROR),
        ("snapshots", "s:1", json.dumps([{}]).encode(), Mend.MIRROR),
        ("since", "s:1", b"1", Mend.FORGET),
        ("locks", "s:1", b"a/b", Mend.FORGET),
        ("meta", "group_epoch", b"many", Mend.REBUILD),
        ("meta", "incarnation", b"%d" % 2**40, Mend.REBUILD),
        ("meta", "settings", b"{", Mend.REBUILD),
    ],
)
def test_what_cannot_be_read_is_found(key: str, name: str, raw: bytes, mend: Mend) -> None:
    rows = {**ROWS, key: {**ROWS.get(key, {}), name: raw}}
    locks = {name: raw} if key == "locks" else LOCKS
    kinds = {**KINDS, "snapshots": "hash"}
    rows.pop("locks", None)
    found = findings(Stored(kinds=kinds, rows=rows, beats={}, locks=locks), {3})
    assert [(one.mend, one.key) for one in found if one.mend is not Mend.RENUMBER] == [(mend, key)]


def test_a_key_of_another_kind_and_a_beat_that_is_no_time_are_found() -> None:
    found = findings(
        Stored(
            kinds={**KINDS, "target": "string", "offsets": "list"},
            rows=ROWS,
            beats={"a": float("inf")},
        ),
        {3},
    )
    assert [(one.mend, one.key, one.name) for one in found] == [
        (Mend.REBUILD, "target", ""), (Mend.MIRROR, "offsets", ""), (Mend.EVICT, "beats", "a"),
    ]  # fmt: skip


def test_an_incarnation_that_no_step_leads_to_is_found_and_gets_a_lower_number() -> None:
    assert believable({1, 2, 3, 3 + CLAIMED_AHEAD_MAX + 1}) == 1_028
    known = {1, 2, 3, 2**21 - 1, 2**20}
    assert believable(known) == 3
    numbers = renumbered(known)
    assert numbers == {2**20: 4, 2**21 - 1: 5}
    assert renumbered_fence(2**20 * INCARNATION_STEP + 9, numbers) == 4 * INCARNATION_STEP + 9
    assert renumbered_fence(FENCE, numbers) == FENCE
    (found,) = findings(stored(), {2**21 - 1})
    assert (found.mend, found.why) == (
        Mend.RENUMBER, "incarnation 2097151 is more than 1024 above 3",
    )  # fmt: skip
