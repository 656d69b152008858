"""Long lists in pieces: by key, so that the millionth row costs what the first does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db.models import QuerySet

T = TypeVar("T")
R = TypeVar("R")
SCAN_MAX = 2_000  # rows looked at for one page by a test that the database cannot make


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """`older` continues it: the key below which the next page begins; None at the end."""

    rows: Sequence[T]
    older: int | None


def page_of(
    found: QuerySet[Any],
    key: str,
    size: int,
    make: Callable[[Any], R],
    keep: Callable[[Any], bool] | None = None,
) -> Page[R]:
    """The first `size` rows that `keep` lets through, of at most SCAN_MAX looked at."""
    kept: list[R] = []
    last = None
    seen = 0
    scan = size + 1 if keep is None else SCAN_MAX
    for row in found[:scan].iterator(chunk_size=200):
        if len(kept) == size:
            return Page(rows=kept, older=last)
        seen += 1
        last = getattr(row, key)
        if keep is None or keep(row):
            kept.append(make(row))
    return Page(rows=kept, older=last if keep is not None and seen == SCAN_MAX else None)
