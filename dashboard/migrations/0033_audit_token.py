from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0032_offset_jumps")]
    operations = [
        migrations.AddField(
            model_name="auditentry",
            name="token",
            field=models.CharField(blank=True, default="", max_length=100),
        ),
    ]
