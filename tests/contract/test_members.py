"""Members come, show that they live, and go (coordination.md sections 2 and 3)."""

from typing import Any

from msgspec.structs import replace

from assignment.scripts import dashboard_side, replies
from assignment.scripts.agent_side import claim_turn, progress
from assignment.scripts.dashboard_side import EvictResult, JoinResult
from assignment.scripts.group_read import TICKER_AWAY_MS, Gap, Purpose, Ticker
from assignment.types import START, Claim
from assignment.wire import ConsumerHealth, Status
from tests.contract.world import LONG_MS, P0, P1, P2, World, offset


def test_join_is_refused_until_the_group_is_configured(world: World) -> None:
    assert world.join("a") is JoinResult.NO_GROUP
    world.configure()
    assert world.join("a") is JoinResult.OK


def test_a_group_is_configured_whole_even_when_its_meta_was_touched_before(world: World) -> None:
    world.commit(P0, 7, START, offset(1))  # refused, and counted in meta
    world.configure()
    meta = world.read().meta
    assert (meta.coordination, meta.mode_epoch, meta.group_epoch) == ("server", 1, 1)
    assert (meta.target_epoch, meta.coordinator_epoch, meta.settings_epoch) == (0, 0, 1)


def test_join_makes_a_row_a_beat_and_a_wish_for_a_complete_report(world: World) -> None:
    world.configure()
    world.join("a", host="h/1", zone="z", capacity=0.1, pid=7, version="1 2")
    group = world.read()
    row = group.members["a"]
    assert (row.host, row.zone, row.capacity, row.pid) == ("h/1", "z", 0.1, 7)
    assert (row.able, row.leaving, row.version) == (False, False, "1 2")
    assert row.joined_at_ms == group.beats["a"] == group.asked["a"]
    assert group.meta.group_epoch == 2


def test_whoever_joins_is_told_epochs_and_settings_in_the_same_answer(world: World) -> None:
    world.configure()
    joined = world.run(dashboard_side.join("a", "secret", {}))
    assert joined.reply is not None
    told, group = replies.read_reply(joined.reply), world.read()
    assert told.settings == group.meta.settings
    assert (told.status, told.want_complete) == (Status.OK, True)
    for name in (*replies.EPOCHS, "identity"):
        assert getattr(told, name) == getattr(group.meta, name)


def test_an_id_in_use_under_another_secret_is_refused_until_its_member_is_gone(
    world: World,
) -> None:
    world.configure()
    world.join("a", "one", host="first")
    before = world.group_epoch()
    assert world.join("a", "other", host="second") is JoinResult.IN_USE
    assert world.group_epoch() == before
    assert world.read().members["a"].host == "first"
    assert world.join("a", "one") is JoinResult.OK
    world.leave("a", "one")
    assert world.join("a", "other") is JoinResult.OK


def test_a_join_throws_the_report_of_before_away(alone: World) -> None:
    said: dict[str, Any] = {"able": True, "owned": {str(P0): "5 running"}}
    said |= {"replicas": {str(P1): {"role": "learner", "ready": True}}, "ready": [str(P1)]}
    alone.report("a", 1, **said)
    alone.join("a")
    group = alone.read()
    row = group.members["a"]
    assert ("a" in group.reports, "a" in group.asked) == (False, True)
    assert (row.able, row.ready) == (False, frozenset())
    assert alone.report("a", 2, **said).rebalance_due


def test_leave_releases_every_live_lock_and_removes_every_row(world: World) -> None:
    live, lost, _ = world.runs(a={P0, P1}, b={P2})
    world.report("a", 1, able=True)
    world.store.write_progress("a", ConsumerHealth(state="ready"))
    world.let_expire("a", Claim(P1, lost))
    before = world.read()
    assert world.leave("a")

    group = world.read()
    assert group.meta.group_epoch == before.meta.group_epoch + 1
    for rows in (group.members, group.beats, group.reports, group.asked, group.target):
        assert "a" not in rows
    assert list(group.locks) == [P2]
    assert (world.store.owned("a"), world.store.progress("a")) == ({}, None)
    ends = {e.partition: (e.kind, e.fence, e.at_ms) for e in world.events()[3:]}
    assert ends == {
        P0: ("released", live, group.grants[P0].until_ms),
        P1: ("expired", lost, before.grants[P1].until_ms),
    }
    assert [group.grants[p].ended for p in (P0, P1)] == ["released", "expired"]


