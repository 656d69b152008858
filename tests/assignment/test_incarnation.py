"""When the incarnation is raised, how far, and above which numbers."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from assignment.coordinator import effects
from assignment.coordinator.facts import GroupRecord, Mirror
from assignment.coordinator.incarnation import (
    CLAIMED_AHEAD_MAX,
    CLAIMED_MAX,
    Known,
    needs_incarnation,
    without_bad_claims,
)
from assignment.coordinator.planning import Nothing, next_target
from assignment.coordinator.setting_up import may_raise, raise_incarnation
from assignment.errors import Damaged
from assignment.invariants import faults
from assignment.scripts.agent_side import SnapshotRecord
from assignment.scripts.group_read import Gap, GroupRead
from assignment.types import (
    INCARNATION_STEP,
    Coordination,
    GroupSettings,
    Held,
    HeldState,
    Offset,
    Partition,
)
from tests.builders import group, live

DATABASE = Known(incarnation=1, target_epoch=7, event_seq=40)


def view(incarnation: int = 1, joined_with: int = 1, **reported: int) -> GroupRead:
    """Of a member that joined with an incarnation and reports these epochs."""
    found = group(live("a", {0: 1}), event_seq=40, settings_epoch=3, incarnation=incarnation)
    row = replace(found.members["a"], incarnation=joined_with)
    report = structs.replace(found.reports["a"], **({"incarnation": incarnation} | reported))
    return replace(found, members={"a": row}, reports={"a": report})


def test_one_that_database_and_members_know_stands() -> None:
    epochs = {"mode_epoch": 1, "settings_epoch": 3, "target_incarnation": 1, "target_epoch": 7}
    assert needs_incarnation(view(**epochs), DATABASE) is None


def test_one_below_what_a_member_ever_saw_is_raised() -> None:
    joined = needs_incarnation(view(joined_with=5), DATABASE)
    assert joined is not None and joined.incarnation == 6
    reported = needs_incarnation(replace_report(view(), incarnation=4), DATABASE)
    assert reported is not None and reported.incarnation == 5


def held(of: GroupRead, incarnation: int) -> GroupRead:
    """It reports a partition under a fence of that incarnation."""
    own = {Partition("t", 0): Held(fence=incarnation * INCARNATION_STEP, state=HeldState.RUNNING)}
    return replace(of, reports={"a": structs.replace(of.reports["a"], owned=own)})


def claiming(incarnation: int) -> tuple[GroupRead, ...]:
    """In each way that a member can."""
    joined, said = view(joined_with=incarnation), replace_report(view(), incarnation=incarnation)
    return joined, said, held(view(), incarnation)


def test_what_a_member_claims_raises_it_by_a_bounded_step() -> None:
    """Of 1,024 above the database at most, the one that is set above the claim included."""
    for liar in claiming(1 + CLAIMED_AHEAD_MAX - 1):
        found = needs_incarnation(liar, DATABASE)
        assert found is not None and found.incarnation == 1 + CLAIMED_AHEAD_MAX
        assert without_bad_claims(liar, 1) is liar


@pytest.mark.parametrize("claimed", [1 + CLAIMED_AHEAD_MAX, 2**20, 2**21 - 1])
def test_a_claim_beyond_that_step_is_set_aside_and_told_and_raises_nothing(claimed: int) -> None:
    for liar in claiming(claimed):
        assert needs_incarnation(liar, DATABASE) is None
        sound = without_bad_claims(liar, 1)
        why = f"it claims incarnation {claimed}, 1 is the highest that is known"
        assert (sound.bad_claims, dict(sound.reports)) == ({"a": why}, {})
        assert sound.members["a"].incarnation == 0
        told = [fault.text for fault in faults(sound)]
        assert f"what a says cannot be and is left out: {why}" in told


def test_only_who_claims_more_than_can_be_is_set_aside() -> None:
    liar, most = view(joined_with=1 + CLAIMED_AHEAD_MAX), 1 + CLAIMED_AHEAD_MAX - 1
    members = {
        name: replace(liar.members["a"], incarnation=claimed)
        for name, claimed in (("c", most + 1), ("a", most + 1), ("b", most))
    }
    assert list(without_bad_claims(replace(liar, members=members), 1).bad_claims) == ["a", "c"]


def test_what_others_claim_counts_beside_one_that_is_set_aside() -> None:
    liar = view(joined_with=2**21 - 1)
    both = replace(liar, members={**liar.members, "b": replace(liar.members["a"], incarnation=5)})
    found = needs_incarnation(both, DATABASE)
    assert found is not None and found.incarnation == 6


def test_members_are_believed_above_what_redis_or_the_database_knows() -> None:
    """Whichever came back from a backup: the other one knows."""
    lost = replace(view(1, joined_with=5_001), run_id="another")
    found = needs_incarnation(lost, replace(DATABASE, incarnation=5_000))
    assert found is not None and found.incarnation == 5_002
    assert without_bad_claims(lost, 5_000) is lost
    found = needs_incarnation(view(5_000, joined_with=5_001), DATABASE)
    assert found is not None and found.incarnation == 5_002


def test_where_none_is_left_it_is_said_and_none_is_chosen() -> None:
    top = replace(view(2**21 - 1), run_id="another")
    with pytest.raises(Damaged, match="no incarnation is left above 2097151"):
        needs_incarnation(top, DATABASE)


def test_one_of_redis_that_no_step_of_the_database_leads_to_is_not_kept() -> None:
    record = GroupRecord(name="g", settings=GroupSettings(stream="t", partitions=1), incarnation=1)
    far = replace(view(1 + CLAIMED_AHEAD_MAX + 2), run_id="another")
    with pytest.raises(Damaged, match="incarnation 1027 of Redis"):
        effects.run(raise_incarnation(record, far), lambda effect: pytest.fail(str(effect)))


def test_claims_never_use_up_what_a_redis_that_forgets_will_need() -> None:
    """Again and again, each believed by a bounded step: half of all numbers is left."""
    known, liar = DATABASE, view()
    for _ in range(3_000):
        claim = min(known.incarnation + CLAIMED_AHEAD_MAX - 1, 2**21 - 1)
        found = needs_incarnation(replace_report(liar, incarnation=claim), known)
        if found is None:
            break
        assert found.incarnation <= known.incarnation + CLAIMED_AHEAD_MAX
        known = replace(known, incarnation=found.incarnation)
        liar = replace(liar, meta=replace(liar.meta, incarnation=found.incarnation))
    assert found is None
    assert CLAIMED_MAX - CLAIMED_AHEAD_MAX < known.incarnation <= CLAIMED_MAX


def test_a_database_from_a_backup_below_redis_raises_nothing() -> None:
    assert needs_incarnation(view(9, joined_with=9), Known(incarnation=2)) is None


def test_redis_that_counts_below_what_is_remembered_lost_writes() -> None:
    """Under the same run_id and replication id: a machine that was put back from a snapshot."""
    assert needs_incarnation(view(), replace(DATABASE, event_seq=41)) is not None
    assert needs_incarnation(view(), replace(DATABASE, target_epoch=9)) is not None
    assert needs_incarnation(view(mode_epoch=2), DATABASE) is not None
    assert needs_incarnation(view(settings_epoch=4), DATABASE) is not None
    assert needs_incarnation(view(target_incarnation=1, target_epoch=9), DATABASE) is not None


def test_numbers_of_another_incarnation_say_nothing_about_this_one() -> None:
    older = replace_report(view(2, joined_with=2), incarnation=1, settings_epoch=99)
    assert needs_incarnation(older, replace(DATABASE, incarnation=2)) is None


def test_numbers_are_lifted_above_the_highest_that_anybody_knows() -> None:
    seen = replace(view(mode_epoch=4, settings_epoch=9, target_epoch=12), run_id="another")
    found = needs_incarnation(seen, replace(DATABASE, target_epoch=20, event_seq=50))
    assert found is not None
    assert found.known == {
        "group_epoch": 20,
        "mode_epoch": 4,
        "settings_epoch": 9,
        "event_seq": 51,  # one is left out: the history shows that events are missing
    }


def test_a_number_that_cannot_have_been_counted_is_set_aside() -> None:
    seen = view(mode_epoch=2**50, settings_epoch=2**50, target_epoch=2**50)
    assert needs_incarnation(seen, DATABASE) is None


def test_no_target_is_made_before_the_incarnation_is_raised() -> None:
    restarted = replace(group(live("a", {0: 1})), run_id="another")
    assert isinstance(next_target(restarted), Nothing)


def replace_report(of: GroupRead, **epochs: int) -> GroupRead:
    return replace(of, reports={"a": structs.replace(of.reports["a"], **epochs)})


def test_agents_leave_it_to_a_dashboard_that_ticks() -> None:
    """Two memories must not choose the same one for two Redis that forgot."""
    read, now_ms = view(), view().now_ms
    alone = replace(read, meta=replace(read.meta, identity=""))
    served = replace(read, meta=replace(read.meta, identity="its", served_ms=now_ms - 3_000))
    left = replace(served, meta=replace(served.meta, served_ms=now_ms - 3_001))
    record = GroupRecord(name="g", settings=None)
    asked = [may_raise(record, one, Coordination.CLIENT) for one in (alone, served, left)]
    assert asked == [True, False, True]


def test_a_dashboard_awaits_the_word_of_agents_that_may_have_chosen() -> None:
    read = view()
    read = replace(read, meta=replace(read.meta, tick_ms=read.now_ms))
    back = replace(read, meta=replace(read.meta, away=(Gap(0, read.now_ms),)))
    server = GroupRecord(name="g", settings=None)
    client = replace(server, coordination=Coordination.CLIENT)
    asked = [may_raise(one, back, Coordination.SERVER) for one in (server, client)]
    assert asked == [True, False]
    assert may_raise(client, read, Coordination.SERVER)


def test_none_is_raised_above_what_records_have() -> None:
    """A snapshot's fence tells of one that neither Redis nor the records know any more."""
    wiped = replace(group(incarnation=0), grants={}, offsets={}, snapshots={})
    fence = 9 * INCARNATION_STEP + 1
    snapshot = SnapshotRecord(
        url="f", offset=Offset(5, 0), changelog_id="0-0", total=5, fence=fence
    )
    mirror = Mirror(
        target_epoch=0, event_seq=0, snapshots={Partition("t", 0): snapshot}, offsets={}
    )
    kept: list[int] = []
    raised: list[int] = []

    def perform(effect: effects.Effect[Any]) -> Any:
        match effect:
            case effects.KeepIncarnation(incarnation):
                kept.append(incarnation)
                return True
            case effects.RaiseIncarnation(incarnation=incarnation):
                raised.append(incarnation)
                assert incarnation in kept
                return True
            case effects.ReadMirror():
                return mirror
            case effects.ReadHeld():
                return False
            case effects.Run() | effects.LiftStreams():
                return {}
        return None

    record = GroupRecord(name="g", settings=None)
    effects.run(raise_incarnation(record, wiped), perform)
    assert raised == [10]
