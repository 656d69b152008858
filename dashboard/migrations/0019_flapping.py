"""A sample says what flaps; joins are found by their time."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0018_asked_switches")]
    operations = [
        migrations.AddField(
            model_name="sample",
            name="flapping",
            field=models.CharField(blank=True, max_length=1000, default=""),
            preserve_default=False,
        ),
        migrations.AddIndex(
            model_name="memberrecord",
            index=models.Index(fields=["group", "joined_at_ms"], name="stay_joined"),
        ),
    ]
