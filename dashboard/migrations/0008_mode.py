from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0007_coordination")]
    operations = [
        migrations.AddField("group", "mode_incarnation", models.BigIntegerField(default=0)),
        migrations.AddField("group", "mode_epoch", models.BigIntegerField(default=0)),
    ]
