from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0008_mode")]
    operations = [
        migrations.CreateModel(
            name="Evaluation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("asked_at", models.DateTimeField(auto_now_add=True)),
                ("actor", models.CharField(blank=True, max_length=150)),
                ("faults", models.CharField(max_length=1_000)),
                ("coordination", models.CharField(max_length=10)),
                ("strategy", models.CharField(max_length=50)),
                ("options", models.JSONField()),
                ("pid", models.PositiveIntegerField(null=True)),
                ("pid_started", models.FloatField(null=True)),
                ("exit_code", models.PositiveSmallIntegerField(null=True)),
                ("result", models.JSONField(null=True)),
            ],
            options={"ordering": ("-asked_at", "-id")},
        )
    ]
