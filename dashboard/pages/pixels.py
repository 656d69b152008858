"""Intervals to pixels: lines down, time across. Pure: columns of numbers in and out.

A pixel shows what lasted longest within it, and whether an owner came and went within it: what is
shorter than a pixel is joined. Overlaps are the exception, they are never lost.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dashboard.records.queries.intervals import Intervals, Whole, every_second

NOTHING, GAP, OVERLAP, OWNER = range(4)  # codes of a pixel; OWNER + hue is an owner of that hue
JOINED = 64  # beside a code: somebody had it for less than this pixel
WIDTH_MIN, LINES_MIN = 16, 100

Real = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """`width` pixels for [from_ms, to_ms); of what is after `until_ms` nothing is known. `gaps`:
    whether nobody between two intervals of a line is shown.
    """

    from_ms: int
    to_ms: int
    until_ms: int
    width: int
    gaps: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Each ends before the pixel `ends` of its line and shows `codes`; a line's last ends at
    `width`, where the next line begins.
    """

    ends: NDArray[np.uint16]
    codes: NDArray[np.uint8]
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pieces:
    """What a line shows from `begin` to `end` (pixels)."""

    line: Whole
    begin: Real
    end: Real
    code: Whole


def fitted(frame: Frame, found: Intervals, most: int) -> tuple[Intervals, Runs]:
    """At most so many runs, and the intervals in them: of every second line, of these every second,
    ... down to LINES_MIN, then with half as many pixels, ...
    """
    made = runs(frame, found)
    while made.codes.size > most and (len(found.numbers) > LINES_MIN or frame.width > WIDTH_MIN):
        if len(found.numbers) > LINES_MIN:
            found = every_second(found)
        else:
            frame = replace(frame, width=max(WIDTH_MIN, frame.width // 2))
        made = runs(frame, found)
    return found, made


def runs(frame: Frame, found: Intervals) -> Runs:
    if not found.numbers:
        return Runs(ends=np.empty(0, np.uint16), codes=np.empty(0, np.uint8), width=frame.width)
    pieces, overlaps = _pieces(frame, found)
    shown = np.zeros(len(found.numbers) * frame.width, np.int64)  # 1 + index of a piece; 0: none
    joined = _longest(shown, frame.width, pieces)
    _cover(shown, frame.width, overlaps, first=pieces.line.size + 1)
    codes = np.concatenate(([NOTHING], pieces.code, overlaps.code)).astype(np.uint8)[shown]
    codes[joined] |= JOINED
    changes = (shown[1:] != shown[:-1]) | (codes[1:] != codes[:-1])
    changes[frame.width - 1 :: frame.width] = True
    begins = np.concatenate(([0], np.flatnonzero(changes) + 1))
    ends = (np.append(begins[1:], shown.size) - 1) % frame.width + 1
    return Runs(ends=ends.astype(np.uint16), codes=codes[begins], width=frame.width)


def _pieces(frame: Frame, found: Intervals) -> tuple[_Pieces, _Pieces]:
    """(what has each moment of a line to itself; overlaps)"""
    line, length = found.line, max(0, frame.until_ms - found.from_ms)
    start = np.clip(found.started_ms - found.from_ms, 0, length)
    end = np.clip(found.ended_ms - found.from_ms, 0, length)
    base = line * (length + 2)  # far enough that no line reaches into the next
    until = np.maximum.accumulate(base + end)
    reached = until - base
    earlier = np.concatenate((np.full(min(1, line.size), -1), until[:-1])) - base  # < 0: none
    owned = _known(line, np.maximum(start, earlier), end, OWNER + found.hue)
    overlaps = _known(line, start, np.minimum(earlier, end), np.full_like(line, OVERLAP))
    parts = [owned]
    if frame.gaps:
        code, later = np.full_like(line, GAP), earlier >= 0
        parts.append(_known(line[later], earlier[later], start[later], code[later]))
        last = np.append(line[1:] != line[:-1], np.full(min(1, line.size), True))
        end_of_all = np.full_like(line, length)
        parts.append(_known(line[last], reached[last], end_of_all[last], code[last]))
    joined = tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))
    return _scaled(frame, found, joined), _scaled(frame, found, overlaps)


def _known(line: Whole, begin: Whole, end: Whole, code: Whole) -> tuple[Whole, ...]:
    kept = begin < end
    return line[kept], begin[kept], end[kept], code[kept]


def _scaled(frame: Frame, found: Intervals, columns: tuple[Whole, ...]) -> _Pieces:
    line, begin, end, code = columns
    shift, scale = found.from_ms - frame.from_ms, frame.width / (frame.to_ms - frame.from_ms)
    first, past = (np.clip((at + shift) * scale, 0, frame.width) for at in (begin, end))
    return _Pieces(line=line, begin=first, end=past, code=code)


def _longest(shown: Whole, width: int, pieces: _Pieces) -> Whole:
    """Puts into each pixel the piece that it shows. Returns the pixels within which an owner came
    and went.
    """
    start = pieces.line * width
    inner, past = np.ceil(pieces.begin).astype(np.int64), np.floor(pieces.end).astype(np.int64)
    within = past < inner  # begins and ends in one pixel
    left, right = ~within & (inner > pieces.begin), ~within & (past < pieces.end)
    index = np.arange(1, pieces.line.size + 1)
    _repeat(shown, start + inner, np.where(within, 0, past - inner), index)
    # (which, its pixel, how much of that)
    partly = (
        (within, start + past, pieces.end - pieces.begin),
        (left, start + inner - 1, inner - pieces.begin),
        (right, start + past, pieces.end - past),
    )
    which = np.concatenate([index[some] for some, _, _ in partly])
    cell = np.concatenate([cells[some] for some, cells, _ in partly])
    share = np.concatenate([shares[some] for some, _, shares in partly])
    order = np.lexsort((share, cell))  # of those in one pixel the last, the longest, stays
    shown[cell[order]] = which[order]
    return (start + past)[within & (pieces.code >= OWNER)]


def _cover(shown: Whole, width: int, pieces: _Pieces, first: int) -> None:
    """Every pixel that they touch."""
    begin, end = np.floor(pieces.begin).astype(np.int64), np.ceil(pieces.end).astype(np.int64)
    values = np.arange(first, first + pieces.line.size)
    _repeat(shown, pieces.line * width + begin, end - begin, values)


def _repeat(shown: Whole, places: Whole, lengths: Whole, values: Whole) -> None:
    """`values[i]` into the `lengths[i]` cells from `places[i]` on."""
    before = np.cumsum(lengths) - lengths
    cells = np.repeat(places - before, lengths) + np.arange(lengths.sum())
    shown[cells] = np.repeat(values, lengths)
