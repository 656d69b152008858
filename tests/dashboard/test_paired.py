"""The paired test: what differs in every pair is told from what differs by chance."""

from itertools import product

from dashboard.evaluation.paired import EXACT_PAIRS, compared

OTHER = [100.0, 140.0, 90.0, 120.0, 110.0]


def test_a_difference_that_every_pair_has_is_as_unlikely_as_five_equal_signs() -> None:
    found = compared([value + 10 + n for n, value in enumerate(OTHER)], OTHER)
    assert found["p"] == 2 / 2**5 == 0.0625
    assert found["median_difference"] == 12
    assert found["interval"] == [10, 14]


def test_more_pairs_make_the_same_difference_less_likely() -> None:
    few, many = (compared([1.0] * n, [0.0] * n)["p"] for n in (4, 10))
    assert many == round(2 / 2**10, 4) < few == 2 / 2**4


def test_signs_that_cancel_out_are_no_difference() -> None:
    assert compared([1.0, -1.0, 2.0, -2.0], [0.0] * 4)["p"] == 1


def test_noise_of_a_machine_that_hits_both_alike_hides_nothing() -> None:
    noisy = [value * 50 for value in OTHER]
    assert compared([v + 5 for v in noisy], noisy)["interval"] == [5, 5]


def test_the_share_of_choices_is_counted_exactly() -> None:
    differences = [3.0, -1.0, 2.0, 5.0]
    sums = [
        sum(s * d for s, d in zip(signs, differences, strict=True))
        for signs in product((1, -1), repeat=4)
    ]
    share = sum(abs(one) >= 9 for one in sums) / len(sums)
    assert compared(differences, [0.0] * 4)["p"] == share


def test_many_pairs_are_drawn_and_answered_the_same_again() -> None:
    count = EXACT_PAIRS + 8
    first, again = (compared([2.0] * count, [1.0] * count) for _ in range(2))
    assert first == again and first["p"] < 0.01


def test_a_single_pair_tells_nothing() -> None:
    assert compared([5.0], [3.0]) == {
        "pairs": 1,
        "median_difference": 2,
        "interval": None,
        "p": None,
    }
    assert compared([], [])["median_difference"] is None
