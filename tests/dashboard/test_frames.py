"""Changes told in frames: whoever applies them all knows what the server knows."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dashboard.live.cells import PARTITION_STATES, LivePartition
from dashboard.live.group_state import GroupState
from dashboard.live.reported import LiveReplica
from dashboard.live.snapshot import LiveMember, LiveNumbers, LiveSnapshot
from dashboard.push import frames
from dashboard.push.frames import FRAME_BYTES_MAX, RESYNC_CELLS, Changes, whole
from dashboard.push.told import check_of, lag_check_of
from tests.dashboard.columns import cells_of, live_partition

STATES = st.sampled_from(PARTITION_STATES)


def member(name: str, owned: int = 1, state: str = "alive") -> LiveMember:
    return LiveMember(
        id=name,
        state=state,
        why="",
        owned=owned,
        targeted=owned,
        host="here",
        version="1",
        joined_at_ms=0,
        beat_at_ms=10,
        spark_application_id="",
        rows_per_second=None,
        batch=None,
        batch_ms=None,
        refused_commits=None,
        dead_letters=None,
    )


def snapshot(
    *rows: LivePartition,
    members: tuple[LiveMember, ...] = (),
    at_ms: int = 1,
    read_ms: int | None = None,
) -> LiveSnapshot:
    owned = sum(row.owner is not None for row in rows)
    numbers = LiveNumbers(
        partitions=max(1, len(rows)),
        owned=owned,
        unowned=len(rows) - owned,
        conflicts=sum(row.state == "conflict" for row in rows),
        unknown=0,
        members=len(members),
        able=len(members),
        idle=0,
        lag_records=sum(row.lag_records or 0 for row in rows),
        events_per_second=None,
        applied_total=0,
        balance_degree=0.0 if members else None,
        max_minus_min=0 if members else None,
        score=100.0 if members else None,
    )
    return LiveSnapshot(
        group="g",
        at_ms=at_ms,
        group_epoch=1,
        target_epoch=1,
        incarnation=1,
        tick_age_ms=100,
        numbers=numbers,
        members=members,
        partitions=cells_of(*rows, now_ms=at_ms, read_ms=read_ms),
    )


class Page:
    """A browser's store, as live.js keeps it."""

    def __init__(self, first: Any) -> None:
        self.cells: dict[int, Any] = {}
        self.replicas: dict[int, Any] = {}
        self.members: dict[str, Any] = {}
        self.head: dict[str, Any] = {"strip": {}}
        self.take(first)

    def take(self, part: Any) -> None:
        names = part.get("names", [])
        for number, owner, *rest in part.get("cells", []):
            self.cells[number] = (names[owner] if owner >= 0 else None, *rest)
        for number, learner, percent, eta_ms, ready, *standbys in part.get("replicas", []):
            found = names[learner] if learner >= 0 else None, percent, eta_ms, ready
            self.replicas[number] = (*found, *(names[i] for i in standbys))
            if self.replicas[number] == (None, None, None, 0):
                del self.replicas[number]
        for row in part.get("members", []):
            self.members[row["id"]] = {k: v for k, v in row.items() if k != "colour"}
        for gone in part.get("gone", []):
            del self.members[gone]
        self.head["strip"] |= part.get("strip", {})
        for name in ("state", "group_epoch", "target_epoch", "incarnation"):
            self.head[name] = part.get(name, self.head.get(name))


def told(changes: Changes) -> list[Any]:
    found = []
    while (frame := changes.frame()) is not None:
        assert len(json.dumps(frame)) <= FRAME_BYTES_MAX
        found.append(frame)
        assert len(found) < 1_000
    return found


def test_nothing_changed_is_no_frame() -> None:
    changes = Changes(snapshot(live_partition(0)))
    assert changes.frame() is None or told(changes) == []
    changes.feed(snapshot(live_partition(0), at_ms=2))
    assert changes.frame() is None


def test_only_changed_cells_are_told() -> None:
    changes = Changes(snapshot(live_partition(0), live_partition(1), members=(member("a", 2),)))
    changes.forget()
    moved = live_partition(1, "b", fence=2)
    changes.feed(snapshot(live_partition(0), moved, members=(member("a", 2),), at_ms=2))
    (frame,) = told(changes)
    assert (frame["names"], frame["cells"]) == (["b"], [[1, 0, 2**32 + 2, 0, 1_000, 0]])
    assert "members" not in frame
    assert frame.keys() == {"type", "at_ms", "names", "cells"}


