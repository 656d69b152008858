"""Intervals to pixels, against a reader that goes through time step by step."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.pages import pixels
from dashboard.pages.pixels import GAP, JOINED, NOTHING, OVERLAP, OWNER, Frame, Runs
from dashboard.records.queries.intervals import Intervals

Span = tuple[int, int, int, int]  # line, start, end, hue


def intervals(spans: list[Span], lines: int, from_ms: int = 0) -> Intervals:
    columns = [np.array([span[i] for span in spans], np.int64) for i in range(4)]
    line, started, ended, hue = columns
    return Intervals(
        numbers=range(lines), line=line, started_ms=started, ended_ms=ended, hue=hue,
        from_ms=from_ms,
    )  # fmt: skip


def frame(width: int = 10, to_ms: int = 100, until_ms: int = 100, gaps: bool = True) -> Frame:
    return Frame(from_ms=0, to_ms=to_ms, until_ms=until_ms, width=width, gaps=gaps)


def cells(made: Runs) -> list[list[int]]:
    lines: list[list[int]] = [[]]
    for end, code in zip(made.ends.tolist(), made.codes.tolist(), strict=True):
        if len(lines[-1]) == made.width:
            lines.append([])
        lines[-1] += [code] * (end - len(lines[-1]))
    return lines


def drawn(*spans: tuple[int, int, int], **how: int) -> str:
    """One line as text: `.` nothing, `-` nobody, `x` overlap, a digit the hue; `!` after what
    is joined.
    """
    (line,) = cells(pixels.runs(frame(**how), intervals([(0, *span) for span in spans], 1)))
    signs = {NOTHING: ".", GAP: "-", OVERLAP: "x"}
    return "".join(
        signs.get(code & ~JOINED, str((code & ~JOINED) - OWNER)) + ("!" if code & JOINED else "")
        for code in line
    )


@pytest.mark.parametrize(
    ("spans", "text"),
    [
        ((), ".........."),
        (((20, 100, 1),), "..11111111"),
        (((0, 40, 1), (60, 100, 2)), "1111--2222"),
        (((10, 40, 1),), ".111------"),
        (((-50, 200, 3),), "3333333333"),
        (((-50, -20, 3), (50, 100, 4)), "-----44444"),
        (((0, 60, 1), (50, 100, 2)), "11111x2222"),
        (((0, 100, 1), (32, 33, 2)), "111x111111"),
        (((0, 44, 1), (44, 100, 2)), "1111222222"),
        (((0, 46, 1), (46, 100, 2)), "1111122222"),
        (((0, 41, 1), (41, 43, 2), (43, 100, 3)), "11113!33333"),
        (((0, 41, 1), (48, 100, 2)), "1111-22222"),
    ],
)
def test_a_pixel_shows_what_lasted_longest(spans: tuple[tuple[int, int, int], ...], text: str):
    assert drawn(*spans) == text


def test_after_now_nothing_is_known() -> None:
    assert drawn((0, 30, 1), (50, 100, 2), until_ms=70) == "111--22..."
    assert drawn((0, 30, 1), until_ms=70) == "111----..."


def test_of_one_member_nobody_in_between_is_no_gap() -> None:
    assert drawn((0, 30, 1), (50, 70, 1), gaps=False) == "111..11..."


def test_what_was_not_read_is_not_drawn_as_a_gap() -> None:
    found = intervals([(0, 60, 100, 1)], 1, from_ms=60)
    assert cells(pixels.runs(frame(), found)) == [[NOTHING] * 6 + [OWNER + 1] * 4]


def test_two_tenures_of_the_same_hue_are_two_runs() -> None:
    made = pixels.runs(frame(), intervals([(0, 0, 50, 1), (0, 50, 100, 1)], 1))
    assert made.ends.tolist() == [5, 10]


def test_lines_do_not_reach_into_each_other() -> None:
    spans = [(0, 0, 100, 1), (2, 50, 100, 2), (3, 0, 20, 3)]
    assert cells(pixels.runs(frame(), intervals(spans, 4))) == [
        [OWNER + 1] * 10,
        [NOTHING] * 10,
        [NOTHING] * 5 + [OWNER + 2] * 5,
        [OWNER + 3] * 2 + [GAP] * 8,
    ]


def test_no_lines_are_no_runs() -> None:
    assert pixels.runs(frame(), intervals([], 0)).codes.size == 0


def test_where_there_are_too_many_runs_pixels_are_joined() -> None:
    width = 128
    spans = [(line, at, at + 1, at % 10) for line in range(20) for at in range(width)]
    found = intervals(spans, 20)
    _, whole = pixels.fitted(frame(width=width, to_ms=width, until_ms=width), found, 20 * width)
    assert (whole.width, whole.codes.size) == (width, 20 * width)
    kept, made = pixels.fitted(frame(width=width, to_ms=width, until_ms=width), found, 20 * 40)
    assert kept is found
    assert made.width == 32
    assert made.codes.size <= 20 * 40
    assert all(code & JOINED for code in made.codes.tolist())


def test_of_many_lines_every_second_is_left_before_pixels_are_joined() -> None:
    spans = [(line, at, at + 10, line % 10) for line in range(300) for at in range(0, 100, 10)]
    kept, made = pixels.fitted(frame(), intervals(spans, 300), 1_600)
    assert [*kept.numbers] == [*range(0, 300, 2)]
    assert made.width == 10
    assert cells(made) == [[OWNER + line % 10] * 10 for line in kept.numbers]


@st.composite
def histories(draw: st.DrawFn) -> list[Span]:
    """Of three lines, without overlaps."""
    spans: list[Span] = []
    for line in range(3):
        ends = sorted(draw(st.lists(st.integers(-30, 150), max_size=12, unique=True)))
        spans += [
            (line, a, b, draw(st.integers(0, 9))) for a, b in pairwise(ends) if draw(st.booleans())
        ]
    return spans


def moments(spans: list[Span], line: int) -> list[tuple[int, int]]:
    """Of each ms of 0 to 100 (which interval it was last, what is to be shown)."""
    found = []
    for at in range(100):
        begun = [i for i, span in enumerate(spans) if span[0] == line and span[1] <= at]
        last = begun[-1] if begun else -1
        code = NOTHING if last < 0 else OWNER + spans[last][3] if at < spans[last][2] else GAP
        found.append((last, code))
    return found


@given(histories())
def test_as_one_who_looks_at_every_moment(spans: list[Span]) -> None:
    made = cells(pixels.runs(frame(), intervals(spans, 3)))
    for line in range(3):
        seen = moments(spans, line)
        for pixel, code in enumerate(made[line]):
            counts = Counter(seen[pixel * 10 : pixel * 10 + 10])
            if len(counts) > 1:
                counts.pop((-1, NOTHING), None)  # whoever begins within a pixel is shown
            longest = {what for (_, what), n in counts.items() if n == max(counts.values())}
            assert code & ~JOINED in longest, (line, pixel)
