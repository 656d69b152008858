import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("dashboard", "0013_audit_chain"),
    ]
    operations = [
        migrations.CreateModel(
            name="RoleGrant",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("viewer", "Viewer"),
                            ("operator", "Operator"),
                            ("approver", "Approver"),
                            ("auditor", "Auditor"),
                            ("admin", "Admin"),
                        ],
                        max_length=10,
                    ),
                ),
                ("pattern", models.CharField(max_length=100)),
                (
                    "effect",
                    models.CharField(
                        choices=[("deny", "Deny"), ("stage", "Stage"), ("allow", "Allow")],
                        max_length=5,
                    ),
                ),
                ("made_at", models.DateTimeField(auto_now_add=True)),
                ("made_by", models.CharField(max_length=150)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="role_grants",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ("pattern", "role", "effect", "id"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("user", "role", "pattern", "effect"),
                        name="one_grant",
                    ),
                    models.CheckConstraint(
                        condition=~models.Q(effect="stage")
                        | models.Q(role__in=["admin", "operator"]),
                        name="only_changing_roles_are_staged",
                    ),
                ],
            },
        ),
    ]
