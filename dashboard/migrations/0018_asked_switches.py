import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0017_audit_guards")]
    operations = [
        migrations.CreateModel(
            name="AskedSwitch",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("note", models.CharField(max_length=50, unique=True)),
                ("coordination", models.CharField(max_length=16)),
                ("actor", models.TextField()),
                (
                    "source",
                    models.CharField(
                        choices=[
                            ("page", "Page"),
                            ("api", "Api"),
                            ("command", "Command"),
                            ("automatic", "Automatic"),
                        ],
                        max_length=10,
                    ),
                ),
                ("reason", models.TextField(blank=True)),
                ("address", models.TextField(blank=True)),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="asked_switches",
                        to="dashboard.group",
                    ),
                ),
            ],
        ),
    ]
