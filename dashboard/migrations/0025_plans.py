from typing import Any

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import F, Q

STATES = (
    *("draft", "proposed", "approved", "running", "done", "partly done", "failed"),
    *("cancelled", "rejected", "expired", "stale"),
)
KINDS = (
    ("rebalance", "Rebalance"),
    ("scale-down", "Scale Down"),
    ("strategy change", "Strategy"),
    ("coordination change", "Coordination"),
)
SOURCES = ("page", "api", "command", "automatic")
UNAPPROVED = ["draft", "proposed", "rejected", "expired", "stale", "cancelled"]
REQUESTS = ("pending", "taken", "done", "refused")


def one_of_a_plan(name: str) -> Any:
    return models.OneToOneField(
        "dashboard.Plan", django.db.models.deletion.SET_NULL, null=True, related_name=name
    )


def words(known: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(word, word.title()) for word in known]


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0024_stored_maps")]
    operations = [
        migrations.CreateModel(
            name="Plan",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(choices=list(KINDS), max_length=20)),
                ("state", models.CharField(choices=words(STATES), default="draft", max_length=12)),
                ("packed", models.BinaryField()),
                ("digest", models.CharField(max_length=64)),
                ("proposed_by", models.CharField(max_length=150)),
                ("proposed_at_ms", models.BigIntegerField()),
                ("source", models.CharField(choices=words(SOURCES), max_length=10)),
                ("reason", models.CharField(blank=True, max_length=500)),
                ("expires_at_ms", models.BigIntegerField()),
                ("needs_approval", models.BooleanField()),
                ("approved_by", models.CharField(blank=True, max_length=150)),
                ("decided_by", models.CharField(blank=True, max_length=150)),
                ("decided_at_ms", models.BigIntegerField(null=True)),
                ("decision", models.CharField(blank=True, max_length=500)),
                ("run_by", models.CharField(blank=True, max_length=150)),
                ("started_at_ms", models.BigIntegerField(null=True)),
                ("ended_at_ms", models.BigIntegerField(null=True)),
                ("problem", models.CharField(blank=True, max_length=500)),
                ("moved", models.JSONField(null=True)),
                (
                    "group",
                    models.ForeignKey(
                        "dashboard.Group",
                        django.db.models.deletion.CASCADE,
                        related_name="plans",
                    ),
                ),
            ],
            options={
                "ordering": ("-id",),
                "indexes": [models.Index(fields=["group", "state"], name="plan_of_state")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=Q(state="running"),
                        fields=("group",),
                        name="one_plan_runs_at_a_time",
                    ),
                    models.CheckConstraint(
                        condition=Q(approved_by="") | ~Q(approved_by=F("proposed_by")),
                        name="nobody_approves_their_own_plan",
                    ),
                    models.CheckConstraint(
                        condition=Q(needs_approval=False)
                        | Q(state__in=UNAPPROVED)
                        | ~Q(approved_by=""),
                        name="a_plan_is_approved_before_it_runs",
                    ),
                ],
            },
        ),
        migrations.AlterField(
            "rebalancerequest",
            "state",
            models.CharField(choices=words(REQUESTS), default="pending", max_length=10),
        ),
        migrations.AddField("rebalancerequest", "plan", one_of_a_plan("request")),
        migrations.AddField("scaledown", "plan", one_of_a_plan("scale_down")),
    ]
