"""An entry of the audit carries the group's name: a key would be set null when the group goes."""

from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps
from django.db.models import OuterRef, Subquery

import dashboard.records.stored


def copy_names(apps: StateApps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    group = apps.get_model("dashboard", "Group")
    entries = apps.get_model("dashboard", "AuditEntry").objects.exclude(group=None)
    names = group.objects.filter(pk=OuterRef("group_id")).values("name")
    entries.update(group_name=Subquery(names))


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0011_producer_tokens")]
    operations = [
        migrations.AddField(
            "auditentry", "group_name", models.CharField(max_length=100, blank=True, default="")
        ),
        migrations.RunPython(copy_names, migrations.RunPython.noop),
        migrations.RemoveField("auditentry", "group"),
        migrations.RenameField("auditentry", "group_name", "group"),
        migrations.AlterField(
            "auditentry", "group", models.CharField(max_length=100, blank=True, db_index=True)
        ),
        migrations.AlterField(
            "auditentry", "before", dashboard.records.stored.CanonicalJSON(null=True)
        ),
        migrations.AlterField(
            "auditentry", "after", dashboard.records.stored.CanonicalJSON(null=True)
        ),
        migrations.AlterField("auditentry", "at", models.DateTimeField(db_index=True)),
        migrations.AlterField(
            "auditentry", "result", models.CharField(max_length=500, default="done")
        ),
        migrations.AddField(
            "auditentry", "address", models.CharField(max_length=45, blank=True, default=""),
            preserve_default=False,
        ),
        migrations.AddField("auditentry", "count", models.PositiveIntegerField(default=1)),
        migrations.AddField("auditentry", "seq", models.BigIntegerField(null=True)),
        migrations.AddField(
            "auditentry", "mac", models.CharField(max_length=64, default=""),
            preserve_default=False,
        ),
    ]
