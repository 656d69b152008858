"""Members beat and join beside each other."""

from hypothesis import given
from hypothesis import strategies as st

from assignment.member import pacing

PHASES = st.floats(0, 1, exclude_max=True)
MOMENTS = st.integers(0, 10**9)
PAUSES = st.integers(10, 60_000)


@given(MOMENTS, PAUSES, PHASES)
def test_the_next_beat_is_the_next_of_the_members_own_row(
    now_ms: int, pause_ms: int, phase: float
) -> None:
    due_ms = pacing.next_beat_ms(now_ms, pause_ms, phase)
    assert now_ms < due_ms <= now_ms + pause_ms
    assert due_ms % pause_ms == int(phase * pause_ms)
    assert pacing.next_beat_ms(due_ms, pause_ms, phase) == due_ms + pause_ms


def test_members_are_spread_over_the_pause() -> None:
    turns = {int(pacing.phase_of(f"member-{n}") * 10) for n in range(100)}
    assert turns == set(range(10))


def test_who_is_not_taken_in_asks_less_often_up_to_once_a_heartbeat() -> None:
    pauses = [pacing.JOIN_RETRY_MS]
    for _ in range(4):
        pauses.append(pacing.next_join_pause_ms(pauses[-1], 3_000))
    assert pauses == [500, 1_000, 2_000, 3_000, 3_000]
    assert pacing.next_join_pause_ms(500, 100) == 500


def test_the_fenced_join_anew_within_half_a_second() -> None:
    assert [pacing.rejoin_ms(p, 3_000) for p in (0.0, 0.5, 0.998)] == [0, 250, 499]
    assert pacing.rejoin_ms(0.5, 100) == 50


def test_what_all_are_told_a_large_group_does_beside_each_other() -> None:
    phases = [pacing.phase_of(f"m{n}") for n in range(10_000)]
    called = [pacing.called_ms(10_000, phase) for phase in phases]
    assert max(called) < 10_000 * 1_000 / pacing.CALLED_A_SECOND
    in_first_second = sum(wait_ms < 1_000 for wait_ms in called)
    assert abs(in_first_second - pacing.CALLED_A_SECOND) < 300
    assert pacing.news_ms(10_000, 0.5) == 5_000


def test_few_members_wait_for_nobody() -> None:
    assert pacing.called_ms(pacing.FEW, 0.999) == pacing.news_ms(pacing.FEW, 0.999) == 0
