"""Of the rounds that are there, those whose cause has always been that of a later round follow the
one before them; a rebalance ended with the first round after which nothing was left to move or to
learn.
"""

from typing import Any

from django.db import migrations

LATER = ("ready", "next round")
BATCH = 1_000
COLUMNS = ("pk", "group_id", "cause", "outcome", "learning", "finished_at_ms", "ownership_gap_ms")


def group_rounds(apps: Any, schema_editor: Any) -> None:
    table = apps.get_model("dashboard", "Rebalance").objects
    changed: list[Any] = []
    lasting: dict[int, Any] = {}  # rebalances of this group that have not ended
    group = first = None
    for row in table.only(*COLUMNS).order_by("group_id", "pk").iterator(chunk_size=BATCH):
        if row.group_id != group:
            changed += lasting.values()
            group, first, lasting = row.group_id, None, {}
        if first is not None and row.cause in LATER:
            row.first_id = first.pk
            changed.append(row)
            first.ended_at_ms = first.gap_in_all_ms = None  # of several rounds nobody summed it up
        else:
            first = row
            first.gap_in_all_ms = row.ownership_gap_ms
        lasting[first.pk] = first
        if row.outcome == "done" and not row.learning:
            for whole in lasting.values():
                whole.ended_at_ms = row.finished_at_ms
            changed += lasting.values()
            lasting = {}
        if len(changed) >= BATCH:
            _store(table, changed)
            changed = []
    _store(table, [*changed, *lasting.values()])


def _store(table: Any, rows: list[Any]) -> None:
    table.bulk_update(rows, ["first_id", "ended_at_ms", "gap_in_all_ms"], batch_size=BATCH)


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0020_rebalances_have_rounds")]
    operations = [migrations.RunPython(group_rounds, migrations.RunPython.noop)]
