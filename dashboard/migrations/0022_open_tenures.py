from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0021_group_rounds")]
    operations = [
        migrations.AddIndex(
            model_name="tenure",
            index=models.Index(
                condition=models.Q(("ended_ms", None)),
                fields=["group", "number"],
                name="tenure_open",
            ),
        ),
    ]
