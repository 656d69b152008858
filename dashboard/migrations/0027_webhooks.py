import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0026_attention"),
    ]

    operations = [
        migrations.CreateModel(
            name="Webhook",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=100, unique=True)),
                ("url", models.CharField(max_length=500)),
                ("salt", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("created_by", models.CharField(max_length=150)),
            ],
            options={
                "ordering": ("name",),
            },
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "event",
                    models.CharField(
                        choices=[
                            ("raised", "Raised"),
                            ("acknowledged", "Acknowledged"),
                            ("ended", "Ended"),
                            ("test", "Test"),
                        ],
                        max_length=12,
                    ),
                ),
                ("body", models.TextField()),
                ("created_at_ms", models.BigIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "Pending"),
                            ("delivered", "Delivered"),
                            ("failed", "Failed"),
                            ("dropped", "Dropped"),
                        ],
                        default="pending",
                        max_length=9,
                    ),
                ),
                ("tries", models.PositiveSmallIntegerField(default=0)),
                ("due_at_ms", models.BigIntegerField()),
                ("ended_at_ms", models.BigIntegerField(null=True)),
                ("status", models.PositiveSmallIntegerField(null=True)),
                ("problem", models.CharField(blank=True, max_length=200)),
                (
                    "webhook",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="deliveries",
                        to="dashboard.webhook",
                    ),
                ),
            ],
            options={
                "ordering": ("-created_at_ms", "-id"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "pending")),
                        fields=["due_at_ms"],
                        name="delivery_due",
                    ),
                    models.Index(fields=["webhook", "created_at_ms"], name="delivery_created"),
                ],
            },
        ),
    ]