def test_leave_under_another_secret_or_of_a_stranger_touches_nothing(
    world: World, fence: int
) -> None:
    before = world.group_epoch()
    assert not world.leave("a", "other")
    assert not world.leave("stranger")
    assert world.group_epoch() == before
    assert world.renew("a", Claim(P0, fence)).held == (True,)


def test_evict_ends_locks_as_expired_and_removes_the_member(world: World, fence: int) -> None:
    before = world.group_epoch()
    assert world.evict("a") is EvictResult.OK
    group = world.read()
    event = world.events()[-1]
    assert (event.kind, event.fence, event.at_ms) == ("expired", fence, group.grants[P0].until_ms)
    assert (group.locks, group.members) == ({}, {})
    assert group.meta.group_epoch == before + 1
    assert world.evict("a", group.now_ms) is EvictResult.GONE


def test_evict_is_refused_when_the_member_gave_a_newer_sign_of_life(alone: World) -> None:
    judged_ms = alone.read().beats["a"]
    alone.pass_ms(2)
    alone.renew("a")
    before = alone.group_epoch()
    assert alone.evict("a", judged_ms) is EvictResult.NEWER
    assert "a" in alone.read().members
    assert alone.group_epoch() == before


def test_progress_is_kept_for_members_only_and_parts_lie_over_it(alone: World) -> None:
    health = ConsumerHealth(state="ready", rows=5, rows_per_second=1.5, batch=3)
    assert alone.store.progress("a") is None
    assert alone.store.write_progress("a", health)
    assert alone.store.progress("a") == health
    assert not alone.store.write_progress("stranger", health)
    assert alone.store.progress("stranger") is None
    alone.run(progress("a", [("rows", 6)]))
    assert alone.store.progress("a") == replace(health, rows=6)


def test_a_tick_keeps_when_nobody_could_have_seen_a_sign_of_life(alone: World) -> None:
    first = alone.read(Purpose.TICK)
    now_ms = first.now_ms
    assert alone.read().meta.away == (Gap(now_ms, now_ms),), "the group is new to this Redis"
    alone.pass_ms(2)
    alone.read(Purpose.TICK, Ticker(away=Gap(now_ms - 9, now_ms - 1)))
    assert alone.read().meta.away == first.meta.away, "that was before the last tick"
    last_ms = alone.read().meta.tick_ms
    alone.pass_ms(5)
    alone.read(Purpose.TICK, Ticker(away=Gap(last_ms - 9, last_ms + 1)))
    assert alone.read().meta.away[0] == Gap(last_ms, last_ms + 1)
    last_ms = alone.read().meta.tick_ms
    alone.pass_ms(5)
    seen_ms = last_ms - TICKER_AWAY_MS  # the clock was set forward since, or it stood still
    now_ms = alone.read(Purpose.TICK, Ticker(seen_ms)).now_ms
    assert alone.read().meta.away[0] == Gap(last_ms, now_ms)
    last_ms = alone.read().meta.tick_ms
    alone.another_run()
    now_ms = alone.read(Purpose.TICK).now_ms
    assert alone.read().meta.away[0] == Gap(last_ms, now_ms)


def test_one_member_at_a_time_computes_and_gives_it_back(world: World) -> None:
    world.configure()

    def claim(member_id: str, lease_ms: int = LONG_MS) -> int:
        return world.run(claim_turn(member_id, lease_ms))

    assert claim("a") == -1, "a dashboard does"
    world.door.ask("HSET", world.keys.meta, "coordination", "client")
    assert (claim("a"), claim("a")) == (0, 0)
    assert 0 < claim("b") <= LONG_MS
    assert claim("b", 0) > 0 and claim("b") > 0, "it was not its own to give back"
    claim("a", 0)
    assert claim("b") == 0
