import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dashboard", "0027_webhooks"),
    ]

    operations = [
        migrations.CreateModel(
            name="MapStrip",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at_ms", models.BigIntegerField()),
                ("cells", models.TextField()),
                (
                    "group",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="map_strip",
                        to="dashboard.group",
                    ),
                ),
            ],
        ),
    ]
