from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0009_evaluations")]
    operations = [
        migrations.AddField("historygap", "records_lost", models.BigIntegerField(default=0)),
    ]
