"""Whoever acted before there were roles goes on: staff, whom the pages called admins, as admins,
all others who may log in as operators of every group. Superusers may do everything without a grant.
"""

from django.apps.registry import Apps
from django.conf import settings
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

BY = "evenkeel"  # what the audit calls the system itself


def grant(apps: Apps, editor: BaseDatabaseSchemaEditor) -> None:
    users = apps.get_model("auth", "User").objects.using(editor.connection.alias)
    grants = apps.get_model("dashboard", "RoleGrant")
    grants.objects.using(editor.connection.alias).bulk_create(
        grants(
            user=user,
            role="admin" if user.is_staff else "operator",
            pattern="*",
            effect="allow",
            made_by=BY,
        )
        for user in users.filter(is_active=True, is_superuser=False)
    )


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("dashboard", "0014_role_grants"),
    ]
    operations = [migrations.RunPython(grant, migrations.RunPython.noop)]
