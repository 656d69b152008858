import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("dashboard", "0030_pauses"),
    ]
    operations = [
        migrations.CreateModel(
            "ApprovalRule",
            [
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=100, unique=True)),
                (
                    "author",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="approval_rules",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("pattern", models.CharField(max_length=100)),
                ("kinds", models.JSONField()),
                ("moves_max", models.PositiveIntegerField()),
                ("begins", models.PositiveSmallIntegerField()),
                ("ends", models.PositiveSmallIntegerField()),
            ],
            options={
                "ordering": ("name",),
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(begins__lt=1440) & Q(ends__lt=1440),
                        name="a_rule_is_of_minutes_of_the_day",
                    )
                ],
            },
        ),
        migrations.AddField(
            "plan", "approved_by_rule", models.CharField(blank=True, default="", max_length=100),
            preserve_default=False,
        ),
        migrations.AddField("plan", "rule_values", models.JSONField(null=True)),
        migrations.AddConstraint(
            "plan",
            models.CheckConstraint(
                condition=Q(approved_by_rule="") | ~Q(approved_by=""),
                name="a_rule_approves_in_a_persons_name",
            ),
        ),
    ]
