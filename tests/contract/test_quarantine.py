"""What a member stored and nobody can read is left out; the member itself ends as any other."""

import pytest

from assignment import invariants, sizes
from assignment.coordinator import effects
from assignment.coordinator.facts import GroupRecord
from assignment.coordinator.stays import expired_members
from assignment.coordinator.tick import tick
from assignment.errors import Damaged
from assignment.invariants import FaultKind
from assignment.scripts import dashboard_side
from assignment.scripts.dashboard_side import EvictResult, JoinResult
from assignment.scripts.group_read import Purpose
from assignment.scripts.reports import Reports
from assignment.types import Coordination, Drain
from assignment.wire import Status
from tests.contract.world import P0, P1, World

DEEP = b'{"consumer":' + b"[" * 955 + b"]" * 955 + b"}"
BAD = (
    b"",
    b"garbage",
    b"1 1 1 2 {}[]",
    b"1 1 1 9 {" + b'"owned":',
    b"1 1 1 %d %s{}" % (len(DEEP), DEEP),
    b'1 1 1 2 {}{"owned":{"flights:0":"x running"}}',
    b'1 1 1 2 {}{"consumer":{"rows_per_second":1' + b"0" * 400 + b"}}",
    b'1 1 1 2 {}{"consumer":{"rows_per_second":"many"}}',
    b'1 1 1 2 {}{"consumer":{"batch":9007199254740992}}',
    b"9" * 5_000 + b" 1 1 2 {}{}",
)


def put_report(world: World, member_id: str, raw: bytes) -> None:
    world.door.ask("HSET", world.keys.reports, member_id, raw)


@pytest.mark.parametrize("raw", BAD)
def test_a_report_that_cannot_be_read_is_left_out_and_named(world: World, raw: bytes) -> None:
    world.runs(a={P0}, b={P1})
    world.report("b", 1, able=True)
    put_report(world, "a", raw)
    view = world.read()
    assert list(view.reports) == ["b"]
    assert list(view.bad_reports) == ["a"]
    assert view.has_reported("a")
    assert len(view.bad_reports["a"]) <= 200
    faults = [f.text for f in invariants.faults(view) if f.kind is FaultKind.UNREADABLE]
    assert len(faults) == 1 and faults[0].startswith("the report of a cannot be read")


def test_a_member_is_asked_for_a_complete_report_instead_of_a_bad_one(alone: World) -> None:
    alone.report("a", 1, owned={str(P0): "7 running"})
    put_report(alone, "a", b"1 1 1 2 {}[]")
    assert not alone.read().asked
    alone.run(dashboard_side.ask_complete(["a", "nobody"]))
    assert list(alone.read().asked) == ["a"]
    assert alone.report("a", 2, complete=False).want_complete
    alone.report("a", 3, report=2, owned={str(P0): "7 running"})
    view = alone.read()
    assert (list(view.reports["a"].owned), view.bad_reports, view.asked) == ([P0], {}, {})


def test_a_row_that_cannot_be_read_is_left_out_and_ends_with_its_beat(world: World) -> None:
    world.runs(a={P0}, b={P1})
    world.door.ask("HSET", world.keys.members, "a", '{"joined_at_ms":"soon"}')
    world.pass_ms(2)
    view = world.read()
    assert (list(view.members), list(view.bad_members)) == (["b"], ["a"])
    assert world.evict("a") is EvictResult.OK
    view = world.read()
    assert (list(view.beats), view.bad_members) == (["b"], {})
    assert list(view.locks) == [P1]


def test_a_member_without_a_beat_goes(alone: World) -> None:
    alone.door.ask("ZREM", alone.keys.beats, "a")
    view = alone.read()
    assert expired_members(view) == {"a": 0}
    assert alone.run(dashboard_side.evict("a", 0, "lost")) is EvictResult.OK
    assert not alone.read().members


@pytest.mark.parametrize(
    "row",
    [
        "{",
        "[]",
        "7",
        "{}",
        "[" * 955 + "]" * 955,
        '{"secret":7}',
        '{"secret":"s","away_since_ms":"soon"}',
        '{"secret":"s","able_at_ms":null}',
    ],
)
def test_no_script_fails_over_a_row_that_cannot_be_read(world: World, row: str) -> None:
    fence, _ = world.runs(a={P0}, b={P1})
    world.door.ask("HSET", world.keys.members, "a", row)
    world.door.ask("ZADD", world.keys.beats, str(2**52), "b")
    world.read(Purpose.TICK)  # brings it back to now
    assert world.report("a", 1).status is Status.FENCED
    assert not world.leave("a")
    assert world.run(dashboard_side.set_drain(Drain.LEAVING, ["a", "b"])) == ["b"]
    world.assign(a={P0}, b={P1})
    assert world.join("a", "another secret") is JoinResult.OK, "nobody can be in its way"
    assert not world.read().bad_members
    assert world.fence("a", P0) > fence, "a new owner"


def test_a_name_that_is_none_is_left_out_and_shown_so_that_it_harms_nothing(world: World) -> None:
    world.runs(a={P0})
    stored = world.door.ask("HGET", world.keys.members, "a")
    world.door.ask("HSET", world.keys.members, "b\0\n\u202e", stored)
    view = world.read()
    assert (list(view.members), list(view.bad_members)) == (["a"], ["b\0\n\u202e"])
    texts = [fault.text for fault in invariants.faults(view)]
    assert len(texts) == 2 and all(text.isprintable() for text in texts)


def test_a_group_that_cannot_be_read_is_said_to_be_damaged(alone: World) -> None:
    alone.door.ask("HSET", alone.keys.meta, "incarnation", str(2**53))
    with pytest.raises(Damaged, match="incarnation"):
        alone.read()


def test_sessions_end_before_any_report_is_read(world: World) -> None:
    world.runs(a={P0})
    world.report("a", 1, able=True)
    world.door.ask("ZADD", world.keys.beats, "1", "a")
    view = world.read(Purpose.TICK)
    steps = tick(GroupRecord(name="g", settings=None, incarnation=1), Coordination.SERVER)
    assert isinstance(next(steps), effects.Read)
    effect = steps.send(view)
    assert isinstance(effect, effects.Run) and effect.call.script == "evict"
    assert isinstance(view.reports, Reports) and "_read" not in vars(view.reports)


# --- how many join --------------------------------------------------------------------------------


def join(world: World, member_id: str, most: int) -> JoinResult:
    return world.run(dashboard_side.join(member_id, "secret", {}, members=most)).result


def test_a_group_has_a_bounded_number_of_members(world: World) -> None:
    world.configure()
    assert [join(world, name, 2) for name in "abc"] == ["ok", "ok", "full"]
    assert join(world, "a", 2) is JoinResult.OK, "it is there"
    world.leave("a")
    assert join(world, "c", 2) is JoinResult.OK


def test_a_group_takes_a_bounded_number_of_joins_in_a_second(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "JOINS_PER_SECOND", 0)
    world.configure()
    before = world.group_epoch()
    assert world.join("a") is JoinResult.BUSY
    assert (world.group_epoch(), world.read().members) == (before, {})
    monkeypatch.setattr(sizes, "JOINS_PER_SECOND", 1)
    assert world.join("a") is JoinResult.OK
