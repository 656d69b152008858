from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0022_open_tenures")]
    operations = [
        migrations.AddField("sample", "member_states", models.JSONField(null=True)),
        migrations.AddField("sample", "group_epoch", models.BigIntegerField(null=True)),
        migrations.AddField("sample", "tick_age_ms", models.BigIntegerField(null=True)),
    ]
