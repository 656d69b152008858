"""Columns of a group's row by which ticks decide. Whoever changes one says so (`changed`) when that
is committed, so that a ticker need not read all rows each second to know that none did.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

from django.db import models, transaction
from django.dispatch import Signal

COLUMNS = (
    *("incarnation", "coordination", "mode_incarnation", "mode_epoch", "pause_version"),
    *("scale_downs_version", "settings"),
)
changed = Signal()
M = TypeVar("M", bound=models.Model)


def tell(columns: Iterable[str] | None = None) -> None:
    """To be called when it is written: outside of a transaction that is when it is committed.
    `columns` None: all of a row, or a row that is new or gone.
    """
    if columns is None or not set(COLUMNS).isdisjoint(columns):
        transaction.on_commit(lambda: changed.send(None), robust=True)


class Telling(models.QuerySet[M]):
    def update(self, **columns: Any) -> int:
        if done := super().update(**columns):
            tell(columns)
        return done

    def bulk_create(self, *rows: Any, **options: Any) -> list[M]:
        made = super().bulk_create(*rows, **options)
        tell()
        return made

    def delete(self) -> tuple[int, dict[str, int]]:
        gone = super().delete()
        tell()
        return gone

    delete.queryset_only = True  # type: ignore[attr-defined]  # no manager deletes all


class Decided(models.Model):
    """A row of which that is told; `objects` is to be a manager of Telling."""

    class Meta:
        abstract = True

    def save(self, *arguments: Any, **options: Any) -> None:
        super().save(*arguments, **options)
        tell(options.get("update_fields"))

    def delete(self, *arguments: Any, **options: Any) -> tuple[int, dict[str, int]]:
        gone = super().delete(*arguments, **options)
        tell()
        return gone
