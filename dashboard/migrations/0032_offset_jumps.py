import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0031_approval_rules")]
    operations = [
        migrations.CreateModel(
            name="OffsetJump",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at_ms", models.BigIntegerField()),
                ("number", models.PositiveIntegerField()),
                ("fence", models.BigIntegerField()),
                ("before", models.CharField(max_length=50)),
                ("after", models.CharField(max_length=50)),
                ("events", models.BigIntegerField(null=True)),
                ("actor", models.CharField(max_length=150)),
                ("reason", models.CharField(blank=True, max_length=500)),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="offset_jumps",
                        to="dashboard.group",
                    ),
                ),
            ],
            options={"ordering": ("-id",)},
        ),
    ]
