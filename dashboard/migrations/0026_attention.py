import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0025_plans"),
    ]

    operations = [
        migrations.CreateModel(
            name="AttentionLimits",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("values", models.JSONField(default=dict)),
                (
                    "group",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="attention_limits",
                        to="dashboard.group",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Occurrence",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("rule", models.CharField(max_length=20)),
                ("why", models.CharField(max_length=1000)),
                ("began_at_ms", models.BigIntegerField()),
                ("seen_at_ms", models.BigIntegerField()),
                ("raised_at_ms", models.BigIntegerField(null=True)),
                ("ended_at_ms", models.BigIntegerField(null=True)),
                ("acknowledged_at_ms", models.BigIntegerField(null=True)),
                ("acknowledged_by", models.CharField(blank=True, max_length=150)),
                ("note", models.CharField(blank=True, max_length=500)),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="occurrences",
                        to="dashboard.group",
                    ),
                ),
            ],
            options={
                "ordering": ("-began_at_ms", "-id"),
                "indexes": [
                    models.Index(fields=["group", "began_at_ms"], name="occurrence_began"),
                    models.Index(
                        condition=models.Q(("ended_at_ms__isnull", True)),
                        fields=["raised_at_ms"],
                        name="occurrence_open",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at_ms__isnull", True)),
                        fields=("group", "rule"),
                        name="one_open_occurrence_of_a_rule",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("acknowledged_at_ms__isnull", True), ("acknowledged_by", "")),
                            models.Q(
                                ("acknowledged_at_ms__isnull", False),
                                models.Q(("acknowledged_by", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="acknowledged_by_somebody",
                    ),
                ],
            },
        ),
    ]
