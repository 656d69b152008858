"""Durations and counts: how they look, and what may be typed."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignment.errors import InvalidInput
from assignment.settings import SCALE_DOWN_MAX_MS
from dashboard.pages import amounts, texts


@pytest.mark.parametrize(
    ("value_ms", "shown"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (1_250, "1.2 s"),
        (59_999, "59.9 s"),
        (60_000, "1 min"),
        (119_999, "1 min 59 s"),
        (300_000, "5 min"),
        (3_600_000, "1 h"),
        (5_400_000, "1 h 30 min"),
        (47 * 3_600_000, "47 h"),
        (49 * 3_600_000, "2 d 1 h"),
    ],
)
def test_a_duration_is_shown_in_two_units_at_most(value_ms: int, shown: str) -> None:
    assert amounts.span(value_ms) == shown


@pytest.mark.parametrize(
    ("value_ms", "shown"),
    [
        *((0, "0 ms"), (50, "50 ms"), (10_000, "10 s"), (1_500, "1.5 s"), (59_999, "59.999 s")),
        *((300_000, "5 min"), (60_001, "1 min 0.001 s"), (90_061_000, "1 d 1 h 1 min 1 s")),
    ],
)
def test_a_form_shows_all_of_a_duration(value_ms: int, shown: str) -> None:
    assert amounts.exact_span(value_ms) == shown


@given(st.integers(0, SCALE_DOWN_MAX_MS))
def test_what_is_shown_can_be_typed(value_ms: int) -> None:
    assert amounts.parse_span(amounts.exact_span(value_ms)) == value_ms
    assert amounts.parse_count(texts.grouped(value_ms)) == value_ms


@pytest.mark.parametrize(
    ("typed", "alone_ms", "ms"),
    [
        ("10 s", 1, 10_000),
        ("10s", 60_000, 10_000),
        ("5 min", 1, 300_000),
        ("5m", 1, 300_000),
        ("1 h 30 min", 1, 5_400_000),
        ("1h30min", 1, 5_400_000),
        (" 2 Days ", 1, 172_800_000),
        ("10000", 1, 10_000),
        ("0.5", 60_000, 30_000),
    ],
)
def test_durations_are_read_as_people_type_them(typed: str, alone_ms: int, ms: int) -> None:
    assert amounts.parse_span(typed, alone_ms) == ms


@pytest.mark.parametrize(
    "typed", ["soon", "-1", "1e9", "inf", "", "5 x", "5 min x", "1 5", "٣ s", "0.5", "1" * 61]
)
def test_what_is_no_duration_is_named(typed: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(repr(typed[: amounts.TYPED_MAX]))):
        amounts.parse_span(typed)


@pytest.mark.parametrize(
    ("typed", "count"),
    [("500", 500), ("20 000", 20_000), ("20,000", 20_000), ("20k", 20_000), ("1.5 M", 1_500_000)],
)
def test_counts_are_read_as_people_type_them(typed: str, count: int) -> None:
    assert amounts.parse_count(typed) == count


@pytest.mark.parametrize("typed", ["many", "-1", "1e9", "2,5", "20 00", "1.5", "", "1" * 61])
def test_what_is_no_count_is_named(typed: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(repr(typed[: amounts.TYPED_MAX]))):
        amounts.parse_count(typed)