def test_a_cell_that_changed_twice_is_told_once() -> None:
    changes = Changes(snapshot(live_partition(0)))
    changes.forget()
    changes.feed(snapshot(live_partition(0, "b", fence=2), at_ms=2))
    changes.feed(snapshot(live_partition(0, "c", fence=3), at_ms=3))
    (frame,) = told(changes)
    assert (frame["names"], frame["at_ms"]) == (["c"], 3)


def test_an_overtaken_read_changes_nothing() -> None:
    changes = Changes(snapshot(live_partition(0, "b", fence=2), at_ms=5))
    changes.forget()
    changes.feed(snapshot(live_partition(0, "a", fence=1), at_ms=4))
    assert told(changes) == []


def test_lag_waits_for_ownership() -> None:
    rows = [live_partition(n) for n in range(1_500)]
    changes = Changes(snapshot(*rows))
    changes.forget()
    moved = [
        replace(r, lag_records=7) if r.number < 750 else live_partition(r.number, "b", 2)
        for r in rows
    ]
    changes.feed(snapshot(*moved, at_ms=2))
    assert not changes.is_too_much
    first, *rest = told(changes)
    assert rest
    assert all(cell[0] >= 750 for cell in first["cells"])
    page = Page(whole(snapshot(*rows)))
    for frame in (first, *rest):
        page.take(frame)
    assert page.cells == Page(whole(snapshot(*moved))).cells


def test_too_much_is_left_to_a_snapshot() -> None:
    rows = [live_partition(n) for n in range(RESYNC_CELLS + 1)]
    changes = Changes(snapshot(*rows))
    changes.forget()
    changes.feed(snapshot(*(live_partition(r.number, "b", 2) for r in rows), at_ms=2))
    assert changes.is_too_much
    changes.forget()
    assert not changes.is_too_much
    assert told(changes) == []


def learned(number: int, percent: float | None, **more: Any) -> LivePartition:
    replica = LiveReplica(member="b", percent=percent, eta_ms=more.pop("eta_ms", None))
    return live_partition(number, learner=replica, **more)


def test_replicas_are_told_when_they_change() -> None:
    changes = Changes(snapshot(live_partition(0), live_partition(1)))
    changes.forget()
    keeps = (LiveReplica(member="c"), LiveReplica(member="d"))
    changes.feed(
        snapshot(learned(0, 41.9, eta_ms=1_001, standbys=keeps), live_partition(1), at_ms=2)
    )
    (frame,) = told(changes)
    assert (frame["names"], frame["replicas"]) == (["b", "c", "d"], [[0, 0, 41, 2_000, 0, 1, 2]])
    assert "cells" not in frame
    changes.feed(
        snapshot(learned(0, 41.95, eta_ms=1_900, standbys=keeps), live_partition(1), at_ms=3)
    )
    assert changes.frame() is None, "less than what is shown"
    changes.feed(snapshot(live_partition(0), live_partition(1), at_ms=4))
    (frame,) = told(changes)
    assert frame["replicas"] == [[0, -1, None, None, 0]]


def test_a_whole_has_only_partitions_with_replicas() -> None:
    first = whole(snapshot(live_partition(0), learned(1, None)))
    assert first["replicas"] == [[1, 1, None, None, 0]]
    assert first["names"] == ["a", "b"]


def test_progress_of_many_learners_is_no_reason_for_a_snapshot_but_new_ones_are() -> None:
    numbers = range(RESYNC_CELLS + 1)
    changes = Changes(snapshot(*map(live_partition, numbers)))
    changes.forget()
    changes.feed(snapshot(*(learned(n, 1.0) for n in numbers), at_ms=2))
    assert changes.is_too_much
    changes.forget()
    changes.feed(snapshot(*(learned(n, 2.0) for n in numbers), at_ms=3))
    assert not changes.is_too_much
    assert sum(len(frame["replicas"]) for frame in told(changes)) == len(numbers)


def test_learners_at_work_are_not_called_unbalanced() -> None:
    rows = snapshot(learned(0, 5.0), live_partition(1), members=(member("a", 2), member("b", 0)))
    uneven = replace(rows, numbers=replace(rows.numbers, max_minus_min=2, learning=1))
    assert frames.state_of(uneven)[0] is GroupState.STEADY
    assert frames.strip_of(uneven)["balance"]["small"] == "1 learning"
    done = replace(uneven, numbers=replace(uneven.numbers, learning=0, leaving=1))
    assert frames.state_of(done)[0] is GroupState.UNBALANCED
    assert frames.strip_of(done)["members"]["small"] == "1 leaving"


