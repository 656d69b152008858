from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0006_incarnations")]
    operations = [
        migrations.AddField(
            model_name="group",
            name="coordination",
            field=models.CharField(default="server", max_length=16),
        ),
    ]
