"""How large the next batch may be."""

from agent.spark.pace import BATCH_S, EVENTS_FIRST, EVENTS_MAX, EVENTS_MIN, Rate


def after(*batches: tuple[int, float]) -> int:
    rate = Rate()
    for events, took_s in batches:
        rate.learn(events, took_s)
    return rate.events_max


def test_full_quick_batch_is_followed_by_twice_as_many() -> None:
    assert after((EVENTS_FIRST, 0.5)) == 2 * EVENTS_FIRST


def test_small_batch_says_nothing() -> None:
    assert after((1, 0.2)) == EVENTS_FIRST


def test_batch_near_the_aim_keeps_the_size() -> None:
    assert after((EVENTS_FIRST, 0.1), (2 * EVENTS_FIRST, BATCH_S * 1.5)) == 2 * EVENTS_FIRST


def test_slow_batch_is_followed_by_half_at_least() -> None:
    quick = [(EVENTS_FIRST * 2**n, 0.1) for n in range(4)]
    size = EVENTS_FIRST * 2**4
    assert after(*quick, (size, BATCH_S * 100)) == size // 2


def test_size_stays_within_its_bounds() -> None:
    assert after(*[(EVENTS_MAX, 0.1)] * 50) == EVENTS_MAX
    assert after(*[(EVENTS_MIN, BATCH_S * 100)] * 50) == EVENTS_MIN
