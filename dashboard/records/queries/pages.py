"""Long lists in pieces: by key, so that the millionth row costs what the first does."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)
Shown = TypeVar("Shown")  # a row, or what is made of one
SCAN_MAX = 2_000  # rows looked at for one page by a test that the database cannot make
CSV_MAX = 100_000  # rows of one file


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Shown]):
    """`older` continues it: the key below which the next page begins; None at the end."""

    rows: Sequence[Shown]
    older: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a list is narrowed to, as far as it has such; "" and None let everything through."""

    member: str = ""
    partition: int | None = None
    first: int | None = None  # of the partitions
    last: int | None = None
    cause: str = ""
    actor: str = ""
    action: str = ""
    object: str = ""
    group: str = ""
    result: str = ""
    from_ms: int | None = None
    to_ms: int | None = None
    before: int | None = None

    @property
    def only_partition(self) -> int | None:
        """None: several, or all."""
        if self.partition is None and self.first is not None and self.first == self.last:
            return self.first
        return self.partition

    def until(self, at_ms: int) -> Self:
        """Nothing that came after that moment."""
        return replace(self, to_ms=min(at_ms + 1, self.to_ms or at_ms + 1))


def narrowed(found: QuerySet[Row], **wanted: Any) -> QuerySet[Row]:
    """What is "" or None lets everything through."""
    return found.filter(**{n: value for n, value in wanted.items() if value not in ("", None)})


def for_file(found: QuerySet[Row]) -> Iterator[Row]:
    return found[:CSV_MAX].iterator(chunk_size=500)


def page_of(
    found: QuerySet[Row],
    size: int,
    keep: Callable[[Row], bool] | None = None,
    *,
    key: str = "pk",
) -> Page[Row]:
    """The first `size` rows that `keep` lets through, of at most SCAN_MAX looked at, which are
    ordered by the field `key`, the highest first.
    """
    kept: list[Row] = []
    last = None
    seen = 0
    scan = size + 1 if keep is None else SCAN_MAX
    for row in found[:scan].iterator(chunk_size=200):
        if len(kept) == size:
            return Page(rows=kept, older=last)
        seen += 1
        last = getattr(row, key)
        if keep is None or keep(row):
            kept.append(row)
    return Page(rows=kept, older=last if keep is not None and seen == SCAN_MAX else None)
