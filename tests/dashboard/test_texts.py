"""How values look."""

import re

import pytest

from assignment.errors import InvalidInput
from dashboard.pages import texts


@pytest.mark.parametrize(
    ("share", "shown"),
    [(1, "100 %"), (0.99999, "99.9 %"), (0.5, "50.0 %"), (0, "0 %"), (0.001, "0.1 %")],
)
def test_only_all_is_a_hundred_percent(share: float, shown: str) -> None:
    assert texts.percent(share).replace(texts.THIN, " ") == shown


def test_fences_are_incarnation_and_counter() -> None:
    assert texts.fence(3 * 2**32 + 17) == "3.17"


@pytest.mark.parametrize(
    ("member", "shown"),
    [
        ("worker-1-0123456789ab", "worker-1-012345"),
        ("a-b", "a-b"),
        ("0123456789ab", "0123456789ab"),
    ],
)
def test_members_are_cut_in_their_random_part(member: str, shown: str) -> None:
    assert texts.short_member(member) == shown


def test_moments_are_exact_and_in_utc() -> None:
    assert texts.exact(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"


@pytest.mark.parametrize(
    "text",
    [
        *("0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00", "9999-12-31T23:59:59.9999"),
        *("2026-13-01", "٣" * 12, ""),
    ],
)
def test_what_is_no_moment_is_named(text: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(repr(text))):
        texts.parse_moment(text)


@pytest.mark.parametrize(
    "text", ["0001-01-01", "1969-01-01", "9999-12-31T23:59:59.999", "9" * 14, "2026-01-31T03:12"]
)
def test_each_moment_that_is_read_can_be_written(text: str) -> None:
    assert texts.parse_moment(texts.exact(texts.parse_moment(text))) == texts.parse_moment(text)
