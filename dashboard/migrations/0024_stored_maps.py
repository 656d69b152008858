import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0023_more_of_samples")]
    operations = [
        migrations.CreateModel(
            name="StoredMap",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at_ms", models.BigIntegerField()),
                ("seq", models.BigIntegerField()),
                ("map", models.BinaryField()),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="maps",
                        to="dashboard.group",
                    ),
                ),
            ],
            options={"ordering": ("-at_ms", "-id")},
        ),
        migrations.AddIndex(
            model_name="storedmap",
            index=models.Index(fields=["group", "at_ms"], name="map_at"),
        ),
    ]
