from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0029_api_tokens_and_answers")]
    operations = [
        migrations.AddField("group", "pauses", models.JSONField(default=dict)),
        migrations.AddField("group", "pause_version", models.BigIntegerField(default=0)),
        migrations.AddField("sample", "paused", models.PositiveIntegerField(default=0)),
        migrations.AddField("sample", "pausing", models.PositiveIntegerField(default=0)),
        migrations.AddField("sample", "lag_paused", models.BigIntegerField(default=0)),
    ]
