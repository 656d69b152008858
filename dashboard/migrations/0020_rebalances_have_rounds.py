import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dashboard", "0019_flapping")]
    operations = [
        migrations.AddField(
            model_name="rebalance",
            name="first",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="later_rounds",
                to="dashboard.rebalance",
            ),
        ),
        migrations.AddField(
            model_name="rebalance",
            name="ended_at_ms",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="rebalance",
            name="gap_in_all_ms",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddIndex(
            model_name="rebalance",
            index=models.Index(
                condition=models.Q(("ended_at_ms__isnull", True), ("first__isnull", True)),
                fields=["group"],
                name="rebalance_open",
            ),
        ),
    ]
