"""From when on a group's history is kept. On PostgreSQL, where rows that were dropped or changed take
room until they are vacuumed, that begins after a hundredth of the table instead of a fifth.
"""

from typing import Any

from django.db import migrations, models

SETTINGS = "autovacuum_vacuum_scale_factor", "autovacuum_vacuum_insert_scale_factor"


def set_vacuum(apps: Any, schema_editor: Any) -> None:
    _alter(apps, schema_editor, "SET", " = 0.01")


def reset_vacuum(apps: Any, schema_editor: Any) -> None:
    _alter(apps, schema_editor, "RESET", "")


def _alter(apps: Any, schema_editor: Any, verb: str, value: str) -> None:
    if schema_editor.connection.vendor == "postgresql":
        table = apps.get_model("dashboard", "Tenure")._meta.db_table
        named = ", ".join(f"{name}{value}" for name in SETTINGS)
        schema_editor.execute(f"ALTER TABLE {table} {verb} ({named})")


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0034_resting_groups")]
    operations = [
        migrations.AddField("group", "history_from_ms", models.BigIntegerField(default=0)),
        migrations.AddField("group", "history_dropped_ms", models.BigIntegerField(default=0)),
        migrations.RunPython(set_vacuum, reset_vacuum),
    ]
