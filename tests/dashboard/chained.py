"""Entries of the audit's chain, and SQL beside it."""

from django.db import connection, transaction

from dashboard.models import AuditEntry, AuditSource
from dashboard.records import audit
from dashboard.records.audit import By

ANN = By("ann", AuditSource.PAGE, "a test")


def write(count: int) -> list[AuditEntry]:
    for number in range(count):
        audit.record(ANN, "turn", object=f"wheel {number}", before={"at": number})
    return list(AuditEntry.objects.order_by("seq"))


def sql(statement: str, *values: object) -> int:
    """How many rows it changed."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return int(cursor.rowcount)
