"""Entries that were there are chained in the order in which they were made: as they are now."""

from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from dashboard.records import chain
from dashboard.records.stored import HEAD

AT_ONCE = 500


def seal(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    entry = apps.get_model("dashboard", "AuditEntry")
    head = apps.get_model("dashboard", "AuditHead")(pk=HEAD)
    last = 0
    while rows := list(entry.objects.filter(pk__gt=last).order_by("pk")[:AT_ONCE]):
        chain.link(head, rows)
        entry.objects.bulk_update(rows, ["seq", "mac", "before", "after"])
        last = rows[-1].pk
    head.save()


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0012_audit_names")]
    operations = [
        migrations.CreateModel(
            "AuditHead",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("seq", models.BigIntegerField(default=0)),
                ("mac", models.CharField(max_length=64, blank=True, default="")),
                ("through", models.BigIntegerField(default=0)),
                ("through_mac", models.CharField(max_length=64, blank=True, default="")),
            ],
        ),
        migrations.RunPython(seal, migrations.RunPython.noop),
        migrations.AlterField("auditentry", "seq", models.BigIntegerField(unique=True)),
        migrations.AlterModelOptions(
            "auditentry", {"ordering": ("-seq",), "verbose_name_plural": "audit entries"}
        ),
    ]