def test_members_that_go_are_told() -> None:
    changes = Changes(snapshot(live_partition(0), members=(member("a"), member("b"))))
    changes.forget()
    changes.feed(snapshot(live_partition(0), members=(member("a", state="suspect"),), at_ms=2))
    (frame,) = told(changes)
    assert frame["gone"] == ["b"]
    assert [(m["id"], m["state"]) for m in frame["members"]] == [("a", "suspect")]


def test_the_check_waits_until_ownership_is_told() -> None:
    changes = Changes(snapshot(live_partition(0)))
    changes.forget()
    before = changes.marks()["check"]
    changes.feed(snapshot(live_partition(0, "b", fence=2), at_ms=2))
    assert "check" not in changes.marks()
    told(changes)
    assert changes.marks()["check"] != before


MANY = 5_000  # whose lag is more than one frame


def moving(at_ms: int, read_ms: int) -> LiveSnapshot:
    """Everywhere another lag, as it was read then."""
    rows = (live_partition(n, lag_records=at_ms * 1_000_000 + n) for n in range(MANY))
    return snapshot(*rows, at_ms=at_ms, read_ms=read_ms)


def test_lag_that_never_rests_is_told_of_each_partition_in_turn() -> None:
    changes, heard = Changes(moving(1, 1)), set[int]()
    for at_ms in range(2, 30):
        changes.feed(moving(at_ms, at_ms))
        heard |= {cell[0] for cell in (changes.frame() or {})["cells"]}
    assert heard == set(range(MANY))


def test_lag_is_as_old_as_it_was_read_where_it_was_told() -> None:
    changes = Changes(moving(10, 4))
    assert changes.marks()["lag_age_ms"] == 6
    changes.feed(moving(20, 15))
    changes.frame()
    assert changes.marks()["lag_age_ms"] == 16, "some have been told nothing since"
    assert "lag_check" not in changes.marks()
    told(changes)
    assert changes.marks()["lag_age_ms"] == 5
    assert changes.marks()["lag_check"] == lag_check_of(moving(20, 15).partitions)


def test_lag_that_is_the_same_still_is_as_old_as_it_was_read_again() -> None:
    changes = Changes(snapshot(live_partition(0), at_ms=10, read_ms=10))
    changes.feed(snapshot(live_partition(0), at_ms=20, read_ms=18))
    assert changes.frame() is None
    assert changes.marks()["lag_age_ms"] == 2


def test_the_groups_lag_says_how_old_it_may_be() -> None:
    def lag(age_ms: int, lag_records: int | None = 5) -> Any:
        shot = snapshot(live_partition(0), at_ms=100_000, read_ms=100_000 - age_ms)
        numbers = replace(shot.numbers, lag_records=lag_records)
        return frames.strip_of(replace(shot, numbers=numbers))["lag"]

    assert lag(0)["small"] == "records"
    assert lag(1_200)["small"] == "records, up to 2 s old"
    assert lag(40_000, None)["text"] == "—"
    assert "not yet for all of 1 partitions" in lag(40_000, None)["title"]


snapshots = st.lists(
    st.tuples(
        st.lists(
            st.tuples(
                st.sampled_from((None, "a", "b", "c")),
                STATES,
                st.integers(0, 3),
                st.sampled_from((None, "b", "c")),
                st.sets(st.sampled_from("abc")),
            ),
            min_size=5,
            max_size=5,
        ),
        st.sets(st.sampled_from("abc")),
    ),
    min_size=2,
    max_size=6,
)


@given(snapshots)
def test_frames_make_of_the_first_snapshot_the_last(script: list[Any]) -> None:
    shots = [
        snapshot(
            *(
                live_partition(
                    n,
                    owner,
                    fence=fence,
                    state=state,
                    lag_records=fence,
                    learner=learner and LiveReplica(member=learner, percent=fence, ready=fence > 2),
                    standbys=tuple(LiveReplica(member=name) for name in sorted(standbys)),
                )
                for n, (owner, state, fence, learner, standbys) in enumerate(cells)
            ),
            members=tuple(member(m) for m in sorted(present)),
            at_ms=at_ms,
        )
        for at_ms, (cells, present) in enumerate(script)
    ]
    changes = Changes(shots[0])
    changes.forget()
    page = Page(whole(shots[0]))
    for shot in shots[1:]:
        changes.feed(shot)
        if shot.at_ms % 2:
            for frame in told(changes):
                page.take(frame)
    for frame in told(changes):
        page.take(frame)
    last = Page(whole(shots[-1]))
    assert (page.cells, page.members, page.head) == (last.cells, last.members, last.head)
    assert page.replicas == last.replicas
    assert changes.marks()["check"] == check_of(shots[-1].partitions)
